//! The file `device-actions.jsonl`: the actions that dry runs would have carried out, the newest last. Each agent
//! with dry runs has a file of its own, in a folder that only it writes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use pubsub::store::{append_durably, create_folder, write_durably};
use pubsub::{Backup, StoreError};
use schemas::{DeviceLine, parse};
use thiserror::Error;

use crate::regular_file::{Links, open_regular};

const FILE_NAME: &str = "device-actions.jsonl";
/// Limit for the size of the file: thousands of lines.
const MOST_BYTES: u64 = 1024 * 1024;
/// The newest bytes that are kept when the limit is reached, so that the next lines are appended again.
const KEPT_BYTES: u64 = MOST_BYTES / 2;
/// The end of the file that is searched for a line from before a crash: hundreds of lines.
const SEARCHED: u64 = 64 * 1024;

/// The reason why the line could not be written.
#[derive(Debug, Error)]
pub enum WriteDownError {
    /// The existing lines cannot be read, so it is not known whether this one is among them.
    #[error("cannot read {FILE_NAME}")]
    Read(#[source] io::Error),
    /// The line cannot be written.
    #[error("cannot write down: {action}")]
    Write {
        /// The action of the dry run.
        action: String,
        /// The error of the write.
        source: StoreError,
    },
}

/// Appends the line durably to the file in this folder, unless a line about the same action exists (same boot,
/// source, counter and image). When the file has grown to 1 MiB, the older half is removed.
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

/// Opens the file; None if it does not exist.
fn open(path: &Path) -> io::Result<Option<File>> {
    match open_regular(path, Links::Refused) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The last `bytes` bytes of the file.
fn newest(file: &mut File, bytes: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}

/// The newest complete lines.
fn newest_lines(file: &mut File) -> io::Result<Vec<u8>> {
    let mut end = newest(file, KEPT_BYTES)?;
    let first_whole = end.iter().position(|byte| *byte == b'\n').map_or(end.len(), |newline| newline + 1);
    end.drain(..first_whole);
    // The last line is incomplete after a crash.
    if end.last().is_some_and(|byte| *byte != b'\n') {
        end.push(b'\n');
    }
    Ok(end)
}

/// True if there is a line about the same action.
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
mod tests;
