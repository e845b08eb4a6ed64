//! Commands in: which are new, which are taken back, what the counter files have to hold.

use schemas::{DeviceOpsCmd, Operation};

use crate::effect::Effect;
use crate::facts::{Commanded, Facts, Recorded};
use crate::record::{Accepted, OperationRecord};

/// Accepts what is new, drops what waits and was taken back. Says whether something was accepted.
pub(crate) fn take(record: &mut OperationRecord, facts: &Facts) -> bool {
    for accepted in record.waiting.iter_mut().chain(&mut record.handed_over) {
        accepted.carried_over &= !stands(accepted, facts);
    }
    record.waiting.retain(|waiting| !is_taken_back(waiting, facts));
    let mut any_new = false;
    for operation in Operation::ALL {
        if let Commanded::Given(command) = facts.command(operation)
            && is_new(record, operation, command, facts)
        {
            record.queue(Accepted { operation, counter: command.counter, carried_over: false });
            any_new = true;
        }
    }
    any_new
}

/// The command stands in this boot: whoever removes it now takes it back.
fn stands(accepted: &Accepted, facts: &Facts) -> bool {
    match facts.command(accepted.operation) {
        Commanded::Given(command) => command.desired_state && command.counter == accepted.counter,
        Commanded::Absent | Commanded::Unreadable => false,
    }
}

/// An absent command is a take-back only in the boot that accepted it, or has seen it again; `DesiredState` false
/// always is one.
pub(crate) fn is_taken_back(accepted: &Accepted, facts: &Facts) -> bool {
    match facts.command(accepted.operation) {
        Commanded::Absent => !accepted.carried_over,
        Commanded::Unreadable => false,
        Commanded::Given(command) => !command.desired_state,
    }
}

fn is_new(record: &OperationRecord, operation: Operation, command: &DeviceOpsCmd, facts: &Facts) -> bool {
    let accepted = record.latest(operation).map(|accepted| accepted.counter);
    match facts.recorded(operation) {
        _ if !command.desired_state || accepted == Some(command.counter) => false,
        Recorded::Counter(recorded) => recorded != command.counter,
        // The first command that a device ever sees may be an old one: it is only recorded.
        Recorded::Nothing => accepted.is_some(),
        Recorded::Unreadable => false,
    }
}

/// The counter files that do not hold what they should. To be written after the record.
pub(crate) fn counters(record: &OperationRecord, facts: &Facts) -> Vec<Effect> {
    let due = |operation| {
        let command = match facts.command(operation) {
            Commanded::Given(command) => command.clone(),
            Commanded::Absent | Commanded::Unreadable => accepted_command(record, operation)?,
        };
        counts_as_done(record, operation, &command, facts).then(|| counter(operation, command, facts))?
    };
    Operation::ALL.into_iter().filter_map(due).collect()
}

/// A counter is recorded when its command is accepted, asks for nothing, or is the first that this device sees. Any
/// other command is still to be accepted, and must not count as done before (D16).
fn counts_as_done(
    record: &OperationRecord,
    operation: Operation,
    command: &DeviceOpsCmd,
    facts: &Facts,
) -> bool {
    let is_accepted = record.latest(operation).is_some_and(|accepted| accepted.counter == command.counter);
    match facts.recorded(operation) {
        _ if is_accepted => true,
        Recorded::Counter(_) => !command.desired_state,
        Recorded::Nothing => true,
        Recorded::Unreadable => false,
    }
}

/// The counter files that do not hold the counters of the record yet: before a boot's rules may drop anything from
/// it, what it accepted has to count as done.
pub(crate) fn overdue_counters(record: &OperationRecord, facts: &Facts) -> Vec<Effect> {
    let due = |operation| counter(operation, accepted_command(record, operation)?, facts);
    Operation::ALL.into_iter().filter_map(due).collect()
}

fn counter(operation: Operation, command: DeviceOpsCmd, facts: &Facts) -> Option<Effect> {
    let is_recorded = facts.recorded(operation) == Recorded::Counter(command.counter);
    (!is_recorded).then_some(Effect::Counter(operation, command))
}

fn accepted_command(record: &OperationRecord, operation: Operation) -> Option<DeviceOpsCmd> {
    let accepted = record.latest(operation)?;
    Some(DeviceOpsCmd { counter: accepted.counter, desired_state: true, ops_time: String::new() })
}
