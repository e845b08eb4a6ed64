//! A dry run: the command is only written down.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use pubsub::Root;
use pubsub::store::append_durably;
use runtime::{clock, error_chain};
use schemas::{DeviceLine, GoTime, parse};

use crate::device::Device;
use crate::progress::Outcome;
use crate::standing::Command;

/// Where the lines are, below the root.
const FOLDER: &str = "/persist";
const FILE_NAME: &str = "device-actions.jsonl";
/// The end of the file is searched for a line that was written before a crash: hundreds of lines.
const SEARCHED: u64 = 64 * 1024;

/// Appends a line to `device-actions.jsonl`, once per boot, operation and counter.
#[derive(Debug)]
pub(crate) struct DryRun {
    folder: PathBuf,
    boot_id: String,
}

impl DryRun {
    pub(crate) fn new(root: &Root, boot_id: &str) -> Self {
        Self { folder: root.join(FOLDER), boot_id: boot_id.to_owned() }
    }

    fn write_down(&self, command: &Command) -> Outcome {
        let line = DeviceLine {
            action: command.operation.name().to_owned(),
            reason: command.reason.clone(),
            counter: command.counter,
            content_tree_uuid: String::new(),
            boot_id: self.boot_id.clone(),
            at: GoTime::from(clock::wall()),
        };
        match has_line(&self.folder.join(FILE_NAME), &line) {
            Ok(true) => return Outcome::Done,
            Ok(false) => {}
            Err(error) => return Outcome::Failed(format!("cannot read {FILE_NAME}: {error}")),
        }
        match append_durably(&self.folder, FILE_NAME, &line.to_line()) {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error_chain(&error)),
        }
    }
}

impl Device for DryRun {
    fn carry_out<'a>(&'a self, command: &'a Command) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(std::future::ready(self.write_down(command)))
    }
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

#[cfg(test)]
mod tests {
    use schemas::Operation;

    use super::*;

    fn lines(folder: &Path) -> Vec<DeviceLine> {
        let text = std::fs::read_to_string(folder.join("persist").join(FILE_NAME)).unwrap();
        text.lines().map(|line| parse(line.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn one_line_per_boot_operation_and_counter() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let command = |operation, counter| Command { operation, counter, reason: "why".to_owned() };
        for (boot_id, operation, counter, lines_after) in [
            ("boot-1", Operation::Reboot, 1, 1),
            ("boot-1", Operation::Reboot, 1, 1),
            ("boot-1", Operation::Reboot, 2, 2),
            ("boot-1", Operation::Poweroff, 2, 3),
            ("boot-2", Operation::Reboot, 2, 4),
            ("boot-2", Operation::Reboot, 2, 4),
        ] {
            let outcome = DryRun::new(&root, boot_id).write_down(&command(operation, counter));
            assert_eq!(outcome, Outcome::Done);
            assert_eq!(lines(folder.path()).len(), lines_after, "{boot_id} {operation} {counter}");
        }
        let line = lines(folder.path()).remove(0);
        assert_eq!((line.action.as_str(), line.reason.as_str(), line.counter), ("reboot", "why", 1));
    }
}
