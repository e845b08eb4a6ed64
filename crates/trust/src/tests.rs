use std::os::unix::fs::{PermissionsExt, chown, symlink};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::*;

/// A user that is neither root nor this process's.
const STRANGER: u32 = 65_534;

/// A folder that no other user can write, and no folder above it: the usual folder for temporary files can be written by
/// all.
fn place() -> TempDir {
    let homes = [
        Some(PathBuf::from("/root")),
        std::env::var_os("HOME").map(PathBuf::from),
        std::env::current_dir().ok(),
    ];
    let found = homes.into_iter().flatten().find_map(|home| {
        let is_ours = home
            .ancestors()
            .all(|folder| fs::metadata(folder).is_ok_and(|folder| distrusted(&folder).is_none()));
        is_ours.then(|| TempDir::new_in(home).ok())?
    });
    found.expect("HOME, or a folder above it, can be written by other users: this test needs one that cannot")
}

#[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A [`place`] with a key and links to it, as a kubelet keeps its certificates: `link/current.pem` leads to
/// `pki/2026.pem`.
fn with_links() -> TempDir {
    let folder = place();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("pki")).unwrap();
    write(&path("pki/2026.pem"), b"key");
    mode(&path("pki/2026.pem"), 0o600);
    symlink("2026.pem", path("pki/current.pem")).unwrap();
    symlink(path("pki"), path("link")).unwrap();
    folder
}

fn why(path: &Path) -> String {
    Trust::RootOrSelf.read(path).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn a_file_that_others_may_write_or_own_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    write(&file, b"text");
    for (bits, expected) in [
        (0o600, ""),
        (0o644, ""),
        (0o664, "writable by others (mode 0664)"),
        (0o646, "writable by others (mode 0646)"),
    ] {
        mode(&file, bits);
        assert!(
            why(&file).contains(expected) && why(&file).is_empty() == expected.is_empty(),
            "{bits:o}: {}",
            why(&file)
        );
        assert_eq!(Trust::Anybody.read(&file).unwrap(), b"text");
    }
}

#[test]
fn as_root_what_another_user_owns_is_refused() {
    let folder = with_links();
    let path = |name: &str| folder.path().join(name);
    chown(path("pki"), Some(STRANGER), None).unwrap();
    assert!(why(&path("link/current.pem")).contains("owned by user 65534"));
    let file = path("pki/2026.pem");
    chown(&file, Some(STRANGER), None).unwrap();
    assert!(why(&file).contains("owned by user 65534"), "{}", why(&file));
    assert_eq!(Trust::Anybody.read(&file).unwrap(), b"key");
}

#[test]
fn what_is_no_file_hangs_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
    fs::create_dir(path("folder")).unwrap();
    write(&path("long"), &vec![b'x'; 4 * 1024 * 1024 + 1]);
    mode(&path("long"), 0o600);
    for (name, expected) in [
        ("pipe", "not a file"),
        ("folder", "not a file"),
        ("long", "longer than 4 MiB"),
        ("nothing", "No such file"),
        ("folder/../nothing", "No such file"),
    ] {
        for trust in [Trust::Anybody, Trust::RootOrSelf] {
            let error = trust.read(&path(name)).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }
}

/// As `kubelet-client-current.pem` links to the newest certificate.
#[test]
fn links_are_followed_through_folders_of_ours_only() {
    let folder = with_links();
    let path = |name: &str| folder.path().join(name);
    symlink("../pki/../link/current.pem", path("pki/long.pem")).unwrap();
    symlink("circle", path("circle")).unwrap();
    symlink("nowhere", path("dangling")).unwrap();
    for (name, expected) in [
        ("pki/2026.pem", ""),
        ("pki/current.pem", ""),
        ("link/current.pem", ""),
        ("pki/long.pem", ""),
        ("circle", "in a circle"),
        ("dangling", "No such file"),
    ] {
        let why = why(&path(name));
        assert!(why.contains(expected) && why.is_empty() == expected.is_empty(), "{name}: {why}");
    }
    // A folder in which another user can create another link, although its sticky bit keeps this one from being removed.
    for bits in [0o770, 0o1777] {
        mode(&path("pki"), bits);
        assert!(why(&path("pki/current.pem")).contains("through folder `"), "{bits:o}");
        assert_eq!(why(&path("pki/2026.pem")), "", "no link on the way");
    }
}

/// A user who may write the program decides what runs as root.
#[test]
fn a_program_that_others_may_write_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("plugin");
    write(&program, b"#!/bin/sh\n");
    let text = program.to_str().unwrap();
    for (bits, expected) in
        [(0o755, ""), (0o775, "writable by others (mode 0775)"), (0o757, "writable by others")]
    {
        mode(&program, bits);
        let why = |trust: Trust| {
            trust.check_program(text).map_or_else(|error| error.to_string(), |()| String::new())
        };
        let said = why(Trust::RootOrSelf);
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{bits:o}: {said}");
        assert_eq!(why(Trust::Anybody), "");
    }
    mode(&program, 0o755);
    mode(folder.path(), 0o777);
    let said = Trust::RootOrSelf.check_program(text).unwrap_err().to_string();
    assert!(said.starts_with("it is in folder `"), "it could be replaced: {said}");
    for there in ["sh", "/bin/sh", "no-such-program", "/no/such/program"] {
        Trust::RootOrSelf.check_program(there).unwrap();
    }
}

#[test]
fn a_user_without_a_name_is_a_number() {
    assert_eq!((user_name(0), user_name(4_000_000_000)), ("root".to_owned(), "4000000000".to_owned()));
}
