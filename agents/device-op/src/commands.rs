//! Compares the commands that the sources publish with the record and the counter files: accepts new commands, drops
//! commands that were taken back, and lists the counter files to write.
//!
//! Each source has its own folder, counter files and result of its last command, and its command is compared only with
//! its own counters: with one counter for all, a controller's unchanged reboot was done again after a person's. A
//! command that might be an old one is only recorded, and device-op says so. A command that is reported as done was
//! carried out.

use schemas::DeviceOpsCmd;

use crate::effect::Effect;
use crate::facts::{Commanded, Facts, Kind, Recorded, all_kinds};
use crate::record::{Accepted, Ended, OperationRecord};

/// Reason shown for the first command of a kind, which is recorded but not carried out.
const FIRST: &str = "only recorded: it is the first of its kind that this device sees, and may be an old one; give \
                     another counter";

/// Reason shown for a command that was already published when device-op began to keep counters per source.
const OLDER_THAN_SOURCES: &str = "only recorded: it was published before this device kept counters per source, and \
                                  may be an old one; give another counter";

/// Accepts new commands, drops waiting commands that were taken back, and notes commands that are only recorded.
/// Returns true if a command was accepted.
pub(crate) fn take(record: &mut OperationRecord, facts: &Facts) -> bool {
    for accepted in record.waiting.iter_mut().chain(&mut record.handed_over) {
        accepted.carried_over &= published(accepted, facts).is_none();
    }
    take_back(record, facts);
    if begins_without_record(record, facts) {
        return accept_all(record, facts, |command| command.without_record);
    }
    if !record.has_sources {
        record.has_sources = all_kinds().all(|kind| is_settled(record, kind, facts));
    }
    all_kinds().for_each(|kind| note_first(record, kind, facts));
    record.has_sources && accept_all(record, facts, |_| true)
}

fn take_back(record: &mut OperationRecord, facts: &Facts) {
    let gone: Vec<_> = record.waiting.extract_if(.., |waiting| is_taken_back(waiting, facts)).collect();
    let failed: Vec<_> = record.given_up().filter(|failed| is_taken_back(failed, facts)).collect();
    for accepted in gone.iter().chain(&failed) {
        record.end(accepted, Ended::TakenBack);
    }
}

fn accept_all(record: &mut OperationRecord, facts: &Facts, counts: fn(&DeviceOpsCmd) -> bool) -> bool {
    let mut any_new = false;
    for kind in all_kinds() {
        if let Some(command) = facts.given(kind)
            && counts(command)
            && is_new(record, kind, command, facts)
        {
            record.queue(Accepted {
                now: command.now,
                without_record: command.without_record,
                not_before: command.not_before,
                ..Accepted::new(kind, command.counter)
            });
            any_new = true;
        }
    }
    any_new
}

/// The accepted command as its file still holds it. Once it was seen in this boot, removing its file counts as a
/// take-back.
pub(crate) fn published<'a>(accepted: &Accepted, facts: &'a Facts) -> Option<&'a DeviceOpsCmd> {
    let command = facts.given(accepted.kind());
    command.filter(|command| command.desired_state && command.counter == accepted.counter)
}

/// True if an accepted command was taken back: by `DesiredState` false, by an operator's cancel of this counter, or
/// by removing its file. A missing file counts only if the command was seen in this boot, because a boot empties
/// `/run`.
pub(crate) fn is_taken_back(accepted: &Accepted, facts: &Facts) -> bool {
    if facts.is_cancelled(accepted.kind(), accepted.counter) {
        return true;
    }
    match facts.command(accepted.kind()) {
        Commanded::Absent => !accepted.carried_over,
        Commanded::NoFolder | Commanded::Unreadable => false,
        Commanded::Given(command) => !command.desired_state,
    }
}

/// True if a command of this kind that stands may be older than the first contact with its source, or than the counters
/// per source: it is only recorded.
fn may_be_old(record: &OperationRecord, kind: Kind, facts: &Facts) -> bool {
    kind.0.has_first_contact() && (facts.recorded(kind) == Recorded::Nothing || !record.has_sources)
}

fn is_new(record: &OperationRecord, kind: Kind, command: &DeviceOpsCmd, facts: &Facts) -> bool {
    let accepted = record.latest(kind).map(|accepted| accepted.counter);
    if !command.desired_state
        || accepted == Some(command.counter)
        || facts.is_cancelled(kind, command.counter)
    {
        return false;
    }
    let has_not_ended = || record.ended(kind).is_none_or(|line| line.counter != command.counter);
    match facts.recorded(kind) {
        // The counter of a command without a record is never written, so the record alone shows whether it was done.
        _ if command.without_record => has_not_ended(),
        Recorded::Counter(recorded) => recorded != command.counter,
        Recorded::Nothing if may_be_old(record, kind, facts) => accepted.is_some(),
        Recorded::Nothing => has_not_ended(),
        Recorded::Unreadable => false,
    }
}

