//! A command of the settings as a means of the device.

use std::time::Duration;

use runtime::{program, settings};

use crate::progress::Outcome;
use crate::standing::Command;

/// Runs `device.command` or `device.shutdown`. The operation, its counter and its reason are in the environment:
/// `EBB_OPERATION`, `EBB_COUNTER`, `EBB_REASON`.
#[derive(Debug)]
pub(crate) struct CommandDevice {
    name: &'static str,
    command: settings::Command,
    on_success: Outcome,
}

impl CommandDevice {
    /// Its success means that the device is going down.
    pub(crate) fn goes_down(command: &settings::Command) -> Self {
        let on_success = Outcome::Started(format!("{} has ended well", command.program));
        Self { name: "device.command", command: command.clone(), on_success }
    }

    /// Its success means that everything is done.
    pub(crate) fn stays_up(command: &settings::Command) -> Self {
        Self { name: "device.shutdown", command: command.clone(), on_success: Outcome::Done }
    }

    /// The setting's name.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Runs it. Whether the device is still up after a while is looked at elsewhere.
    pub(crate) async fn run(&self, command: &Command) -> Outcome {
        match program::run(&self.command, &environment(command), Duration::MAX).await {
            Ok(_) => self.on_success.clone(),
            Err(error) => Outcome::Failed(error),
        }
    }
}

/// What hooks and commands are told.
pub(crate) fn environment(command: &Command) -> Vec<(&'static str, String)> {
    vec![
        ("EBB_OPERATION", command.operation.name().to_owned()),
        ("EBB_COUNTER", command.counter.to_string()),
        // A NUL cannot be in an environment.
        ("EBB_REASON", command.reason.replace('\0', " ")),
    ]
}
