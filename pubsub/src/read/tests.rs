use std::fs::{self, DirBuilder, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::*;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("global.json")
    }

    fn write(&self, bytes: &[u8], mode: u32) -> PathBuf {
        let mut file = File::create(self.path()).unwrap();
        file.write_all(bytes).unwrap();
        file.set_permissions(Permissions::from_mode(mode)).unwrap();
        self.path()
    }
}

#[track_caller]
fn check(path: &Path, expected: Option<&[u8]>) {
    let got = read_checked(path, 100, Owner::RootOrSelf);
    assert_eq!(got, Ok(expected.map(<[u8]>::to_vec)));
}

#[track_caller]
fn check_refused(path: &Path, reason: &str, accepted: &str) {
    let refusal = read_checked(path, 100, Owner::RootOrSelf).unwrap_err();
    assert_eq!((refusal.path.as_path(), &*refusal.reason, &*refusal.accepted), (path, reason, accepted));
    let shown = refusal.to_string();
    assert!(shown.contains(reason) && !shown.contains('\n'), "{shown}");
}

#[test]
fn good_files_are_read() {
    let place = Place::new();
    check(&place.path(), None);
    check(&place.write(b"", 0o600), Some(b""));
    check(&place.write(b"{}", 0o644), Some(b"{}"));
    check(&place.write(&[b' '; 100], 0o400), Some(&[b' '; 100]));
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let place = Place::new();
    let path = place.path();
    DirBuilder::new().mode(0o700).create(&path).unwrap();
    check_refused(&path, "it is a folder", "a regular file");
    fs::remove_dir(&path).unwrap();

    symlink(place.0.path().join("other"), &path).unwrap();
    check_refused(&path, "it is a symbolic link", "a regular file");
    fs::remove_file(&path).unwrap();

    // No process writes to the FIFO: a reader that opens it in the plain way waits for ever.
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    check_refused(&path, "it is a pipe", "a regular file");
    fs::remove_file(&path).unwrap();

    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    check_refused(&path, "it is a socket or a device", "a regular file");

    check_refused(Path::new("/dev/null"), "it is a device", "a regular file");
}

#[test]
fn a_link_to_a_good_file_is_refused_too() {
    let place = Place::new();
    let good = place.write(b"{}", 0o600);
    let link = place.0.path().join("link.json");
    symlink(good, &link).unwrap();
    check_refused(&link, "it is a symbolic link", "a regular file");
}

#[test]
fn files_that_others_may_write_are_refused() {
    let place = Place::new();
    for mode in [0o666, 0o622, 0o620, 0o602] {
        let path = place.write(b"{}", mode);
        let reason = format!("mode 0{mode:o} lets group or others write");
        check_refused(&path, &reason, "writable by its owner alone (chmod go-w)");
        assert_eq!(read_checked(&path, 100, Owner::Anybody), Ok(Some(b"{}".to_vec())));
    }
}

#[test]
fn as_root_files_of_other_users_are_refused() {
    let place = Place::new();
    let path = place.write(b"{}", 0o600);
    chown(&path, Some(12345), None).unwrap();
    check_refused(&path, "owned by user 12345", "owned by root");
    assert_eq!(read_checked(&path, 100, Owner::Anybody), Ok(Some(b"{}".to_vec())));
}

#[test]
fn long_files_are_refused_without_being_read() {
    let place = Place::new();
    check_refused(&place.write(&[b' '; 101], 0o600), "101 bytes", "at most 100 bytes");
    let path = place.write(b"", 0o600);
    File::options().write(true).open(&path).unwrap().set_len(10 * 1024 * 1024 * 1024).unwrap();
    check_refused(&path, "10737418240 bytes", "at most 100 bytes");
}

#[test]
fn a_file_that_claims_no_length_is_still_limited() {
    // Files below /proc claim length 0 although they have content.
    check_refused(Path::new("/proc/self/smaps"), "more bytes", "at most 100 bytes");
}

#[test]
fn a_path_through_a_file_is_refused() {
    let place = Place::new();
    let path = place.write(b"{}", 0o600).join("below");
    check_refused(&path, "cannot be opened: Not a directory (os error 20)", "a readable file");
}

#[test]
fn a_refusal_is_one_line_whatever_the_name() {
    let refusal = Refusal::new(Path::new("/run/a\nb"), "it is a pipe", "a regular file");
    assert_eq!(refusal.to_string(), r"refused `/run/a\nb`: it is a pipe; accepted: a regular file");
}