/// True if a command without a record waits or is published now. No other command is accepted until it is over,
/// because its record in `/run` would be lost.
pub(crate) fn begins_without_record(record: &OperationRecord, facts: &Facts) -> bool {
    let is_new_without_record = |kind: Kind| {
        let command = facts.given(kind).filter(|command| command.without_record);
        command.is_some_and(|command| is_new(record, kind, command, facts))
    };
    record.is_without() || all_kinds().any(is_new_without_record)
}

/// True if no published command of this kind could be mistaken for a new one although it is older than the counters
/// per source.
fn is_settled(record: &OperationRecord, kind: Kind, facts: &Facts) -> bool {
    match (facts.command(kind), facts.recorded(kind)) {
        (Commanded::Absent | Commanded::NoFolder, _) => true,
        (Commanded::Unreadable, _) => false,
        (Commanded::Given(_), _) if !may_be_old(record, kind, facts) => true,
        (Commanded::Given(command), _) if !command.desired_state || is_accepted(record, kind, command) => {
            true
        }
        (Commanded::Given(command), Recorded::Counter(recorded)) => recorded == command.counter,
        (Commanded::Given(_), Recorded::Nothing | Recorded::Unreadable) => false,
    }
}

/// Adds a line to the record for a command that is only recorded, before its counter file is written.
fn note_first(record: &mut OperationRecord, kind: Kind, facts: &Facts) {
    let Some(command) = facts.given(kind) else { return };
    let is_newer = record.has_sources && record.latest(kind).is_some();
    let is_known = is_accepted(record, kind, command) || facts.is_cancelled(kind, command.counter);
    if !command.desired_state || is_newer || is_known || !may_be_old(record, kind, facts) {
        return;
    }
    let why = match facts.recorded(kind) {
        Recorded::Nothing => FIRST,
        Recorded::Counter(recorded) if !record.has_sources && recorded != command.counter => {
            OLDER_THAN_SOURCES
        }
        Recorded::Counter(_) | Recorded::Unreadable => return,
    };
    record.end(&Accepted::new(kind, command.counter), Ended::OnlyRecorded(why));
}

/// The counter files that hold a wrong counter and must be written, after the record.
pub(crate) fn counters(record: &OperationRecord, facts: &Facts) -> Vec<Effect> {
    if record.is_without() {
        return Vec::new();
    }
    let due = |kind| {
        let command = facts.given(kind).cloned().or_else(|| accepted_command(record, kind))?;
        counts_as_done(record, kind, &command, facts).then(|| counter(kind, command, facts))?
    };
    all_kinds().filter_map(due).collect()
}

/// True if the counter file may hold this command's counter: the command is accepted, asks for nothing, was taken
/// back, or may be an old one. Any other command is still to be accepted and must not count as done before (D16).
fn counts_as_done(record: &OperationRecord, kind: Kind, command: &DeviceOpsCmd, facts: &Facts) -> bool {
    let asks_for_nothing = || !command.desired_state || facts.is_cancelled(kind, command.counter);
    match facts.recorded(kind) {
        _ if is_accepted(record, kind, command) => true,
        Recorded::Counter(_) | Recorded::Nothing => may_be_old(record, kind, facts) || asks_for_nothing(),
        Recorded::Unreadable => false,
    }
}

fn is_accepted(record: &OperationRecord, kind: Kind, command: &DeviceOpsCmd) -> bool {
    record.latest(kind).is_some_and(|accepted| accepted.counter == command.counter)
}

/// The counter files that do not hold the counters of the record yet. A new boot writes them before its rules drop
/// anything from the record, because an accepted command must count as done.
pub(crate) fn overdue_counters(record: &OperationRecord, facts: &Facts) -> Vec<Effect> {
    let due = |kind| counter(kind, accepted_command(record, kind)?, facts);
    all_kinds().filter_map(due).collect()
}

/// The effect that writes this command into its counter file, in EVE's form (without our own fields); None if
/// the file holds the counter already.
fn counter(kind: Kind, command: DeviceOpsCmd, facts: &Facts) -> Option<Effect> {
    let is_recorded = facts.recorded(kind) == Recorded::Counter(command.counter);
    let DeviceOpsCmd { counter, desired_state, ops_time, .. } = command;
    let in_eves_form = DeviceOpsCmd { counter, desired_state, ops_time, ..DeviceOpsCmd::default() };
    (!is_recorded).then_some(Effect::Counter(kind, in_eves_form))
}

fn accepted_command(record: &OperationRecord, kind: Kind) -> Option<DeviceOpsCmd> {
    let accepted = record.latest(kind)?;
    Some(DeviceOpsCmd { counter: accepted.counter, desired_state: true, ..DeviceOpsCmd::default() })
}
