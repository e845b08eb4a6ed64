//! The state of nodeagent.

use schemas::{DeviceAction, DeviceActionState, NodeAgentStatus, Operation};

use crate::current_command::Command;
use crate::facts::Facts;

/// All that decisions need besides the events. Owned by one loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// The phase of the command.
    pub phase: Phase,
    /// The command; None when idle.
    pub command: Option<Command>,
    /// DeviceAction as published.
    pub action: DeviceAction,
    /// NodeAgentStatus as published.
    pub status: NodeAgentStatus,
    pub(crate) boot_id: String,
    /// Reason why a command that is taken has to wait, for display.
    pub(crate) obstacle: &'static str,
    /// Number of the last task beside the loop, so that the answer of an older task is ignored.
    pub(crate) serial: u32,
    /// True after `resume`: the files may differ from this state, so the next step writes them all.
    pub(crate) is_unsure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No command.
    Idle,
    /// The command is taken; it can still be taken back.
    Taken(Hooks),
    /// nodeagent is past the point of no return.
    Acting(Trial),
    /// The command is done, and the device still runs.
    Done,
    /// The command has failed, because no means is left or it was not released any more; the text says why.
    Failed(String),
}

/// The hooks before the device goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hooks {
    /// The hooks have not run yet.
    Due,
    Running {
        /// The effect's serial.
        serial: u32,
    },
    /// The hooks have ended, or there are none.
    Ended,
}

/// The means that is in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Number of the means, 0 for the first.
    pub means: usize,
    /// True for the means of a dry run.
    pub dry_run: bool,
    /// The serial of the effect; None before it begins, and if an earlier nodeagent began it.
    pub running: Option<u32>,
    /// The end of its time, in milliseconds of this boot's clock; None before it begins.
    pub until_ms: Option<u64>,
    /// The text of [`crate::facts::Outcome::Started`].
    pub begun: Option<String>,
    /// The errors of the means before it.
    pub errors: Vec<String>,
    /// The means before it that the device does not have.
    pub absent: Vec<String>,
}

impl Trial {
    /// True if no means was used yet.
    pub(crate) fn is_unused(&self) -> bool {
        *self == Self { dry_run: self.dry_run, ..Self::default() }
    }

    /// The trial after this means has failed.
    #[must_use]
    pub(crate) fn with_error(mut self, error: String) -> Self {
        self.errors.push(error);
        self
    }
}

impl State {
    /// The state from the files. `status` was published in this boot and holds the reason of the last boot; `reason`
    /// was written for the next boot. An `action` of another boot is ignored.
    ///
    /// A means that was begun is not begun again: nodeagent waits for the rest of its time.
    pub(crate) fn resume(
        action: DeviceAction,
        status: NodeAgentStatus,
        reason: Option<String>,
        boot_id: &str,
    ) -> Self {
        let of_another = DeviceAction { boot_id: boot_id.to_owned(), ..DeviceAction::default() };
        let action = if action.boot_id == boot_id { action } else { of_another };
        let command = action.command.map(|operation| Command {
            image: action.content_tree_uuid.clone(),
            source: action.source,
            ..Command::new(operation, action.counter, reason)
        });
        let trial = action.trial.as_ref().map_or_else(Trial::default, |trial| Trial {
            means: usize::try_from(trial.means).unwrap_or(usize::MAX),
            until_ms: Some(trial.until_ms),
            ..Trial::default()
        });
        let phase = match (action.state, &command) {
            (DeviceActionState::Idle, _) | (_, None) => Phase::Idle,
            (DeviceActionState::Taken, Some(_)) => Phase::Taken(Hooks::Due),
            (DeviceActionState::Acting, Some(_)) => Phase::Acting(trial),
            (DeviceActionState::Done, Some(_)) => Phase::Done,
            (DeviceActionState::Failed, Some(_)) => Phase::Failed(action.error.clone()),
        };
        let command = command.filter(|_| phase != Phase::Idle);
        let boot_id = boot_id.to_owned();
        Self { phase, command, action, status, boot_id, obstacle: "", serial: 0, is_unsure: true }
    }

    /// The state after an effect failed: as read from the files (`resumed`), as after a crash. Exception: while a
    /// task runs beside the loop, the state is kept, because the end of the task must not be lost.
    #[must_use]
    pub(crate) fn after_failure(self, resumed: Self) -> Self {
        match &self.phase {
            Phase::Taken(Hooks::Running { .. }) | Phase::Acting(Trial { running: Some(_), .. }) => {
                Self { is_unsure: true, ..self }
            }
            Phase::Idle
            | Phase::Taken(Hooks::Due | Hooks::Ended)
            | Phase::Acting(Trial { running: None, .. })
            | Phase::Done
            | Phase::Failed(_) => Self { serial: self.serial, ..resumed },
        }
    }

    /// True if this shutdown is done already. A shutdown leaves the device up, so its command may still be published;
    /// it is not carried out again.
    pub(crate) fn has_done(&self, command: &Command) -> bool {
        command.operation == Operation::Shutdown
            && self.action.shutdown_done == Some(command.counter)
            && self.action.shutdown_source == command.source
    }

    /// True if the command that was taken is still in effect.
    pub(crate) fn is_in_effect(&self, facts: &Facts) -> bool {
        let both = self.command.as_ref().zip(facts.command.as_ref());
        both.is_some_and(|(taken, in_effect)| taken.is_same(in_effect))
    }

    /// The command that is past the point of no return.
    pub(crate) fn acting(&self) -> Option<&Command> {
        self.command.as_ref().filter(|_| matches!(self.phase, Phase::Acting(_)))
    }

    /// Number of times that this command passed the point of no return in this boot.
    pub(crate) fn tries_of(&self, command: &Command) -> u32 {
        if self.action.acted == Some(command.named()) { self.action.tries } else { 0 }
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}
