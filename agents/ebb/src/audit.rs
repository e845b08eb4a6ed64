//! What persons do with the verbs of this program: `ROOT/persist/ebb/audit/NUMBER.jsonl`, a line for each deed.
//!
//! Several verbs may write at once. Each appends to the file with the highest number, and begins the next one when that
//! file is long: so nobody needs a lock, and no line is lost.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Context;
use nix::unistd::{getuid, ttyname};
use pubsub::Root;
use pubsub::store::append_durably;
use runtime::peers::user_name;
use runtime::{boot, clock};
use schemas::AuditLine;

/// A file that is longer is not appended to any more.
const LONG: u64 = 512 * 1024;

/// Most files; the oldest go.
const MOST_FILES: u32 = 4;

/// `/proc/self/loginuid` of a process that nobody has started by logging in.
const NOBODY: u32 = u32::MAX;

/// Writes a deed down: what was done, and the person's reason.
///
/// # Errors
/// The disk takes nothing. The deed is done all the same.
pub(crate) fn write_down(root: &Root, text: &str, reason: &str) -> anyhow::Result<()> {
    let line = AuditLine {
        at: clock::wall().into(),
        boot_id: boot::boot_id(root).unwrap_or_default(),
        uid: getuid().as_raw(),
        login: login(),
        tty: tty(),
        text: text.to_owned(),
        reason: reason.to_owned(),
    };
    let folder = root.join("/persist/ebb/audit");
    append(&folder, &line.to_line())
        .with_context(|| format!("this is not written down in {}", folder.display()))
}

fn append(folder: &Path, line: &[u8]) -> anyhow::Result<()> {
    let numbers = numbers(folder)?;
    let last = numbers.iter().max().copied().unwrap_or(1);
    let is_long = fs::symlink_metadata(folder.join(name(last))).is_ok_and(|data| LONG <= data.len());
    let number = if is_long { last.saturating_add(1) } else { last };
    append_durably(folder, &name(number), line)?;
    for old in numbers.into_iter().filter(|old| old.saturating_add(MOST_FILES) <= number) {
        match fs::remove_file(folder.join(name(old))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn name(number: u32) -> String {
    format!("{number:08}.jsonl")
}

/// The numbers of the files that are there.
fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let file = entry?.file_name();
        let number = file.to_str().and_then(|file| file.strip_suffix(".jsonl")?.parse().ok());
        numbers.extend(number.filter(|number| file.to_str() == Some(&name(*number))));
    }
    Ok(numbers)
}

/// The person who has logged in, as the kernel keeps it through `su` and `sudo`; else whom `sudo` names.
fn login() -> String {
    let by_kernel = fs::read_to_string("/proc/self/loginuid").ok();
    let uid = by_kernel.and_then(|text| text.trim().parse().ok()).filter(|uid| *uid != NOBODY);
    let by_sudo = || std::env::var("SUDO_USER").ok();
    uid.map(user_name).or_else(by_sudo).unwrap_or_default()
}

fn tty() -> String {
    let of = |stream: &dyn AsFd| ttyname(stream.as_fd()).ok();
    let found = of(&io::stdin()).or_else(|| of(&io::stderr())).or_else(|| of(&io::stdout()));
    found.map(|path| path.display().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use schemas::parse;

    use super::*;

    #[test]
    fn a_deed_is_a_line_and_the_oldest_files_go() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path());
        write_down(&root, "commands are frozen", "fan swap").unwrap();
        let folder = place.path().join("persist/ebb/audit");
        let first = fs::read(folder.join("00000001.jsonl")).unwrap();
        let line: AuditLine = parse(&first).unwrap();
        assert_eq!((line.text.as_str(), line.reason.as_str()), ("commands are frozen", "fan swap"));
        assert_eq!(line.uid, getuid().as_raw());
        fs::File::create(folder.join("notes.jsonl")).unwrap();
        let long = vec![b'x'; usize::try_from(LONG).unwrap()];
        for _ in 0..6 {
            append(&folder, &long).unwrap();
        }
        let mut left = numbers(&folder).unwrap();
        left.sort_unstable();
        assert_eq!(left, [3, 4, 5, 6]);
        assert!(folder.join("notes.jsonl").exists(), "a person's file stays");
        fs::remove_dir_all(&folder).unwrap();
        fs::File::create(&folder).unwrap();
        let error = write_down(&root, "a", "").unwrap_err();
        assert!(format!("{error:#}").contains("persist/ebb/audit"), "{error:#}");
    }
}
