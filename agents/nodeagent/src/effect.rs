//! The effects of a step, in the order in which they are carried out.

use schemas::{ActionRecord, DeviceAction, NodeAgentStatus};

use crate::current_command::Command;
use crate::state::State;

/// An action of the shell. Effects are carried out in order. When one fails, the rest is skipped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Publish DeviceAction.
    Action(DeviceAction),
    /// Publish NodeAgentStatus.
    Status(Box<NodeAgentStatus>),
    /// Write the ActionRecord durably, as proof that the command was begun. The next snapshot
    /// ([`crate::facts::DurableRecord`]) shows whether the write failed.
    Record(ActionRecord),
    /// Remove the ActionRecord, because the device was not touched or no means worked. A failure does not stop the
    /// rest; the next snapshot then says when to try again.
    ForgetRecord,
    /// Write the reason of this command durably for the next boot. A failure does not stop the rest.
    LeaveReason(Command),
    /// Remove the reason: the device did not go down.
    ForgetReason,
    /// Run the hooks, then send [`crate::facts::Event::HooksEnded`].
    RunHooks {
        /// The serial in the event.
        serial: u32,
        /// The command for which the hooks run.
        command: Command,
    },
    /// Use a means of the device, then send [`crate::facts::Event::Acted`]. Hooks or means that still run are
    /// ended first.
    Act {
        /// The serial in the event.
        serial: u32,
        /// Number of the means, 0 for the first.
        means: usize,
        /// The command to carry out.
        command: Command,
        /// Only write the command to a file.
        dry_run: bool,
    },
    /// End the hooks or the means that run.
    Drop,
    /// Run the next step at this time, in milliseconds of this boot's clock.
    WakeAt(u64),
}

/// The effects that lead from one state to the next: first the status topics, then the effects of the step itself
/// (`own`). NodeAgentStatus is published before DeviceAction, so that an agent that sees a done shutdown also sees
/// `AllDomainsHalted`, even if nodeagent dies in between.
pub(crate) fn between(before: &State, after: &State, own: Vec<Effect>) -> Vec<Effect> {
    let all = before.is_unsure;
    let mut effects = Vec::new();
    if all || before.status != after.status {
        effects.push(Effect::Status(Box::new(after.status.clone())));
    }
    if all || before.action != after.action {
        effects.push(Effect::Action(after.action.clone()));
    }
    effects.extend(own);
    effects
}
