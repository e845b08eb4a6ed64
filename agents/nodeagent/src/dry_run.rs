//! A dry run: the command is only written to a file.

use pubsub::Root;
use runtime::{clock, device_actions, error_chain};
use schemas::{DeviceLine, GoTime};

use crate::facts::Outcome;
use crate::standing::Command;

/// The folder of the file.
const FOLDER: &str = "/persist";

/// Appends a line to `device-actions.jsonl`, once per boot, operation and counter.
#[derive(Debug)]
pub(crate) struct DryRun {
    root: Root,
    boot_id: String,
}

impl DryRun {
    pub(crate) fn new(root: &Root, boot_id: &str) -> Self {
        Self { root: root.clone(), boot_id: boot_id.to_owned() }
    }

    pub(crate) fn write_down(&self, command: &Command) -> Outcome {
        let line = DeviceLine {
            action: command.operation.name().to_owned(),
            reason: command.reason.clone(),
            counter: command.counter,
            source: command.source,
            content_tree_uuid: String::new(),
            boot_id: self.boot_id.clone(),
            at: GoTime::from(clock::wall()),
        };
        match device_actions::write_down(&self.root.join(FOLDER), &line) {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error_chain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use schemas::{Operation, parse};

    use super::*;

    fn lines(folder: &Path) -> Vec<DeviceLine> {
        let text = std::fs::read_to_string(folder.join("persist").join("device-actions.jsonl")).unwrap();
        text.lines().map(|line| parse(line.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn one_line_per_boot_operation_and_counter() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let command = |operation, counter| Command::new(operation, counter, Some("why".to_owned()));
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
