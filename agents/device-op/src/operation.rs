//! The state machine of a device operation: from the command to nodeagent's word that it is done.
//!
//! Level-triggered: each look shows everything, so no edge can be missed or believed twice (D9, D18). A state
//! holds only when all its effects are done; else the caller goes on from what is on disk, as after a crash.

use runtime::clock::Moment;
use runtime::machine::Machine;
use runtime::retry::{NextTry, next_try};
use runtime::settings::Retry;
use runtime::siblings::NodeAgentView;
use schemas::{DeviceAction, DeviceActionState, Operation, Verdict};

use crate::commands;
use crate::effect::{Effect, between};
use crate::facts::Facts;
use crate::holding::{frozen, next_up, pause};
use crate::record::{Accepted, Failure, OperationRecord};
use crate::showing::show;
use crate::state::{AfterRelease, Phase, State};

/// nodeagent's lock makes no event: while it is waited for, it is asked this often, in milliseconds.
const LOOK_AT_LOCK_MS: u64 = 1000;

/// nodeagent takes a command within a second. One that it has not taken for so long is given up, so that the node and
/// its slot go back: in milliseconds, as long as zedkube may be away by default (`drain.start.timeout`).
const NOT_TAKEN_LIMIT_MS: u64 = 10 * 60 * 1000;

/// The wall clock may jump: a brake that ends by itself is looked at this often, in milliseconds.
const LOOK_AT_FREEZE_MS: u64 = 60_000;

/// The choices, from settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// `device-op.retry`.
    pub retry: Retry,
    /// This boot.
    pub boot_id: String,
}

/// Decides about device operations.
#[derive(Debug, Clone, Copy)]
pub struct DeviceOp;

impl Machine for DeviceOp {
    type Event = Facts;
    type State = State;
    type Effect = Effect;
    type Policy = Policy;

    fn step(state: State, facts: &Facts, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
        step(state, facts, now, policy)
    }

    fn wake_at(effect: &Effect) -> Option<u64> {
        if let Effect::WakeAt(at_ms) = effect { Some(*at_ms) } else { None }
    }
}

/// The state after a look, and what has to be done before it holds.
pub fn step(state: State, facts: &Facts, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    let before = state.clone();
    let mut next = State { is_unsure: false, ..state };
    let mut effects = Vec::new();
    if next.phase == Phase::NewBoot {
        effects.extend(new_boot(&mut next, facts, policy));
    }
    // What a boot leaves is on disk before anything follows from it, unless the disk may take nothing.
    if before.phase != Phase::NewBoot || commands::begins_without_record(&next.record, facts) {
        note_end(&mut next.record, facts);
        take_facts(&mut next, facts);
        effects.extend(advance(&mut next, facts, now, policy));
        if next.phase == Phase::Deferred && next_up(&next.record, facts).is_none() {
            next.phase = Phase::Held;
        }
        next.record.forget_stale_failure();
        effects.extend(commands::counters(&next.record, facts));
    }
    if next.phase != Phase::HandedOver {
        next.not_taken_since = None;
    }
    if is_request_superfluous(&next, facts) {
        effects.push(Effect::Withdraw);
    }
    show(&mut next, facts, now, policy);
    let mut effects = between(&before, &next, effects);
    effects.extend(wake(&next, facts, now).map(Effect::WakeAt));
    (next, effects)
}

/// What an earlier boot accepted counts as recorded before the boot's rules drop any of it.
fn new_boot(next: &mut State, facts: &Facts, policy: &Policy) -> Vec<Effect> {
    let overdue = commands::overdue_counters(&next.record, facts);
    let is_without = commands::begins_without_record(&next.record, facts);
    if overdue.is_empty() || is_without {
        next.record = next.record.clone().in_new_boot(&policy.boot_id, facts.acted.as_ref());
        next.phase = Phase::of(&next.record);
    }
    if is_without { Vec::new() } else { overdue }
}

/// The end of what was handed over serves all who waited for it until now. A command that this look shows anew may have
/// been given after the end, and is not done with it.
fn note_end(record: &mut OperationRecord, facts: &Facts) {
    if let Some(current) = record.handed_over
        && record.failure_of(Some(&current)).is_none()
        && matches!(progress(&facts.nodeagent, current), Progress::Done)
    {
        record.finish();
    }
}

