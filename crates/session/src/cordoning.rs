//! Cordoning the node: up to ten tries, of which only real refusals count. Then our slot is confirmed: whoever took us
//! for gone meanwhile may have given it away.

use drain::time::Moment;

use crate::attempting;
use crate::effect::Effect;
use crate::event::{Cordoned, Event, Look, Trouble};
use crate::looking::note_api;
use crate::policy::Policy;
use crate::state::{Cordoning, Failed, Outcome, Phase, State};
use crate::step::finish;
use crate::waiting::{has_just_failed, unreachable_at};

/// Sends the first try for this attempt.
pub(crate) fn begin(state: &mut State, attempt: u32, now: Moment, effects: &mut Vec<Effect>) {
    let cordoning = Cordoning { attempt, started: now, began: now, next: now, ..Cordoning::default() };
    send(state, cordoning, now, effects);
}

/// Whatever the phase: a cordon that was answered is on the node, and one that was not may be.
pub(crate) fn note(state: &mut State, result: &Result<Cordoned, Trouble>) {
    match result {
        Ok(cordoned) => {
            state.returning.may_be_cordoned = !cordoned.before;
            state.own = Some(cordoned.node.clone());
        }
        Err(Trouble::Unreachable(_)) => state.returning.may_be_cordoned = true,
        Err(Trouble::Denied(_) | Trouble::Other(_)) => {}
    }
}

pub(crate) fn step(state: &mut State, event: Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    let Phase::Cordoning(mut cordoning) = state.phase.clone() else { return };
    if has_just_failed(&event) && is_first(&cordoning) {
        let unreachable = unreachable_at(state, cordoning.began, policy);
        if unreachable.is_some_and(|at| at <= now) {
            return finish(state, Outcome::ApiUnreachable, now);
        }
    }
    match event {
        Event::Cordoned { serial, result } if cordoning.in_flight == Some(serial) => {
            return answered(state, cordoning, result, now, policy, effects);
        }
        Event::Looked { result: Ok(Look { own: Ok(node), .. }), .. }
        | Event::Probed { result: Ok(Some(node)), .. }
            if cordoning.unseen =>
        {
            if !node.cordoned {
                let text = drain::Failure::Uncordoned.to_string();
                return attempting::failed(state, cordoning.attempt, cordoning.started, &text, now, policy);
            }
            cordoning.unseen = false;
        }
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
        | Event::OverrideTaken { .. }
        | Event::Picture(_)
        | Event::Unseen { .. }
        | Event::Answer { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Tick => {}
    }
    go_on(state, cordoning, now, policy, effects);
}

fn answered(
    state: &mut State,
    mut cordoning: Cordoning,
    result: Result<Cordoned, Trouble>,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    cordoning.in_flight = None;
    cordoning.next = now + policy.cordon_pause;
    note_api(state, result.as_ref().err(), now, policy, effects);
    match result {
        Ok(cordoned) => {
            if is_first(&cordoning) {
                state.session.cordoned_before = cordoned.before;
            }
            (cordoning.cordoned, state.slots.confirmed) = (true, false);
            cordoning.error.clear();
        }
        // Nobody refused: the server was not there. Costs no try.
        Err(Trouble::Unreachable(text)) => cordoning.error = text,
        Err(Trouble::Denied(text) | Trouble::Other(text)) => {
            cordoning.failures = cordoning.failures.saturating_add(1);
            cordoning.error = text;
        }
    }
    if cordoning.failures >= policy.cordon_tries {
        let text =
            format!("the node could not be cordoned in {} tries: {}", cordoning.failures, cordoning.error);
        return give_up(state, &cordoning, text, now, policy);
    }
    go_on(state, cordoning, now, policy, effects);
}

/// The next thing that can be done: begin the attempt once our slot is confirmed, or try to cordon again.
fn go_on(state: &mut State, cordoning: Cordoning, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    if cordoning.cordoned && (state.slots.confirmed || policy.slots_limit == 0) {
        return attempting::begin(state, &cordoning, now, policy, effects);
    }
    let is_late = now.since(cordoning.began) > limit(policy);
    if is_late && cordoning.cordoned {
        let text = format!("our slot could not be confirmed after the cordon: {}", state.slots.error);
        return give_up(state, &cordoning, text, now, policy);
    }
    if is_late && !is_first(&cordoning) {
        let text = format!("the node could not be cordoned again: {}", cordoning.error);
        return give_up(state, &cordoning, text, now, policy);
    }
    if cordoning.in_flight.is_none() && !cordoning.unseen && !cordoning.cordoned && cordoning.next <= now {
        send(state, cordoning, now, effects);
    } else {
        state.enter(Phase::Cordoning(cordoning), now);
    }
}

/// Before CORDONED was ever shown in this drain.
fn is_first(cordoning: &Cordoning) -> bool {
    cordoning.attempt == 1 && !cordoning.resumes
}

/// A later attempt's cordon, and the confirmation of a slot, may take as long as an attempt may stand still.
fn limit(policy: &Policy) -> std::time::Duration {
    policy.drain.freeze_limit.max(policy.cordon_pause.saturating_mul(policy.cordon_tries))
}

fn send(state: &mut State, mut cordoning: Cordoning, now: Moment, effects: &mut Vec<Effect>) {
    // After a restart nobody knows yet which node is ours; the look that tells is on its way.
    if state.own.is_none() {
        return state.enter(Phase::Cordoning(cordoning), now);
    }
    let serial = state.next_serial();
    cordoning.in_flight = Some(serial);
    // From here on the node may carry our cordon, whether or not an answer comes.
    state.returning.may_be_cordoned = true;
    effects.push(Effect::Cordon { serial });
    state.enter(Phase::Cordoning(cordoning), now);
}

fn give_up(state: &mut State, cordoning: &Cordoning, text: String, now: Moment, policy: &Policy) {
    if is_first(cordoning) {
        state.session.finished = Some(now);
        state.enter(Phase::Failed(Failed::Cordon(text)), now);
    } else {
        attempting::failed(state, cordoning.attempt, cordoning.started, &text, now, policy);
    }
}
