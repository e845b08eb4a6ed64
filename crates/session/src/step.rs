//! The state machine of the device around a drain.
//!
//! Each event is first taken in as a fact (who asks, whether the API server answers, what our node looks like),
//! then shown to the phase, one function per phase. The tail is level-triggered: what follows from the state as
//! a whole (a drain to begin, a cordon to take back, a probe that is due, a status to show) is looked at after
//! every event.

use std::sync::Arc;
use std::time::Duration;

use drain::time::Moment;

use crate::effect::{Effect, rank};
use crate::event::Event;
use crate::forcing::Forcing;
use crate::membership::Member;
use crate::policy::Policy;
use crate::record::record;
use crate::requests::{Answer, Request, Requester};
use crate::showing::{Status, show};
use crate::state::{self, Ended, Outcome, Phase, Session, State, Waiting};
use crate::{attempting, complete, cordoning, forcing, health, leasing, looking, returning, waiting};

/// The next state, and what to do.
pub fn step(mut state: State, event: Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    let before = (headline(&state), record(&state));
    let mut effects = Vec::new();
    note(&mut state, &event, now, policy, &mut effects);
    stop_if_not_needed(&mut state, now, policy, &mut effects);
    phase(&mut state, event, now, policy, &mut effects);
    forcing::pursue(&mut state, now, policy, &mut effects);
    // Once more: each of these may have begun a drain.
    stop_if_not_needed(&mut state, now, policy, &mut effects);
    begin_if_asked(&mut state, now);
    returning::remember(&mut state, policy);
    let wakes = [
        leasing::pursue(&mut state, now, policy, &mut effects),
        show(&mut state, now, policy),
        health::pursue(&mut state, now, policy, &mut effects),
        returning::pursue(&mut state, now, policy, &mut effects),
        looking::pursue(&mut state, now, &mut effects),
        phase_wake(&state, policy),
        state.forcing.complete.as_ref().map(|forced| forced.until),
        state.drain_wake,
    ];
    if headline(&state) != before.0 {
        effects.push(Effect::Publish);
    }
    if record(&state) != before.1 {
        effects.push(Effect::Record);
    }
    effects.sort_by_key(rank);
    effects.extend(wakes.into_iter().flatten().min().map(Effect::WakeAt));
    (state, effects)
}