/// Our request as it stands, and the commands.
fn take_facts(next: &mut State, facts: &Facts) {
    next.record.request = facts.drain.own;
    if facts.drain.own.is_none() {
        next.record.asked_for = None;
    }
    if commands::take(&mut next.record, facts) {
        // A new command does not wait for the pause after a failure.
        (next.record.failed, next.record.setbacks) = (None, 0);
    }
}

/// One function per phase.
fn advance(next: &mut State, facts: &Facts, now: Moment, policy: &Policy) -> Vec<Effect> {
    match next.phase.clone() {
        Phase::NewBoot => {}
        Phase::Idle | Phase::Held => next.phase = phase_of(&next.record, facts),
        Phase::Deferred => return deferred(next, facts, now),
        Phase::HandedOver => handed_over(next, facts, now),
        Phase::Acting => acting(next, facts, now),
        Phase::Done => done(next, facts, now),
        Phase::Recalling(then) => recalling(next, &then, facts),
        Phase::Failed => failed(next, facts, now, policy),
    }
    Vec::new()
}

/// Where a record of this boot goes on, from what may begin now.
fn phase_of(record: &OperationRecord, facts: &Facts) -> Phase {
    let next = next_up(record, facts);
    match Phase::of(record) {
        Phase::Deferred | Phase::Failed if record.failure_of(next.as_ref()).is_some() => Phase::Failed,
        Phase::Deferred | Phase::Failed if next.is_some() => Phase::Deferred,
        Phase::Deferred | Phase::Failed => Phase::Held,
        phase @ (Phase::NewBoot
        | Phase::Idle
        | Phase::Held
        | Phase::HandedOver
        | Phase::Acting
        | Phase::Done
        | Phase::Recalling(_)) => phase,
    }
}

fn deferred(next: &mut State, facts: &Facts, now: Moment) -> Vec<Effect> {
    next.phase = phase_of(&next.record, facts);
    let (Some(current), Some(gate), Phase::Deferred) =
        (next_up(&next.record, facts), &facts.drain.gate, &next.phase)
    else {
        return Vec::new();
    };
    match gate.verdict {
        // The answer to the request of an operation that is over, or of a lesser one. A drain in progress, on the
        // other hand, is joined.
        Verdict::Proceed(_) if gate.is_answer() && next.record.asked_for != Some(current.operation) => {
            publish(&mut next.record, current, facts)
        }
        Verdict::Proceed(_) => {
            next.record.hand_over(current);
            next.phase = Phase::HandedOver;
            Vec::new()
        }
        Verdict::Publish => publish(&mut next.record, current, facts),
        Verdict::Defer(_) => Vec::new(),
        Verdict::Failed(_) => {
            let failure = Failure::new(current, gate.blocked_by.clone(), now.boot_ms);
            next.record.failed = Some(Failure { is_drain: true, ..failure });
            next.phase = Phase::Failed;
            Vec::new()
        }
    }
}

/// Until nodeagent is Acting the gate may still change its mind, and so may whoever gave the command.
fn handed_over(next: &mut State, facts: &Facts, now: Moment) {
    let Some((current, progress)) = under_way(next, facts) else { return };
    match progress {
        Progress::Acting => next.phase = Phase::Acting,
        Progress::Done => next.phase = Phase::Done,
        Progress::Failed(error) => fail(&mut next.record, current, error, now),
        Progress::Other | Progress::Unknown => {
            if commands::is_taken_back(&current, facts) {
                recall(next, &AfterRelease::Drop, facts);
            } else if !facts.drain.is_open() || frozen(&current, facts).is_some() {
                recall(next, &AfterRelease::Defer, facts);
            } else {
                not_taken(next, current, facts, now);
            }
        }
    }
}

