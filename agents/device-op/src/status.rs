//! Makes DeviceOpStatus and the command in ZedAgentStatus from the state.

use runtime::clock::Moment;
use runtime::refused::with_refused;
use runtime::shown_try::ShownTry;
use schemas::{
    CommandLine, CommandState, DeviceOpState, DeviceOpStatus, GoTime, Operation, SCHEMA_VERSION, Source,
    commanded_by,
};

use crate::commands::published;
use crate::facts::{Facts, Kind, all_kinds};
use crate::gating::{Judged, hold, pause};
use crate::nodeagent::is_acting;
use crate::policy::Policy;
use crate::record::{Accepted, OperationRecord};
use crate::state::{AfterRelease, Phase, State};

/// Shown if a command is taken back after the point of no return.
const TOO_LATE: &str = "take-back refused: too late, the device is going down";

/// Setting for the pause after a failure.
const RETRY: &str = "device-op.retry";

/// Updates DeviceOpStatus and the command in ZedAgentStatus.
pub(crate) fn show(next: &mut State, judged: &Judged, facts: &Facts, now: Moment, policy: &Policy) {
    next.next_try = shown_next_try(next, now, policy);
    let status = status(next, judged, facts);
    let is_same = |shown: &DeviceOpStatus| {
        (shown.operation, shown.counter, shown.source, shown.state)
            == (status.operation, status.counter, status.source, status.state)
    };
    let since = if is_same(&next.shown) && !next.shown.since.is_zero() { next.shown.since } else { now.wall };
    next.shown = DeviceOpStatus { since, ..status };
    next.command = match next.phase {
        Phase::HandedOver => next.record.handed_over.map(|current| command(next, current)),
        // Unchanged: nodeagent does not need the command any more, and only a hand-over publishes one.
        Phase::Acting | Phase::Done => next.command.take(),
        Phase::NewBoot
        | Phase::Idle
        | Phase::Held
        | Phase::Deferred
        | Phase::Recalling(_)
        | Phase::Failed => None,
    };
}

fn command(next: &State, current: Accepted) -> (Operation, String) {
    let Accepted { operation, counter, source, .. } = current;
    let DeviceOpStatus { release, .. } = &next.shown;
    let by = commanded_by(&next.shown.by, &next.shown.reason);
    (operation, format!("{operation} command, counter {counter} of {source}: {release}{by}"))
}

/// Author of the command, and the author's reason, from the command's file. While the file does not have this command
/// (it is being written, or the command is being taken back), the texts shown before are kept.
fn author(next: &State, current: Accepted, facts: &Facts) -> (String, String) {
    if let Some(command) = published(&current, facts) {
        return (command.by.clone(), command.reason.clone());
    }
    let shown = &next.shown;
    let is_shown = (shown.operation, shown.counter, shown.source)
        == (Some(current.operation), current.counter, current.source);
    if is_shown { (shown.by.clone(), shown.reason.clone()) } else { Default::default() }
}

/// DeviceOpStatus with the reason why an effect failed. None while the status releases an operation: that must not be
/// published again without the gate.
pub(crate) fn troubled(state: &State, error: &str) -> Option<DeviceOpStatus> {
    match state.shown.state {
        DeviceOpState::Idle | DeviceOpState::Deferred | DeviceOpState::Failed => {
            Some(DeviceOpStatus { blocked_by: error.to_owned(), stuck: true, ..state.shown.clone() })
        }
        DeviceOpState::HandedOver => None,
    }
}

/// The command that is shown: the one handed over, otherwise the first that may begin, otherwise the first that
/// waits.
fn current(record: &OperationRecord, judged: &Judged) -> Option<Accepted> {
    record.handed_over.or(judged.next_up).or_else(|| record.current().copied())
}

fn status(next: &State, judged: &Judged, facts: &Facts) -> DeviceOpStatus {
    let current = current(&next.record, judged);
    let given_up = next.record.ended_now(CommandState::Failed).next().filter(|_| current.is_none());
    let (blocked_by, release) = words(next, judged, facts);
    let state =
        if is_too_late(next, judged, facts) { DeviceOpState::HandedOver } else { shown_state(&next.phase) };
    let state = if given_up.is_some() { DeviceOpState::Failed } else { state };
    let failed = |line: &CommandLine| Accepted::new((line.source, line.operation), line.counter);
    let current = current.or_else(|| given_up.map(failed));
    let (by, reason) = current.map_or_else(Default::default, |current| author(next, current, facts));
    let blocked_by = match state {
        DeviceOpState::Idle | DeviceOpState::Deferred | DeviceOpState::Failed => {
            with_refused(blocked_by, &facts.refused)
        }
        DeviceOpState::HandedOver => blocked_by,
    };
    DeviceOpStatus {
        schema_version: SCHEMA_VERSION,
        operation: current.map(|current| current.operation),
        counter: current.map_or(0, |current| current.counter),
        source: current.map_or_else(Default::default, |current| current.source),
        by,
        reason,
        state,
        since: GoTime::ZERO,
        blocked_by,
        stuck: false,
        release,
        next_try: next.next_try.map_or(GoTime::ZERO, |next_try| next_try.shown),
        undrained_in_seconds: facts.drain.undrained_in_seconds().filter(|_| next.phase == Phase::Deferred),
        without_record: current.is_some_and(|current| current.without_record),
        done: next.record.done.clone(),
        commands: all_kinds().filter_map(|kind| line(next, kind, facts)).collect(),
        window: facts.window.clone(),
        boot_id: next.record.boot_id.clone(),
    }
}

