//! What dry runs would have done: the lines of `ROOT/persist/device-actions.jsonl`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use pubsub::store::append_durably;
use pubsub::{Root, StoreError};
use schemas::{DeviceLine, parse};
use thiserror::Error;

/// Where the lines are, below the root.
const FOLDER: &str = "/persist";
const FILE_NAME: &str = "device-actions.jsonl";
/// The end of the file is searched for a line that was written before a crash: hundreds of lines.
const SEARCHED: u64 = 64 * 1024;

/// The line could not be written.
#[derive(Debug, Error)]
pub enum WriteDownError {
    /// The lines that are there cannot be read, so nobody knows whether this one is among them.
    #[error("cannot read {FILE_NAME}")]
    Read(#[source] io::Error),
    /// The line cannot be appended.
    #[error("cannot write down: {action}")]
    Append {
        /// What would have been done.
        action: String,
        /// What failed.
        source: StoreError,
    },
}

/// Appends the line durably, unless the same action of the same boot, counter and image is there already.
pub fn write_down(root: &Root, line: &DeviceLine) -> Result<(), WriteDownError> {
    let folder = root.join(FOLDER);
    if has_line(&folder.join(FILE_NAME), line).map_err(WriteDownError::Read)? {
        return Ok(());
    }
    append_durably(&folder, FILE_NAME, &line.to_line())
        .map_err(|source| WriteDownError::Append { action: line.action.clone(), source })
}

/// Whether the end of the file holds a line about the same action.
fn has_line(path: &Path, wanted: &DeviceLine) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SEARCHED)))?;
    let mut end = Vec::new();
    file.take(SEARCHED).read_to_end(&mut end)?;
    Ok(end.split(|byte| *byte == b'\n').any(|line| is_about_the_same(line, wanted)))
}

fn is_about_the_same(line: &[u8], wanted: &DeviceLine) -> bool {
    parse::<DeviceLine>(line).is_ok_and(|line| {
        (&line.action, line.counter, &line.content_tree_uuid, &line.boot_id)
            == (&wanted.action, wanted.counter, &wanted.content_tree_uuid, &wanted.boot_id)
    })
}
