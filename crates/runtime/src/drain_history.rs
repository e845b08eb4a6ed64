//! The files of the flight recorder: `ROOT/persist/status/zedkube/drains/00000012-UUID.jsonl`, one for each drain, written
//! by zedkube alone. What a line means: [`DrainLine`].

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pubsub::store::{append_durably, remove_durably};
use pubsub::{Owner, Persistence, Refusal, Root, StoreError, read_checked};
use schemas::{DrainLine, agent};

/// Most drains that are kept; the oldest go.
pub const MOST_DRAINS: usize = 50;

/// Most bytes of all drains together; the oldest go.
pub const MOST_BYTES: u64 = 20 * 1024 * 1024;

/// Most bytes of one drain: the writer leaves lines out before that.
pub const MOST_BYTES_OF_ONE: u64 = 2 * 1024 * 1024;

/// Most entries of the folder that are looked at. Nobody but zedkube has a reason to put files there.
const MOST_ENTRIES: usize = 1000;

/// Longest id of a drain in a file name; a UUID has 36 characters.
const LONGEST_ID: usize = 64;

/// The file of one drain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrainFile {
    /// Counts the drains of this device. It orders them, whatever its clock says.
    pub number: u32,
    /// UUID of the drain.
    pub drain_id: String,
}

/// The name of the file in its folder.
impl fmt::Display for DrainFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08}-{}.jsonl", self.number, self.drain_id)
    }
}

impl DrainFile {
    /// The drain whose file has this name; `None` for a name that the recorder does not give.
    fn of_name(name: &str) -> Option<Self> {
        let (number, drain_id) = name.strip_suffix(".jsonl")?.split_once('-')?;
        let is_id = drain_id.len() <= LONGEST_ID
            && drain_id.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
        let file = Self { number: number.parse().ok()?, drain_id: drain_id.to_owned() };
        (is_id && file.to_string() == name).then_some(file)
    }
}

/// The folder of the files below this root.
pub fn folder(root: &Root) -> PathBuf {
    root.agent_folder(agent::ZEDKUBE, Persistence::Persistent).join("drains")
}

/// The drains that are kept, oldest first; none if the folder does not exist.
///
/// # Errors
/// The folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<DrainFile>, Refusal> {
    let refused = |error: std::io::Error| {
        Refusal::new(folder, format!("cannot be listed: {error}"), "a folder that zedkube has made")
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refused(error)),
    };
    let mut files = Vec::new();
    for entry in entries.take(MOST_ENTRIES) {
        let name = entry.map_err(refused)?.file_name();
        files.extend(name.to_str().and_then(DrainFile::of_name));
    }
    files.sort_unstable();
    Ok(files)
}

/// The lines of a drain, in the order in which they were written. A line that a crash has torn is left out.
///
/// # Errors
/// The file cannot be read, or another user may have written it.
pub fn read(folder: &Path, file: &DrainFile) -> Result<Vec<DrainLine>, Refusal> {
    let bytes = read_checked(&folder.join(file.to_string()), MOST_BYTES_OF_ONE, Owner::RootOrSelf)?;
    let bytes = bytes.unwrap_or_default();
    Ok(bytes.split(|byte| *byte == b'\n').filter_map(DrainLine::read).collect())
}

/// Appends lines, each with its newline, durably. Before the first line of a drain [`make_room`] has to be called.
///
/// # Errors
/// The disk takes nothing.
pub fn append(folder: &Path, file: &DrainFile, lines: &[u8]) -> Result<(), StoreError> {
    append_durably(folder, &file.to_string(), lines)
}

/// Removes the oldest drains, so that one more fits.
///
/// # Errors
/// The folder cannot be listed, or a file cannot be removed.
pub fn make_room(folder: &Path) -> Result<(), String> {
    let files = list(folder).map_err(|refusal| refusal.to_string())?;
    let mut bytes = 0;
    for (kept, file) in files.iter().rev().enumerate() {
        let name = file.to_string();
        bytes += fs::symlink_metadata(folder.join(&name)).map_or(0, |data| data.len());
        if MOST_DRAINS <= kept + 1 || MOST_BYTES - MOST_BYTES_OF_ONE < bytes {
            remove_durably(folder, &name).map_err(|error| crate::error_chain(&error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use schemas::{DrainEvent, GoTime};

    use super::*;

    fn named(number: u32) -> DrainFile {
        DrainFile { number, drain_id: format!("id-{number}") }
    }

    fn line(up_millis: u64, event: DrainEvent) -> DrainLine {
        DrainLine { at: GoTime::ZERO, up_millis, event }
    }

    #[test]
    fn lines_come_back_without_what_a_crash_has_torn_or_somebody_has_spoilt() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("drains");
        assert_eq!(list(&folder).unwrap(), [], "nothing was drained yet");
        let (first, second) = (line(1, DrainEvent::Restarted), line(2, DrainEvent::ApiBack));
        append(&folder, &named(7), &first.to_line()).unwrap();
        append(&folder, &named(7), &second.to_line()[..20]).unwrap();
        append(&folder, &named(7), b"{}\nnull\n\xff\n\n").unwrap();
        append(&folder, &named(7), &second.to_line()).unwrap();
        assert_eq!(read(&folder, &named(7)).unwrap(), [first, second]);
        assert_eq!(read(&folder, &named(8)).unwrap(), []);
    }

    #[test]
    fn only_the_recorders_own_names_are_drains_and_their_number_orders_them() {
        let temporary = tempfile::tempdir().unwrap();
        for name in [
            "00000010-b.jsonl",
            "00000009-c.jsonl",
            "4294967295-a.jsonl",
            "10-b.jsonl",
            "00000011-..jsonl",
            "00000011-a.json",
            "00000011.jsonl",
            "+0000011-a.jsonl",
            "99999999999-a.jsonl",
            "notes",
        ] {
            fs::File::create(temporary.path().join(name)).unwrap();
        }
        let names: Vec<String> = list(temporary.path()).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["00000009-c.jsonl", "00000010-b.jsonl", "4294967295-a.jsonl"]);
    }

    #[test]
    fn the_oldest_drains_make_room() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let numbers = || list(folder).unwrap().iter().map(|file| file.number).collect::<Vec<_>>();
        for number in 1..=1000 {
            make_room(folder).unwrap();
            append(folder, &named(number), b"\n").unwrap();
        }
        assert_eq!(numbers(), (951..=1000).collect::<Vec<_>>(), "50 drains");
        let long = vec![b'\n'; usize::try_from(MOST_BYTES_OF_ONE).unwrap()];
        for number in 1001..=1015 {
            make_room(folder).unwrap();
            append(folder, &named(number), &long).unwrap();
        }
        assert_eq!(numbers(), (1006..=1015).collect::<Vec<_>>(), "20 MiB");
    }
}
