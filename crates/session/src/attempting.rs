//! Attempts: at most five, with a pause between two.

use drain::time::Moment;

use crate::cordoning;
use crate::effect::Effect;
use crate::event::Event;
use crate::policy::Policy;
use crate::state::{AttemptRecord, Cordoning, Failed, Outcome, Phase, State};
use crate::step::finish;

/// The node is cordoned: the attempt begins.
pub(crate) fn begin(
    state: &mut State,
    cordoning: &Cordoning,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    let attempt = state.next_serial();
    state.enter(Phase::Attempting { attempt: cordoning.attempt, started: cordoning.started }, now);
    let start = start(state, attempt, cordoning.resumes);
    drive(state, start, now, policy, effects);
    if state.api.outage.is_away() {
        drive(state, drain::Event::ApiAway, now, policy, effects);
    }
    // The watches may have been there before; they speak only of changes.
    if let Some(picture) = state.picture.clone() {
        drive(state, drain::Event::Picture(picture), now, policy, effects);
    }
    conclude(state, now, policy);
}

/// A new attempt; after a restart one that goes on.
fn start(state: &mut State, attempt: u32, resumes: bool) -> drain::Event {
    let api_back = state.api.back;
    match state.left.take() {
        Some(left) if resumes => drain::Event::Resume { attempt, api_back, record: Box::new(left) },
        Some(_) | None => drain::Event::Start { attempt, api_back },
    }
}

pub(crate) fn step(state: &mut State, event: Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    let event = match event {
        Event::Picture(picture) => Some(drain::Event::Picture(picture)),
        Event::Unseen { why } => Some(drain::Event::Unseen { why }),
        Event::Answer { attempt, uid, answer } => Some(drain::Event::Answer { attempt, uid, answer }),
        Event::Proof { attempt, look } => Some(drain::Event::Proof { attempt, look }),
        Event::Found { attempt, findings } => Some(drain::Event::Found { attempt, findings }),
        Event::Tick => Some(drain::Event::Tick),
        // Facts, taken in before; an outage has reached the attempt already.
        Event::Requests(_)
        | Event::Facts(_)
        | Event::Looked { .. }
        | Event::Probed { .. }
        | Event::Cordoned { .. }
        | Event::Uncordoned { .. }
        | Event::Adopted { .. }
        | Event::Slots { .. }
        | Event::SlotsChanged
        | Event::Health { .. }
        | Event::Override(_)
        | Event::OverrideTaken { .. } => None,
    };
    if let Some(event) = event {
        drive(state, event, now, policy, effects);
    }
    conclude(state, now, policy);
}

/// Between two attempts: begins the next one when it is time, with the cordon, which somebody may have lifted.
pub(crate) fn pause(state: &mut State, now: Moment, effects: &mut Vec<Effect>) {
    if let Phase::Pausing { failed, until } = state.phase
        && until <= now
    {
        cordoning::begin(state, failed + 1, now, effects);
    }
}

/// An attempt has failed: another one, or the end.
pub(crate) fn failed(
    state: &mut State,
    attempt: u32,
    started: Moment,
    error: &str,
    now: Moment,
    policy: &Policy,
) {
    let record = AttemptRecord { number: attempt, started, ended: now, error: error.to_owned() };
    state.session.attempts.push(record);
    if attempt >= policy.attempts {
        state.session.finished = Some(now);
        let text = format!("{attempt} attempts failed, the last one because {error}");
        state.enter(Phase::Failed(Failed::Drain(text)), now);
    } else {
        state.enter(Phase::Pausing { failed: attempt, until: now + policy.retry_pause }, now);
    }
}

/// Shows the event to the attempt and takes its effects over.
pub(crate) fn drive(
    state: &mut State,
    event: drain::Event,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    let (next, wanted) = drain::step(std::mem::take(&mut state.drain), event, now, &policy.drain);
    state.drain = next;
    state.drain_wake = None;
    for effect in wanted {
        match effect {
            drain::Effect::WakeAt(moment) => state.drain_wake = Some(moment),
            effect @ (drain::Effect::Evict { .. }
            | drain::Effect::Delete { .. }
            | drain::Effect::Prove { .. }
            | drain::Effect::Inquire { .. }
            | drain::Effect::Abort) => effects.push(Effect::Drain(effect)),
        }
    }
}

fn conclude(state: &mut State, now: Moment, policy: &Policy) {
    let Phase::Attempting { attempt, started } = state.phase else { return };
    let drain::State::Ended(ended, outcome) = &state.drain else { return };
    state.session.gone += ended.gone();
    match outcome {
        drain::state::Outcome::Drained => finish(state, Outcome::Drained, now),
        drain::state::Outcome::NodeGone => finish(state, Outcome::NodeGone, now),
        drain::state::Outcome::Failed(failure) => {
            failed(state, attempt, started, &failure.to_string(), now, policy);
        }
    }
}
