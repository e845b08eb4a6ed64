//! What is to be done, as ordered data.

use schemas::{ActionRecord, DeviceAction, NodeAgentStatus};

use crate::progress::State;
use crate::standing::Command;

/// One thing to do. They are done in their order; when one fails, the rest is not done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Publish DeviceAction.
    Action(DeviceAction),
    /// Publish NodeAgentStatus.
    Status(Box<NodeAgentStatus>),
    /// Write the proof that the command was begun, durably. Whether that could be done is seen by the next look
    /// ([`crate::progress::Proof`]).
    Record(ActionRecord),
    /// Remove the proof: the device was not touched, or no means worked. If that cannot be done, the rest is done all
    /// the same, and the next look finds the proof again.
    ForgetRecord,
    /// Leave the reason of this command behind for the next boot, durably. If that cannot be done, the rest is done all
    /// the same.
    LeaveReason(Command),
    /// The device did not go down after all.
    ForgetReason,
    /// Run the hooks, then send [`crate::progress::Event::HooksEnded`].
    RunHooks {
        /// Comes back with the event.
        serial: u32,
        /// What for.
        command: Command,
    },
    /// Use a means of the device, then send [`crate::progress::Event::Acted`]. Ends whatever ran before.
    Act {
        /// Comes back with the event.
        serial: u32,
        /// Which one, 0 for the first.
        means: usize,
        /// What for.
        command: Command,
        /// Only write it down.
        dry_run: bool,
    },
    /// End hooks or means that run.
    Drop,
    /// Look again then, in milliseconds of this boot's clock.
    WakeAt(u64),
}

/// What takes the device from one state to the next: first the word, then the deed (`own`). NodeAgentStatus goes
/// first: whoever sees that a shutdown is done finds there that all is halted, also when nodeagent dies in between.
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
