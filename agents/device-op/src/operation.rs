//! The state machine of a device operation: from the accepted command until nodeagent reports that it is done.
//!
//! Level-triggered: each snapshot shows everything, so no change can be missed or counted twice (D9, D18). A state is
//! valid only when all its effects are carried out; otherwise the caller goes on from what is on disk, as after a
//! crash.

use runtime::agent_state::{LOOK_AT_LOCK_MS, not_taken_at};
use runtime::clock::Moment;
use runtime::machine::Machine;
use runtime::retry::{NextTry, next_try};
use runtime::window::{LOOK_AT_CLOCK_MS, at_wall, wake_at};
use schemas::{DeviceAction, Verdict};

use crate::commands;
use crate::effect::{Effect, between};
use crate::facts::Facts;
use crate::gating::{Judged, is_early, outside_window, pause};
use crate::nodeagent::{Progress, has_released, is_about, progress};
use crate::policy::Policy;
use crate::record::{Accepted, Failure, OperationRecord};
use crate::state::{AfterRelease, Phase, State};
use crate::status::show;

/// The state machine of device operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceOp;

impl Machine for DeviceOp {
    type Event = Facts;
    type State = State;
    type Effect = Effect;
    type Policy = Policy;

    fn step(state: State, facts: &Facts, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
        let before = state.clone();
        let mut next = State { is_unsure: false, ..state };
        let mut effects = Vec::new();
        if next.phase == Phase::NewBoot {
            effects.extend(new_boot(&mut next, facts, policy));
        }
        // The record of the new boot is on disk before anything follows from it. Exception: for a command without a
        // record, because the disk may accept no writes.
        if before.phase != Phase::NewBoot || commands::begins_without_record(&next.record, facts) {
            note_end(&mut next.record, facts);
            take_facts(&mut next, facts);
            effects.extend(advance(&mut next, facts, now, policy));
            next.record.forget_stale_failure();
            effects.extend(commands::counters(&next.record, facts));
        }
        if next.phase != Phase::HandedOver {
            next.not_taken_since = None;
        }
        if is_request_superfluous(&next, facts) {
            effects.push(Effect::Withdraw);
        }
        let judged = Judged::of(&next.record, facts);
        show(&mut next, &judged, facts, now, policy);
        let mut effects = between(&before, &next, effects);
        let wakes = wake(&next, facts, now).into_iter().chain(clock_wakes(&next, facts, now));
        effects.extend(wakes.min().map(Effect::WakeAt));
        (next, effects)
    }

    fn wake_at(effect: &Effect) -> Option<u64> {
        if let Effect::WakeAt(at_ms) = effect { Some(*at_ms) } else { None }
    }
}

/// Applies the rules of a new boot to the record. The counters of accepted commands are written first, because the
/// rules may drop commands that must count as done.
fn new_boot(next: &mut State, facts: &Facts, policy: &Policy) -> Vec<Effect> {
    let overdue = commands::overdue_counters(&next.record, facts);
    let is_without = commands::begins_without_record(&next.record, facts);
    if overdue.is_empty() || is_without {
        next.record = next.record.clone().in_new_boot(&policy.boot_id, facts.acted.as_ref());
        next.phase = Phase::of(&next.record, next.record.waiting.first());
    }
    if is_without { Vec::new() } else { overdue }
}

/// Notes that nodeagent is done with the operation handed over. That serves all commands for this operation that
/// waited until now. It runs before new commands are accepted, because a command in this snapshot may have been given
/// after the operation ended.
fn note_end(record: &mut OperationRecord, facts: &Facts) {
    if let Some(current) = record.handed_over
        && record.failure_of(Some(&current)).is_none()
        && matches!(progress(&facts.nodeagent, current), Progress::Done)
    {
        record.finish();
    }
}

/// Takes over device-op's own request as it is published, and the commands.
fn take_facts(next: &mut State, facts: &Facts) {
    next.record.request = facts.drain.own;
    if facts.drain.own.is_none() {
        next.record.attempt = None;
    }
    if commands::take(&mut next.record, facts) {
        // A new command does not wait for the pause after a failure.
        (next.record.failed, next.record.setbacks) = (None, 0);
    }
}

/// Runs the function of the current phase.
fn advance(next: &mut State, facts: &Facts, now: Moment, policy: &Policy) -> Vec<Effect> {
    let judged = Judged::of(&next.record, facts);
    match next.phase.clone() {
        Phase::NewBoot => {}
        Phase::Idle | Phase::Held => next.phase = Phase::of(&next.record, judged.next_up.as_ref()),
        Phase::Deferred => return deferred(next, &judged, facts, now),
        Phase::HandedOver => handed_over(next, &judged, facts, now),
        Phase::Acting => acting(next, &judged, facts, now),
        Phase::Done => done(next, &judged, facts, now),
        Phase::Recalling(after_release) => recalling(next, &after_release, facts),
        Phase::Failed => failed(next, &judged, facts, now, policy),
    }
    Vec::new()
}

