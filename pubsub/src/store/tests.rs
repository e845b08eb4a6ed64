use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn put(&self, name: &str, bytes: &str) {
        File::create(self.0.path().join(name)).unwrap().write_all(bytes.as_bytes()).unwrap();
    }

    fn write(&self, bytes: &str, backup: Backup) {
        write_durably(self.0.path(), "a.json", bytes.as_bytes(), backup).unwrap();
    }

    /// Checks names and contents of all files.
    #[track_caller]
    fn check(&self, expected: &[(&str, &str)]) {
        let found: BTreeMap<String, String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        let expected = expected.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
        assert_eq!(found, expected);
    }

    fn mode(&self, name: &str) -> u32 {
        fs::symlink_metadata(self.0.path().join(name)).unwrap().permissions().mode() & 0o7777
    }
}

#[test]
fn a_write_replaces_the_file_and_leaves_nothing_else() {
    let place = Place::new();
    place.write("1", Backup::None);
    place.check(&[("a.json", "1")]);
    place.write("2", Backup::None);
    place.check(&[("a.json", "2")]);
    assert_eq!(place.mode("a.json"), 0o600);
}

#[test]
fn a_backup_holds_the_content_before() {
    let place = Place::new();
    place.write("1", Backup::Keep);
    place.check(&[("a.json", "1")]);
    place.write("2", Backup::Keep);
    place.check(&[("a.json", "2"), ("a.json.bak", "1")]);
    place.write("3", Backup::Keep);
    place.check(&[("a.json", "3"), ("a.json.bak", "2")]);
    assert_eq!(place.mode("a.json.bak"), 0o600);
}

#[test]
fn an_emptied_file_does_not_push_out_the_backup() {
    let place = Place::new();
    place.write("1", Backup::Keep);
    place.write("2", Backup::Keep);
    place.put("a.json", "");
    place.write("3", Backup::Keep);
    place.check(&[("a.json", "3"), ("a.json.bak", "1")]);
}

#[test]
fn a_name_too_long_for_a_backup_is_written_without() {
    let place = Place::new();
    let name = format!("{}.json", "k".repeat(250));
    write_durably(place.0.path(), &name, b"1", Backup::Keep).unwrap();
    write_durably(place.0.path(), &name, b"2", Backup::Keep).unwrap();
    place.check(&[(&name, "2")]);
}

#[test]
fn a_link_is_replaced_not_followed() {
    let place = Place::new();
    place.put("victim", "precious");
    symlink(place.0.path().join("victim"), place.0.path().join("a.json")).unwrap();
    place.write("1", Backup::Keep);
    place.check(&[("a.json", "1"), ("victim", "precious")]);
}

#[test]
fn removal_takes_the_backup_along() {
    let place = Place::new();
    place.write("1", Backup::Keep);
    place.write("2", Backup::Keep);
    assert!(remove_durably(place.0.path(), "a.json").unwrap());
    place.check(&[]);
    assert!(!remove_durably(place.0.path(), "a.json").unwrap());
}

#[test]
fn a_failed_write_leaves_the_old_file_and_no_other() {
    let place = Place::new();
    fs::create_dir(place.0.path().join("a.json")).unwrap();
    let error = write_durably(place.0.path(), "a.json", b"1", Backup::None).unwrap_err();
    assert!(error.to_string().starts_with("cannot replace "), "{error}");
    fs::remove_dir(place.0.path().join("a.json")).unwrap();
    place.check(&[]);
}

#[test]
fn a_missing_folder_is_an_error() {
    let place = Place::new();
    let error = write_durably(&place.0.path().join("none"), "a.json", b"1", Backup::None).unwrap_err();
    assert_eq!(error.io().kind(), io::ErrorKind::NotFound);
}

#[test]
fn unfinished_files_are_removed_and_others_kept() {
    let place = Place::new();
    for name in [".tmp.1.0", ".tmp.4711.12", "tmp123456"] {
        place.put(name, "half");
    }
    let kept = [(".tmp.1.0.json", "k"), ("a.json", "k"), ("restarted", "k"), ("tmp", "k"), ("tmp12a", "k")];
    for (name, text) in kept {
        place.put(name, text);
    }
    fs::create_dir(place.0.path().join("tmp7")).unwrap();
    assert_eq!(remove_leftovers(place.0.path()).unwrap(), 3);
    fs::remove_dir(place.0.path().join("tmp7")).unwrap();
    place.check(&kept);
}

#[test]
fn folders_are_made_with_those_above() {
    let place = Place::new();
    let folder = place.0.path().join("run/zedkube/NodeDrainStatus");
    create_folder(&folder).unwrap();
    create_folder(&folder).unwrap();
    assert_eq!((place.mode("run"), place.mode("run/zedkube/NodeDrainStatus")), (0o700, 0o700));
    place.put("file", "");
    assert!(create_folder(&place.0.path().join("file/below")).is_err());
}

#[test]
fn lines_are_appended_and_a_cut_one_is_closed() {
    let place = Place::new();
    let append = |line: &str| append_durably(place.0.path(), "log.jsonl", line.as_bytes()).unwrap();
    append("{1}\n");
    append("{2}\n");
    place.check(&[("log.jsonl", "{1}\n{2}\n")]);
    place.put("log.jsonl", "{1}\n{2");
    append("{3}\n");
    place.check(&[("log.jsonl", "{1}\n{2\n{3}\n")]);
}

#[test]
fn nothing_is_appended_through_a_link_or_into_a_fifo() {
    let place = Place::new();
    place.put("secret", "kept");
    symlink(place.0.path().join("secret"), place.0.path().join("link")).unwrap();
    let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
    nix::unistd::mkfifo(&place.0.path().join("fifo"), mode).unwrap();
    for name in ["link", "fifo"] {
        let error = append_durably(place.0.path(), name, b"{1}\n").unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(fs::read_to_string(place.0.path().join("secret")).unwrap(), "kept");
}

/// Somebody puts another file into the place of one that was read.
#[test]
fn what_nobody_has_read_is_put_back_and_never_takes_the_place_of_a_newer_file() {
    for newer in [None, Some("newer")] {
        let place = Place::new();
        let (path, target) = (place.0.path().join("order"), place.0.path().join("order.done"));
        let moved = |judged: &str| {
            rename_judged(&path, &target, |renamed| {
                if let Some(newer) = newer {
                    place.put("order", newer);
                }
                fs::read_to_string(renamed).unwrap() == judged
            })
        };
        place.put("order", "another");
        assert!(matches!(moved("judged"), Ok(Renamed::Another)));
        let kept = newer.unwrap_or("another");
        assert_eq!(fs::read_to_string(&path).unwrap(), kept);
        assert!(matches!(moved(kept), Ok(Renamed::Judged)));
        assert_eq!(fs::read_to_string(&target).unwrap(), kept);
    }
}
