//! The effects of a step, in the order in which they are carried out.

use runtime::OwnRequest;
use schemas::{DeviceOpStatus, DeviceOpsCmd, Operation};

use crate::facts::Kind;
use crate::record::OperationRecord;
use crate::state::{Phase, State};

/// An action of the shell. Effects are carried out in order. When one fails, the rest is skipped, and the state is
/// read again from the files. Each effect may be carried out twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Publish ZedAgentStatus without a command.
    ClearCommand,
    /// Write the record to disk; an empty record is removed. A record that holds a command without a record is
    /// written to `/run` alone.
    Record(OperationRecord),
    /// Write the counter file of this kind.
    Counter(Kind, DeviceOpsCmd),
    /// Withdraw device-op's own drain request.
    Withdraw,
    /// Publish the recorded drain request.
    Request {
        /// The request's serial and time.
        own: OwnRequest,
        /// The operation for which the node is drained.
        operation: Operation,
    },
    /// Publish DeviceOpStatus.
    Status(DeviceOpStatus),
    /// Publish ZedAgentStatus with a command, which nodeagent carries out.
    Command {
        operation: Operation,
        /// The reason, which the next boot reports.
        reason: String,
    },
    /// Run the next step at this time, in milliseconds of this boot's clock.
    WakeAt(u64),
}

/// The effects that lead from one state to the next, with the effects of the step itself (`own`: counters, request)
/// at their place.
///
/// The order makes every crash safe. A command is cleared before anything else is published. The record is on disk
/// before a counter is (D16), before a request is published, and before nodeagent may see the command. If nothing is
/// left to do, the request is withdrawn first, so that a take-back gives the node back even on a disk that accepts no
/// writes.
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
