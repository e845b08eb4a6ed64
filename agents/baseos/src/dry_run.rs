//! A dry run: the activation is only written down.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use pubsub::Root;
use pubsub::store::append_durably;
use runtime::clock;
use schemas::{BaseOsConfig, DeviceLine, GoTime, parse};
use thiserror::Error;

/// Where the lines are, below the root. nodeagent writes there, too.
const FOLDER: &str = "/persist";
const FILE_NAME: &str = "device-actions.jsonl";
/// The end of the file is searched for a line that was written before a crash: hundreds of lines.
const SEARCHED: u64 = 64 * 1024;

/// The line could not be written.
#[derive(Debug, Error)]
pub(crate) enum WriteDownError {
    #[error("cannot read {FILE_NAME}")]
    Read(#[source] io::Error),
    #[error("cannot write down the activation")]
    Append(#[source] pubsub::StoreError),
}

/// Appends a line to `device-actions.jsonl`, once per boot, image and counter.
pub(crate) fn write_down(root: &Root, boot_id: &str, config: &BaseOsConfig) -> Result<(), WriteDownError> {
    let folder = root.join(FOLDER);
    let line = DeviceLine {
        action: "activate".to_owned(),
        reason: format!("image {}", config.base_os_version),
        counter: config.retry_update_counter,
        content_tree_uuid: config.content_tree_uuid.clone(),
        boot_id: boot_id.to_owned(),
        at: GoTime::from(clock::wall()),
    };
    if has_line(&folder.join(FILE_NAME), &line).map_err(WriteDownError::Read)? {
        return Ok(());
    }
    append_durably(&folder, FILE_NAME, &line.to_line()).map_err(WriteDownError::Append)
}

/// Whether the end of the file holds a line about the same activation.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_boot_image_and_counter() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for (boot_id, uuid, counter, lines) in [
            ("boot-1", "a", 1, 1),
            ("boot-1", "a", 1, 1),
            ("boot-1", "a", 2, 2),
            ("boot-1", "b", 2, 3),
            ("boot-2", "b", 2, 4),
        ] {
            let config = BaseOsConfig {
                content_tree_uuid: uuid.to_owned(),
                retry_update_counter: counter,
                ..BaseOsConfig::default()
            };
            write_down(&root, boot_id, &config).unwrap();
            let text = std::fs::read_to_string(folder.path().join("persist").join(FILE_NAME)).unwrap();
            assert_eq!(text.lines().count(), lines, "{boot_id} {uuid} {counter}");
        }
    }
}