/// The last command of this kind and its progress.
fn line(next: &State, kind: Kind, facts: &Facts) -> Option<CommandLine> {
    let record = &next.record;
    let Some(accepted) = record.latest(kind).filter(|_| !is_done(next, kind)) else {
        return record.ended(kind).cloned();
    };
    let (source, operation) = kind;
    let is_handed_over = record.handed_over.is_some_and(|current| current.kind() == kind);
    let (state, reason) = if let Some(failure) = record.failure_of(Some(accepted)) {
        let error = failure.error.clone();
        let next_try = next.next_try;
        let in_full = |next: ShownTry| next.after_error(&error, new_command(source), RETRY);
        (CommandState::Failed, next_try.map_or_else(|| error.clone(), in_full))
    } else if is_handed_over {
        (CommandState::HandedOver, String::new())
    } else {
        (CommandState::Waiting, hold(accepted, record, facts).unwrap_or_default())
    };
    Some(CommandLine { source, operation, counter: accepted.counter, state, reason })
}

fn is_done(next: &State, kind: Kind) -> bool {
    next.record.is_done && next.record.handed_over.is_some_and(|current| current.kind() == kind)
}

/// Texts for commands that were not carried out and never will be. They are shown although no command is pending,
/// because an operator has to know about them.
fn not_carried_out(next: &State) -> (String, String) {
    let record = &next.record;
    let lines = record.ended_now(CommandState::Failed).chain(record.ended_now(CommandState::Recorded));
    let lines: Vec<String> = lines
        .map(|line| format!("{} {} of {}: {}", line.operation, line.counter, line.source, line.reason))
        .collect();
    (lines.join("; "), String::new())
}

const fn shown_state(phase: &Phase) -> DeviceOpState {
    match phase {
        Phase::NewBoot | Phase::Idle => DeviceOpState::Idle,
        Phase::Held | Phase::Deferred | Phase::Recalling(AfterRelease::Defer | AfterRelease::Drop) => {
            DeviceOpState::Deferred
        }
        Phase::HandedOver | Phase::Acting | Phase::Done => DeviceOpState::HandedOver,
        Phase::Failed | Phase::Recalling(AfterRelease::Fail(_)) => DeviceOpState::Failed,
    }
}

/// The texts for `BlockedBy` and `Release`.
fn words(next: &State, judged: &Judged, facts: &Facts) -> (String, String) {
    match &next.phase {
        Phase::NewBoot => (String::new(), String::new()),
        Phase::Idle => not_carried_out(next),
        Phase::Held => {
            let first = next.record.waiting.first();
            let why = first.and_then(|first| hold(first, &next.record, facts)).unwrap_or_default();
            let failure = next.record.failure_of(first);
            let before = failure.map(|failure| format!("; the last attempt failed: {}", failure.error));
            (format!("{why}{}", before.unwrap_or_default()), String::new())
        }
        Phase::Deferred => facts.drain.words(),
        Phase::Acting | Phase::Recalling(_) if is_too_late(next, judged, facts) => {
            (TOO_LATE.to_owned(), release(next, facts))
        }
        Phase::HandedOver | Phase::Acting | Phase::Done => (String::new(), release(next, facts)),
        Phase::Recalling(AfterRelease::Defer) => {
            ("no longer released: waiting for nodeagent to release the command".to_owned(), String::new())
        }
        Phase::Recalling(AfterRelease::Drop) => {
            ("taken back: waiting for nodeagent to release the command".to_owned(), String::new())
        }
        Phase::Recalling(AfterRelease::Fail(error)) => (error.clone(), String::new()),
        Phase::Failed => {
            let error = next.record.failed.as_ref().map_or_else(String::new, |failure| failure.error.clone());
            let source = next.record.current().map_or_else(Source::default, |current| current.source);
            (error, next.next_try.map_or_else(String::new, |next| next.hint(new_command(source), RETRY)))
        }
    }
}

/// True if the command was taken back or is no longer released, but nodeagent is already Acting on it.
fn is_too_late(next: &State, judged: &Judged, facts: &Facts) -> bool {
    let has_begun = || next.record.handed_over.is_some_and(|current| is_acting(&facts.nodeagent, current));
    match next.phase {
        Phase::Acting => judged.is_taken_back,
        Phase::Recalling(_) => has_begun(),
        Phase::NewBoot
        | Phase::Idle
        | Phase::Held
        | Phase::Deferred
        | Phase::HandedOver
        | Phase::Done
        | Phase::Failed => false,
    }
}

/// Why the gate released the command. While the gate is not read, the text shown before is kept.
fn release(next: &State, facts: &Facts) -> String {
    let is_known = next.shown.state == DeviceOpState::HandedOver;
    facts.drain.release(if is_known { &next.shown.release } else { "" })
}

/// What has to be given for another attempt.
const fn new_command(source: Source) -> &'static str {
    if matches!(source, Source::Cluster) { "another text" } else { "a new command" }
}

fn shown_next_try(next: &State, now: Moment, policy: &Policy) -> Option<ShownTry> {
    let failure = next.record.failed.as_ref().filter(|_| next.phase == Phase::Failed)?;
    let pause = pause(failure, next.record.setbacks, policy);
    Some(ShownTry::after(next.next_try, failure.at_ms, pause, now))
}