/// Takes the event in as a fact, whatever the phase.
fn note(state: &mut State, event: &Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    match event {
        Event::Requests(standing) => requests(state, standing.clone(), now, policy, effects),
        Event::Facts(facts) => {
            state.facts = *facts;
            looking::membership(state, None);
        }
        Event::Looked { serial, result } => looking::looked(state, *serial, result, now, policy, effects),
        Event::Probed { serial, result } => looking::probed(state, *serial, result, now, policy, effects),
        Event::Uncordoned { serial, result } => returning::uncordoned(state, *serial, result, now),
        Event::Adopted { serial, result } => returning::adopted(state, *serial, result, now),
        Event::Slots { serial, result } => leasing::answered(state, *serial, result, now, policy),
        Event::SlotsChanged => leasing::changed(state, now),
        Event::Health { serial, result } => health::answered(state, *serial, result, now, policy),
        Event::Override(order) => forcing::ordered(state, order.clone(), effects),
        Event::OverrideTaken { renamed } => forcing::taken(state, *renamed, now, policy, effects),
        Event::Picture(picture) => {
            if let Some(node) = &picture.node {
                state.own = Some(node.clone());
            }
            state.picture = Some(Arc::clone(picture));
        }
        Event::Cordoned { result, .. } => cordoning::note(state, result),
        Event::Unseen { .. }
        | Event::Answer { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Tick => {}
    }
    looking::note_outage(state, now, policy);
}

fn phase(state: &mut State, event: Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    match &state.phase {
        Phase::Idle | Phase::Failed(_) => {}
        Phase::Waiting(_) => waiting::step(state, event, now, policy, effects),
        Phase::Cordoning(_) => cordoning::step(state, event, now, policy, effects),
        Phase::Attempting { .. } => attempting::step(state, event, now, policy, effects),
        Phase::Pausing { .. } => attempting::pause(state, now, effects),
        Phase::Complete { outcome: Outcome::Forced, .. } => forcing::step(state, now),
        Phase::Complete { .. } => complete::step(state, event, now, policy, effects),
    }
}

/// Takes the standing requests in: the last one withdrawn cancels, a new one joins or begins anew.
fn requests(
    state: &mut State,
    standing: Vec<Request>,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    let is_answering = forcing::next_covered(state).is_some();
    let any_new = state.requests.replace(standing);
    if any_new && !is_answering {
        forcing::spend(state);
    }
    match &state.phase {
        Phase::Idle | Phase::Complete { outcome: Outcome::Forced, .. } => {}
        _ if state.requests.is_empty() => cancel(state, now, policy, effects),
        Phase::Complete { outcome: Outcome::Drained, .. } if any_new => {
            state.shown.forget_times();
            complete::recheck(state, now, effects);
        }
        Phase::Complete { .. } if any_new => {
            state.requests.forget_answers();
            begin(state, now);
        }
        Phase::Failed(_) if any_new => begin(state, now),
        Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => {}
    }
}

fn begin_if_asked(state: &mut State, now: Moment) {
    let asked = state.requests.next_unanswered().is_some();
    if state.phase == Phase::Idle && asked && state.member_now() != Member::No {
        begin(state, now);
    }
}

/// It has turned out that this device is in no cluster. Nothing was done yet, and nothing has to be.
fn stop_if_not_needed(state: &mut State, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    if matches!(state.phase, Phase::Waiting(_)) && state.member_now() == Member::No {
        cancel(state, now, policy, effects);
    }
}

/// A new drain begins, for all that ask and were not answered.
pub(crate) fn begin(state: &mut State, now: Moment) {
    let number = state.session.number + 1;
    state.session = Session { number, started: Some(now), ..Session::default() };
    state.drain = drain::State::Idle;
    state.drain_wake = None;
    state.shown.forget_times();
    state.api.asked = None;
    state.api.next = now;
    state.picture = None;
    state.enter(Phase::Waiting(Waiting { since: now, after: state.serial, ..Waiting::default() }), now);
}

/// Nobody asks any more: everything in flight is given up, and the way back begins. What a drain that had ended
/// found stays for the report.
fn cancel(state: &mut State, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    if state.session.ended.is_none() {
        state.session.ended = Some(Ended::Cancelled);
        attempting::drive(state, drain::Event::Cancel, now, policy, effects);
    }
    state.picture = None;
    state.api.next = state.api.next.min(now + Duration::from_secs(1));
    state.session.finished.get_or_insert(now);
    state.enter(Phase::Idle, now);
}

/// The drain ends well.
pub(crate) fn finish(state: &mut State, outcome: Outcome, now: Moment) {
    state.session.finished = Some(now);
    state.enter(Phase::Complete { outcome, recheck: None }, now);
}

fn phase_wake(state: &State, policy: &Policy) -> Option<Moment> {
    match &state.phase {
        Phase::Waiting(waiting) => policy.wait_limit.map(|limit| waiting.since + limit),
        Phase::Cordoning(state::Cordoning {
            in_flight: None, unseen: false, cordoned: false, next, ..
        }) if state.own.is_some() => Some(*next),
        Phase::Pausing { until, .. } => Some(*until),
        Phase::Idle
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => None,
    }
}

/// What others can see of the state at a glance; a change is published at once, everything else at leisure.
#[derive(PartialEq)]
struct Headline {
    status: Status,
    requested_by: Requester,
    phase: &'static str,
    member: Member,
    drain: u64,
    attempts: usize,
    forcing: Forcing,
    holds_slot: bool,
    answers: Vec<(Requester, String, Answer)>,
}

fn headline(state: &State) -> Headline {
    let answer = |request: &Request| (request.requester, request.requested_at.clone(), request.answer);
    Headline {
        status: state.shown.status,
        requested_by: state.shown.requested_by,
        phase: state.phase.name(),
        member: state.member_now(),
        drain: state.session.number,
        attempts: state.session.attempts.len(),
        forcing: state.forcing.clone(),
        holds_slot: leasing::is_held(state),
        answers: state.requests.iter().map(answer).collect(),
    }
}

#[cfg(test)]
mod complete_tests;
#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test asks about some calls only")]
mod group_tests;
#[cfg(test)]
mod idle_tests;
#[cfg(test)]
mod member_tests;
#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test asks about one state")]
mod properties;
#[cfg(test)]
mod restart_tests;
#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test asks about one state")]
mod sim;
#[cfg(test)]
mod slots_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod word_tests;
