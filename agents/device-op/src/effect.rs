//! What is to be done, as ordered data.

use runtime::OwnRequest;
use schemas::{DeviceOpStatus, DeviceOpsCmd, Operation};

use crate::facts::Kind;
use crate::record::OperationRecord;
use crate::state::{Phase, State};

/// One thing to do. They are done in their order; when one fails, the rest is not done, and the state is resumed
/// from what is on disk. Each may be done twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Publish ZedAgentStatus without a command.
    ClearCommand,
    /// Put the record on disk; an empty one is removed. One that says so is put into `/run` alone.
    Record(OperationRecord),
    /// Write the counter file of this kind.
    Counter(Kind, DeviceOpsCmd),
    /// Withdraw the drain request that is ours.
    Withdraw,
    /// Publish the recorded drain request.
    Request {
        /// The request.
        own: OwnRequest,
        /// What for.
        operation: Operation,
    },
    /// Publish DeviceOpStatus.
    Status(DeviceOpStatus),
    /// Publish ZedAgentStatus with a command: nodeagent obeys.
    Command {
        /// What it has to do.
        operation: Operation,
        /// Why, for the next boot to report.
        reason: String,
    },
    /// Look again then, in milliseconds of this boot's clock.
    WakeAt(u64),
}

/// What takes the device from one state to the next, around what the step itself wants (`own`: counters, request).
///
/// The order is the safety of the whole: a command is cleared before anything else is said; the record is on disk
/// before a counter is (D16), before a request is published, and before nodeagent may obey. With nothing left to do the
/// request is withdrawn first: on a disk that takes no record a take-back must still give the node back.
pub(crate) fn between(before: &State, after: &State, own: Vec<Effect>) -> Vec<Effect> {
    let all = before.is_unsure;
    let mut effects = Vec::new();
    if after.command.is_none() && (all || before.command.is_some()) {
        effects.push(Effect::ClearCommand);
    }
    let is_first = |effect: &Effect| *effect == Effect::Withdraw && after.phase == Phase::Idle;
    let (first, own): (Vec<_>, Vec<_>) = own.into_iter().partition(is_first);
    effects.extend(first);
    if all || before.record != after.record {
        effects.push(Effect::Record(after.record.clone()));
    }
    effects.extend(own);
    if all || before.shown != after.shown {
        effects.push(Effect::Status(after.shown.clone()));
    }
    let is_given = after.phase == Phase::HandedOver && (all || before.command != after.command);
    if let Some((operation, reason)) = after.command.as_ref().filter(|_| is_given) {
        effects.push(Effect::Command { operation: *operation, reason: reason.clone() });
    }
    effects
}