/// Counts how long nobody prepares what was handed over, and gives it up at the limit.
fn not_taken(next: &mut State, current: Accepted, facts: &Facts, now: Moment) {
    let NodeAgentView { is_running, action } = &facts.nodeagent;
    let is_prepared = action.as_ref().is_some_and(|action| match action.state {
        DeviceActionState::Taken => *is_running && is_about(action, current),
        // Something else takes the device down.
        DeviceActionState::Acting => true,
        DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => false,
    });
    if is_prepared {
        next.not_taken_since = None;
        return;
    }
    let since = *next.not_taken_since.get_or_insert(now.boot_ms);
    if now.boot_ms.saturating_sub(since) >= NOT_TAKEN_LIMIT_MS {
        let minutes = NOT_TAKEN_LIMIT_MS / 60_000;
        let error = if *is_running {
            format!(
                "nodeagent runs, but has not taken the command for {minutes} min: see its log, restart it"
            )
        } else {
            format!("nodeagent has not run for {minutes} min: start it with `ebb nodeagent`")
        };
        fail(&mut next.record, current, error, now);
    }
}

/// Notes that nodeagent could not do it. On disk first: only then is the command cleared.
fn fail(record: &mut OperationRecord, current: Accepted, error: String, now: Moment) {
    record.failed = Some(Failure::new(current, error, now.boot_ms));
    record.setbacks = record.setbacks.saturating_add(1);
}

/// The operation that was handed over, and how far nodeagent is with it. A failure that is on disk comes first: only
/// then may the command be cleared, or a crash in between would carry it out again without the pause.
fn under_way(next: &mut State, facts: &Facts) -> Option<(Accepted, Progress)> {
    let Some(current) = next.record.handed_over else {
        next.phase = Phase::of(&next.record);
        return None;
    };
    if let Some(failure) = next.record.failure_of(Some(&current)) {
        let then = AfterRelease::Fail(failure.error.clone());
        recall(next, &then, facts);
        return None;
    }
    let progress = progress(&facts.nodeagent, current);
    let is_over = matches!(progress, Progress::Done | Progress::Failed(_));
    if is_over && commands::is_taken_back(&current, facts) {
        // On a disk that takes no record it could not be noted first.
        recall(next, &AfterRelease::Drop, facts);
        return None;
    }
    Some((current, progress))
}

/// Clears the command. One that was cleared before this look needs no other look.
fn recall(next: &mut State, then: &AfterRelease, facts: &Facts) {
    next.phase = Phase::Recalling(then.clone());
    if next.command.is_none() {
        recalling(next, then, facts);
    }
}

/// Too late for anything but the truth about how it went.
fn acting(next: &mut State, facts: &Facts, now: Moment) {
    let Some((current, progress)) = under_way(next, facts) else { return };
    match progress {
        Progress::Acting | Progress::Unknown => {}
        Progress::Done => next.phase = Phase::Done,
        Progress::Failed(error) => fail(&mut next.record, current, error, now),
        // nodeagent lost its progress and begins anew, which it may only do with the gate's word.
        Progress::Other => recall(next, &AfterRelease::Defer, facts),
    }
}

/// The command and its request stand until they are taken back or another command comes.
fn done(next: &mut State, facts: &Facts, now: Moment) {
    let Some((current, progress)) = under_way(next, facts) else { return };
    match progress {
        Progress::Acting => next.phase = Phase::Acting,
        Progress::Failed(error) => fail(&mut next.record, current, error, now),
        Progress::Done | Progress::Unknown | Progress::Other => {
            if commands::is_taken_back(&current, facts) || !next.record.waiting.is_empty() {
                recall(next, &AfterRelease::Drop, facts);
            } else if matches!(progress, Progress::Other) {
                // nodeagent lost its progress, and must not find the command again: it is done.
                next.command = None;
            }
        }
    }
}

/// The command was cleared before this look: only now is what nodeagent's file says the last word.
///
/// When that is Acting, it was too late. The command stays cleared all the same: nodeagent does not need it any more,
/// and must not find it again should it fail.
fn recalling(next: &mut State, then: &AfterRelease, facts: &Facts) {
    if !has_let_go(&facts.nodeagent) {
        return;
    }
    match then {
        // It was carried out before nodeagent let go: the answer was taken back too late.
        AfterRelease::Defer if next.record.is_done => {
            next.phase = Phase::Done;
            return;
        }
        AfterRelease::Defer | AfterRelease::Fail(_) => next.record.take_back_to_queue(),
        AfterRelease::Drop => next.record.drop_handed_over(),
    }
    next.phase = phase_of(&next.record, facts);
}

