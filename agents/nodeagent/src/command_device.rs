//! `device.command` and `device.shutdown` of the settings as means to take the device down.

use std::time::Duration;

use runtime::{program, settings};

use crate::facts::Outcome;
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
    /// `device.command`: if it succeeds, the device is going down.
    pub(crate) fn goes_down(command: &settings::Command) -> Self {
        let on_success = Outcome::Started(format!("{} has ended well", command.program));
        Self { name: "device.command", command: command.clone(), on_success }
    }

    /// `device.shutdown`: if it succeeds, the shutdown is done.
    pub(crate) fn stays_up(command: &settings::Command) -> Self {
        Self { name: "device.shutdown", command: command.clone(), on_success: Outcome::Done }
    }

    /// The name of the setting.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the program. The state machine checks later whether the device is still up.
    pub(crate) async fn run(&self, command: &Command) -> Outcome {
        match program::run(&self.command, &environment(command), Duration::MAX).await {
            Ok(_) => self.on_success.clone(),
            Err(error) => Outcome::Failed(error),
        }
    }
}

/// The environment of hooks and programs.
pub(crate) fn environment(command: &Command) -> Vec<(&'static str, String)> {
    vec![
        ("EBB_OPERATION", command.operation.name().to_owned()),
        ("EBB_COUNTER", command.counter.to_string()),
        // An environment variable cannot hold a NUL.
        ("EBB_REASON", command.reason.replace('\0', " ")),
    ]
}