fn deferred(next: &mut State, judged: &Judged, facts: &Facts, now: Moment) -> Vec<Effect> {
    next.phase = Phase::of(&next.record, judged.next_up.as_ref());
    let (Some(current), Some(gate), Phase::Deferred) = (judged.next_up, &facts.drain.gate, &next.phase)
    else {
        return Vec::new();
    };
    match gate.verdict {
        // This answers the request for an operation that is over or less far-reaching: a new request is needed. A
        // drain in progress, on the other hand, is joined.
        Verdict::Proceed(_)
            if gate.is_answer()
                && next.record.attempt.is_none_or(|(_, operation)| operation != current.operation) =>
        {
            publish(next, current, facts)
        }
        Verdict::Proceed(_) => {
            next.record.hand_over(current);
            next.phase = Phase::HandedOver;
            Vec::new()
        }
        Verdict::Publish => publish(next, current, facts),
        Verdict::Defer(_) => Vec::new(),
        Verdict::Failed(_) => {
            let failure = Failure::new(current, gate.blocked_by.clone(), now.boot_ms);
            next.record.failed = Some(Failure { is_drain: true, ..failure });
            next.phase = Phase::Failed;
            Vec::new()
        }
    }
}

/// Until nodeagent is Acting, the gate may close again, and the source may take the command back.
fn handed_over(next: &mut State, judged: &Judged, facts: &Facts, now: Moment) {
    let Some((current, progress)) = under_way(next, judged, facts) else { return };
    match progress {
        Progress::Acting => next.phase = Phase::Acting,
        Progress::Done => next.phase = Phase::Done,
        Progress::Failed(error) => nodeagent_failed(&mut next.record, current, error, now),
        Progress::Other | Progress::Unknown => {
            if judged.is_taken_back {
                recall(next, &AfterRelease::Drop, facts);
            } else if !facts.drain.is_open() || judged.is_frozen {
                recall(next, &AfterRelease::Defer, facts);
            } else {
                not_taken(next, current, facts, now);
            }
        }
    }
}

/// Counts how long nodeagent does not prepare the command handed over, and gives the command up at the limit.
fn not_taken(next: &mut State, current: Accepted, facts: &Facts, now: Moment) {
    let is_about = |action: &DeviceAction| is_about(action, current);
    if let Some(error) = facts.nodeagent.not_taken(is_about, &mut next.not_taken_since, now.boot_ms) {
        fail(&mut next.record, current, error, now);
    }
}

/// Notes that nodeagent failed with the operation. While it was past the point of no return, zedkube kept its answer
/// whatever came to the node: the next operation needs a new drain.
fn nodeagent_failed(record: &mut OperationRecord, current: Accepted, error: String, now: Moment) {
    record.attempt = None;
    fail(record, current, error, now);
}

/// Notes that the operation failed. The failure must be on disk before the command is cleared.
fn fail(record: &mut OperationRecord, current: Accepted, error: String, now: Moment) {
    record.failed = Some(Failure::new(current, error, now.boot_ms));
    record.setbacks = record.setbacks.saturating_add(1);
}

/// The operation handed over, and nodeagent's progress with it. None if the operation is recalled here. A recorded
/// failure is checked first: if the command were cleared before the failure is on disk, a crash in between would
/// repeat the operation without the pause.
fn under_way(next: &mut State, judged: &Judged, facts: &Facts) -> Option<(Accepted, Progress)> {
    let Some(current) = next.record.handed_over else {
        next.phase = Phase::of(&next.record, judged.next_up.as_ref());
        return None;
    };
    if let Some(failure) = next.record.failure_of(Some(&current)) {
        let after_release = AfterRelease::Fail(failure.error.clone());
        recall(next, &after_release, facts);
        return None;
    }
    let progress = progress(&facts.nodeagent, current);
    let is_over = matches!(progress, Progress::Done | Progress::Failed(_));
    if is_over && judged.is_taken_back {
        // Recalled without a record of how it ended: the disk may accept no writes.
        recall(next, &AfterRelease::Drop, facts);
        return None;
    }
    Some((current, progress))
}

/// Clears the command. If it was cleared before this snapshot, the snapshot already shows whether nodeagent has
/// released it.
fn recall(next: &mut State, after_release: &AfterRelease, facts: &Facts) {
    next.phase = Phase::Recalling(after_release.clone());
    if next.command.is_none() {
        recalling(next, after_release, facts);
    }
}

