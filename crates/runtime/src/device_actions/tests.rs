use std::fs;
use std::path::PathBuf;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use schemas::Source;
use tempfile::TempDir;

use super::*;

/// A device whose file holds lines.
fn device(text: &[u8]) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let persist = folder.path().join("persist");
    fs::create_dir(&persist).unwrap();
    let path = persist.join(FILE_NAME);
    #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
    fs::write(&path, text).unwrap();
    (folder, persist, path)
}

fn line(counter: u32) -> DeviceLine {
    DeviceLine { action: "reboot".to_owned(), counter, boot_id: "boot".to_owned(), ..DeviceLine::default() }
}

fn counters(path: &Path) -> Vec<u32> {
    let text = fs::read(path).unwrap();
    assert!(text.ends_with(b"\n"));
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| parse::<DeviceLine>(line).ok()).map(|line| line.counter).collect()
}

#[test]
fn a_file_that_is_full_loses_its_oldest_lines() {
    let all: Vec<u8> = (0..12_000).flat_map(|counter| line(counter).to_line()).collect();
    let full = usize::try_from(MOST_BYTES).unwrap();
    for (length, is_full) in [(full - 1, false), (full, true), (all.len(), true)] {
        let (_folder, persist, path) = device(&all[..length]);
        write_down(&persist, &line(1_000_000)).unwrap();
        let counters = counters(&path);
        assert_eq!(counters.last(), Some(&1_000_000), "{length}");
        assert!(counters.is_sorted(), "the newest last, none twice");
        assert_eq!(counters[0] != 0, is_full, "{length}");
        let kept = fs::metadata(&path).unwrap().len();
        assert_eq!(kept < KEPT_BYTES + 1000, is_full, "{kept} of {length}");
        // The line is still found.
        write_down(&persist, &line(1_000_000)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), kept);
    }
}

#[test]
fn lines_that_are_no_lines_are_kept_apart() {
    let no_newline = vec![b'x'; usize::try_from(MOST_BYTES).unwrap()];
    for text in [&b""[..], b"\n", b"half a li", b"\xff\xfe\n{\n", &no_newline] {
        let (_folder, persist, path) = device(text);
        write_down(&persist, &line(7)).unwrap();
        assert_eq!(counters(&path), [7], "{} bytes", text.len());
    }
}

#[test]
fn one_line_per_boot_action_source_image_and_counter() {
    let (_folder, persist, path) = device(b"");
    let (person, controller) = (Source::Person, Source::Controller);
    for (boot_id, action, source, uuid, counter, lines) in [
        ("boot-1", "activate", controller, "a", 1, 1),
        ("boot-1", "activate", controller, "a", 1, 1),
        ("boot-1", "activate", controller, "a", 2, 2),
        ("boot-1", "activate", controller, "b", 2, 3),
        ("boot-1", "activate", person, "b", 2, 4),
        ("boot-2", "activate", person, "b", 2, 5),
        ("boot-2", "reboot", person, "b", 2, 6),
    ] {
        let (boot_id, action) = (boot_id.to_owned(), action.to_owned());
        let line =
            DeviceLine { source, content_tree_uuid: uuid.to_owned(), boot_id, action, ..line(counter) };
        write_down(&persist, &line).unwrap();
        assert_eq!(counters(&path).len(), lines, "{line:?}");
    }
}

/// A pipe must not block the agent, and a link must not lead its line to another file.
#[test]
fn only_a_regular_file_is_written_to() {
    let replace: [fn(&Path); 4] = [
        |path| mkfifo(path, Mode::S_IRWXU).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink("/nowhere", path).unwrap(),
        |path| std::os::unix::fs::symlink("elsewhere", path).unwrap(),
    ];
    for (number, replace) in replace.into_iter().enumerate() {
        let (_folder, persist, path) = device(b"");
        fs::rename(&path, path.with_file_name("elsewhere")).unwrap();
        replace(&path);
        let error = crate::error_chain(&write_down(&persist, &line(7)).unwrap_err());
        assert!(error.contains("device-actions.jsonl"), "{number}: {error}");
        assert_eq!(fs::metadata(path.with_file_name("elsewhere")).unwrap().len(), 0, "{number}");
        fs::rename(path.with_file_name("elsewhere"), &path).unwrap_or_else(|_| {
            fs::remove_dir(&path).unwrap();
        });
        write_down(&persist, &line(7)).unwrap();
        assert_eq!(counters(&path), [7], "{number}: it goes on");
    }
}
