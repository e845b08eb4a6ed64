//! Takes a command back. A person's command is published as no longer wanted; for a command of another source device-op
//! gets a CancelCommand, and its counter then counts as done.

use anyhow::{Context, bail};
use device_op::facts::Kind;
use device_op::operation_files::{self, OperationFiles, OperationStatus};
use pubsub::{Persistence, Publisher, Root, TopicKey};
use runtime::peers;
use schemas::{Agent, CancelCommand, DeviceActionState, DeviceOpsCmd, Operation, Source, agent};
use serde::Serialize;

use super::{OPERATOR, publish};
use crate::waiting::{SOON, until};

/// A take-back that was given.
#[derive(Debug)]
pub(super) struct TakenBack {
    pub(super) counter: u32,
    /// Time at which it was given.
    pub(super) ops_time: String,
    pub(super) became: OrderResult,
}

/// Result of a take-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum OrderResult {
    /// The command is cancelled.
    TakenBack,
    /// The command was carried out before, and the device still runs: its request for a drain is withdrawn.
    CarriedOut,
    /// Too late: nodeagent has passed the point of no return.
    TooLate,
    /// Not known yet: nodeagent has to release the command first.
    Pending,
    /// device-op does not run, so it has not read the take-back.
    Unread,
}

impl From<operation_files::TakenBack> for OrderResult {
    fn from(taken: operation_files::TakenBack) -> Self {
        match taken {
            operation_files::TakenBack::Done => Self::TakenBack,
            operation_files::TakenBack::TooLate => Self::TooLate,
        }
    }
}

/// Takes the command back, even if device-op does not run: it must be possible whenever a command is active.
///
/// # Errors
/// The command is not active, or only another source's is; another process is writing as `ebb`; a file cannot be read
/// or written.
pub(super) async fn take_back(root: &Root, kind: Kind, why: &str) -> anyhow::Result<TakenBack> {
    let files = OperationFiles::read(root, kind).context(
        "cannot tell which command to take back; remove that file: without it no command is pending",
    )?;
    let counter = files.counter_to_take_back(kind).or_else(|error| {
        let others = if kind.0 == OPERATOR { others(root, kind.1) } else { Vec::new() };
        if others.is_empty() { Err(error.into()) } else { bail!("{}", not_ours(kind.1, &others)) }
    })?;
    let was_carried_out = files.is(DeviceActionState::Done, kind, counter);
    let is_running = peers::runs(root, Agent::DeviceOp);
    if is_running {
        peers::require(root, Agent::DeviceOp)?;
    }
    let ops_time = if kind.0 == OPERATOR {
        let (by, reason) = (peers::user(), why.to_owned());
        let not_wanted = DeviceOpsCmd { counter, by, reason, ..DeviceOpsCmd::default() };
        publish(root, kind.1, |ops_time| Ok(DeviceOpsCmd { ops_time, ..not_wanted }))?.ops_time
    } else {
        cancel(root, kind, counter, why)?;
        super::now()
    };
    if !is_running {
        return Ok(TakenBack { counter, ops_time, became: OrderResult::Unread });
    }
    let look =
        || OperationFiles::read(root, kind).ok()?.after_take_back(kind, counter).map(OrderResult::from);
    let became =
        until(OperationFiles::folders(root, kind.0), SOON, look).await.unwrap_or(OrderResult::Pending);
    let is_withdrawn = became == OrderResult::TakenBack && was_carried_out;
    let became = if is_withdrawn { OrderResult::CarriedOut } else { became };
    Ok(TakenBack { counter, ops_time, became })
}

fn cancel(root: &Root, (source, operation): Kind, counter: u32, why: &str) -> anyhow::Result<()> {
    let lock = peers::speak_as(root, agent::EBB)?;
    let mut cancelled = Publisher::open(root, agent::EBB, Persistence::Volatile, &lock)?;
    let command = CancelCommand { counter, by: peers::user(), reason: why.to_owned() };
    cancelled.publish(&TopicKey::parse(&CancelCommand::key(source, operation))?, &command)?;
    Ok(())
}

/// Active commands of other sources for this operation.
fn others(root: &Root, operation: Operation) -> Vec<(Source, u32)> {
    let stands = |source| {
        let kind = (source, operation);
        let files = OperationFiles::read(root, kind).ok()?;
        match files.of(kind) {
            OperationStatus::Given(counter)
            | OperationStatus::Accepted(counter)
            | OperationStatus::Failed(counter) => Some((source, counter)),
            OperationStatus::Nothing => None,
        }
    };
    Source::ALL.into_iter().filter(|source| *source != OPERATOR).filter_map(stands).collect()
}

fn not_ours(operation: Operation, others: &[(Source, u32)]) -> String {
    let (source, counter) = others.first().copied().unwrap_or_default();
    let there = match source {
        Source::Person => "where it was given",
        Source::Controller => "at the controller",
        Source::Cluster => "at the Node: kubectl ebb cancel NODE",
        Source::Host => "at the host: remove what asks for it",
    };
    format!(
        "no operator has commanded a {operation}; {operation} {counter} is one of source {source}: take it back {there}, \
         or here with `ebb cancel {operation} --source {source}` (`ebb commands` lists all)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_another_source_is_named_with_the_way_to_take_it_back() {
        for (source, there) in [
            (Source::Controller, "take it back at the controller, or here"),
            (Source::Cluster, "kubectl ebb cancel NODE"),
            (Source::Host, "remove what asks for it"),
        ] {
            let said = not_ours(Operation::Reboot, &[(source, 1001)]);
            assert!(said.contains(&format!("reboot 1001 is one of source {source}")), "{said}");
            assert!(said.contains(there), "{said}");
            assert!(said.contains(&format!("`ebb cancel reboot --source {source}`")), "{said}");
        }
    }
}