/// nodeagent is past the point of no return: only its final result matters.
fn acting(next: &mut State, judged: &Judged, facts: &Facts, now: Moment) {
    let Some((current, progress)) = under_way(next, judged, facts) else { return };
    match progress {
        Progress::Acting | Progress::Unknown => {}
        Progress::Done => next.phase = Phase::Done,
        Progress::Failed(error) => nodeagent_failed(&mut next.record, current, error, now),
        // nodeagent has lost its progress. It begins again, which needs a drain of now.
        Progress::Other => {
            next.record.attempt = None;
            recall(next, &AfterRelease::Defer, facts);
        }
    }
}

/// The command and its drain request stay published until the command is taken back or a second one waits.
fn done(next: &mut State, judged: &Judged, facts: &Facts, now: Moment) {
    let Some((current, progress)) = under_way(next, judged, facts) else { return };
    match progress {
        Progress::Acting => next.phase = Phase::Acting,
        Progress::Failed(error) => nodeagent_failed(&mut next.record, current, error, now),
        Progress::Done | Progress::Unknown | Progress::Other => {
            if judged.is_taken_back || !next.record.waiting.is_empty() {
                recall(next, &AfterRelease::Drop, facts);
            } else if matches!(progress, Progress::Other) {
                // nodeagent has lost its progress. The operation is done, so nodeagent must not find the command
                // again.
                next.command = None;
            }
        }
    }
}

/// Waits until nodeagent has released the command. The command was cleared before this snapshot, so nodeagent's file
/// is final.
///
/// If nodeagent is Acting, it was too late. The command stays cleared even so: nodeagent does not need it any more,
/// and must not find it again if it fails.
fn recalling(next: &mut State, after_release: &AfterRelease, facts: &Facts) {
    if !has_released(&facts.nodeagent) {
        return;
    }
    match after_release {
        // nodeagent carried the operation out before it released the command: zedkube's answer was revoked too late.
        AfterRelease::Defer if next.record.is_done => {
            next.phase = Phase::Done;
            return;
        }
        AfterRelease::Defer | AfterRelease::Fail(_) => next.record.take_back_to_queue(),
        AfterRelease::Drop => next.record.drop_handed_over(),
    }
    next.phase = Phase::of(&next.record, Judged::of(&next.record, facts).next_up.as_ref());
}

fn failed(next: &mut State, judged: &Judged, facts: &Facts, now: Moment, policy: &Policy) {
    let is_due = |failure: &Failure| {
        next_try(failure.at_ms, pause(failure, next.record.setbacks, policy)).is_due(now.boot_ms)
            || (failure.is_drain && facts.drain.needs_no_pause)
    };
    if next.record.failed.as_ref().is_some_and(is_due) {
        next.record.failed = None;
    }
    next.phase = Phase::of(&next.record, judged.next_up.as_ref());
}

/// Records the next request as device-op's own, and publishes it. Outside the window the command waits instead: its request
/// was lost, or never published, so that its drain would begin now.
fn publish(next: &mut State, current: Accepted, facts: &Facts) -> Vec<Effect> {
    let record = &mut next.record;
    if outside_window(&current, facts).is_some() {
        record.attempt = None;
        next.phase = Phase::of(record, Judged::of(record, facts).next_up.as_ref());
        return Vec::new();
    }
    record.request = Some(facts.drain.next);
    record.attempt = Some(current.kind());
    vec![Effect::Request { own: facts.drain.next, operation: current.operation }]
}

/// True if device-op's request is published although no operation waits for an answer or is carried out. It is
/// withdrawn, whatever the reason it was left.
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

/// When to run the next step although no file changes.
fn wake(next: &State, facts: &Facts, now: Moment) -> Option<u64> {
    match (&next.phase, next.next_try.map(|next_try| next_try.at)) {
        (Phase::Recalling(_), _) => Some(now.after(LOOK_AT_LOCK_MS)),
        (Phase::Failed, Some(NextTry::At(at))) => Some(at),
        (Phase::HandedOver, _) => not_taken_at(next.not_taken_since, now),
        (Phase::Held, _) => {
            let ends_in = facts.freeze.as_ref().and_then(|freeze| freeze.ends_in_ms)?;
            Some(now.after(ends_in.min(LOOK_AT_CLOCK_MS)))
        }
        _ => None,
    }
}

/// When to look at the wall clock again: for the window, and for the times of commands with `--at`.
fn clock_wakes(next: &State, facts: &Facts, now: Moment) -> impl Iterator<Item = u64> {
    let window = facts.window.as_ref().map(|window| wake_at(window, now));
    let early = next.record.waiting.iter().filter(|waiting| is_early(waiting, facts));
    let due = early.map(move |waiting| at_wall(waiting.not_before, now));
    due.chain(window)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