fn failed(next: &mut State, facts: &Facts, now: Moment, policy: &Policy) {
    let is_due = |failure: &Failure| {
        next_try(failure.at_ms, pause(failure, next.record.setbacks, policy)).is_due(now.boot_ms)
            || (failure.is_drain && facts.drain.needs_no_pause)
    };
    if next.record.failed.as_ref().is_some_and(is_due) {
        next.record.failed = None;
    }
    next.phase = phase_of(&next.record, facts);
}

/// Records the request that could be made now as ours, and makes it.
fn publish(record: &mut OperationRecord, current: Accepted, facts: &Facts) -> Vec<Effect> {
    record.request = Some(facts.drain.next);
    record.asked_for = Some(current.operation);
    vec![Effect::Request { own: facts.drain.next, operation: current.operation }]
}

/// Nothing is asked for while nothing waits for an answer or is going down. An item of ours that is left is
/// withdrawn, whatever left it.
fn is_request_superfluous(next: &State, facts: &Facts) -> bool {
    match next.phase {
        Phase::Idle | Phase::Held | Phase::Failed => facts.drain.own.is_some(),
        Phase::NewBoot
        | Phase::Deferred
        | Phase::HandedOver
        | Phase::Acting
        | Phase::Done
        | Phase::Recalling(_) => false,
    }
}

/// How far nodeagent is with the operation that it was handed.
enum Progress {
    /// Idle, only taken, or busy with something else.
    Other,
    /// Its file cannot be read.
    Unknown,
    Acting,
    Done,
    Failed(String),
}

fn progress(nodeagent: &NodeAgentView, current: Accepted) -> Progress {
    let Some(action) = &nodeagent.action else {
        return Progress::Unknown;
    };
    let last_shutdown = (action.shutdown_done, action.shutdown_source);
    if current.operation == Operation::Shutdown && last_shutdown == (Some(current.counter), current.source) {
        return Progress::Done;
    }
    if !is_about(action, current) {
        return Progress::Other;
    }
    match action.state {
        DeviceActionState::Idle | DeviceActionState::Taken => Progress::Other,
        DeviceActionState::Acting => Progress::Acting,
        DeviceActionState::Done => Progress::Done,
        DeviceActionState::Failed => Progress::Failed(action.error.clone()),
    }
}

/// Nothing can come of a command that was cleared before this look.
fn has_let_go(nodeagent: &NodeAgentView) -> bool {
    nodeagent.action.as_ref().is_some_and(|action| match action.state {
        DeviceActionState::Idle => true,
        // It begins anew when it comes back, and finds the command cleared.
        DeviceActionState::Taken | DeviceActionState::Done | DeviceActionState::Failed => {
            !nodeagent.is_running
        }
        // The device goes down, for us or for somebody else: what we asked for stands until it has.
        DeviceActionState::Acting => false,
    })
}

/// nodeagent has passed the point of no return with the operation that it was handed.
pub(crate) fn is_acting(nodeagent: &NodeAgentView, current: Accepted) -> bool {
    matches!(progress(nodeagent, current), Progress::Acting)
}

fn is_about(action: &DeviceAction, current: Accepted) -> bool {
    let is_image = !action.content_tree_uuid.is_empty();
    !is_image
        && (action.command, action.counter, action.source)
            == (Some(current.operation), current.counter, current.source)
}

/// When to look again although nothing happens.
fn wake(next: &State, facts: &Facts, now: Moment) -> Option<u64> {
    match (&next.phase, next.next_try.map(|next_try| next_try.at)) {
        (Phase::Recalling(_), _) => Some(now.after(LOOK_AT_LOCK_MS)),
        (Phase::Failed, Some(NextTry::At(at))) => Some(at),
        (Phase::HandedOver, _) => {
            next.not_taken_since.map(|since| since.saturating_add(NOT_TAKEN_LIMIT_MS).max(now.boot_ms))
        }
        (Phase::Held, _) => {
            let ends_in = facts.freeze.as_ref().and_then(|freeze| freeze.ends_in_ms)?;
            Some(now.after(ends_in.min(LOOK_AT_FREEZE_MS)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod tests;
