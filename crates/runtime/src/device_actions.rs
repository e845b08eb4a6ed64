//! What dry runs would have done: the lines of `device-actions.jsonl`, the newest last. Each agent that makes dry runs has a
//! file of its own, in a folder that only it writes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use pubsub::store::{append_durably, create_folder, write_durably};
use pubsub::{Backup, StoreError};
use schemas::{DeviceLine, parse};
use thiserror::Error;

use crate::regular_file::{Links, open_regular};

const FILE_NAME: &str = "device-actions.jsonl";
/// The file grows to this length: thousands of lines.
const MOST_BYTES: u64 = 1024 * 1024;
/// What is kept of it then: the newest lines, so that the next thousands are appended again.
const KEPT: u64 = MOST_BYTES / 2;
/// The end of the file is searched for a line that was written before a crash: hundreds of lines.
const SEARCHED: u64 = 64 * 1024;

/// The line could not be written.
#[derive(Debug, Error)]
pub enum WriteDownError {
    /// The lines that are there cannot be read, so nobody knows whether this one is among them.
    #[error("cannot read {FILE_NAME}")]
    Read(#[source] io::Error),
    /// The line cannot be written.
    #[error("cannot write down: {action}")]
    Write {
        /// What would have been done.
        action: String,
        /// What failed.
        source: StoreError,
    },
}

/// Writes the line durably into the file of this folder, unless the same action of the same boot, source, counter and image is there already. In a file
/// that has grown to 1 MiB the older half makes room.
pub fn write_down(folder: &Path, line: &DeviceLine) -> Result<(), WriteDownError> {
    let failed = |source| WriteDownError::Write { action: line.action.clone(), source };
    create_folder(folder).map_err(failed)?;
    let mut file = open(&folder.join(FILE_NAME)).map_err(WriteDownError::Read)?;
    let newest = file.as_mut().map_or(Ok(Vec::new()), |file| newest(file, SEARCHED));
    if has_line(&newest.map_err(WriteDownError::Read)?, line) {
        return Ok(());
    }
    let bytes = line.to_line();
    match file.filter(|file| file.metadata().is_ok_and(|data| MOST_BYTES <= data.len())) {
        None => append_durably(folder, FILE_NAME, &bytes).map_err(failed),
        Some(mut file) => {
            let mut kept = newest_lines(&mut file).map_err(WriteDownError::Read)?;
            kept.extend(bytes);
            write_durably(folder, FILE_NAME, &kept, Backup::None).map_err(failed)
        }
    }
}

/// Nothing when there is no file.
fn open(path: &Path) -> io::Result<Option<File>> {
    match open_regular(path, Links::Refused) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The end of the file.
fn newest(file: &mut File, bytes: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}

/// The newest lines, whole ones.
fn newest_lines(file: &mut File) -> io::Result<Vec<u8>> {
    let mut end = newest(file, KEPT)?;
    let first_whole = end.iter().position(|byte| *byte == b'\n').map_or(end.len(), |newline| newline + 1);
    end.drain(..first_whole);
    // A line that a crash cut short.
    if end.last().is_some_and(|byte| *byte != b'\n') {
        end.push(b'\n');
    }
    Ok(end)
}

/// Whether there is a line about the same action.
fn has_line(lines: &[u8], wanted: &DeviceLine) -> bool {
    lines.split(|byte| *byte == b'\n').any(|line| is_about_the_same(line, wanted))
}

fn is_about_the_same(line: &[u8], wanted: &DeviceLine) -> bool {
    parse::<DeviceLine>(line).is_ok_and(|line| {
        (&line.action, line.counter, line.source, &line.content_tree_uuid, &line.boot_id)
            == (&wanted.action, wanted.counter, wanted.source, &wanted.content_tree_uuid, &wanted.boot_id)
    })
}

#[cfg(test)]
#[path = "device_actions_tests.rs"]
mod tests;
