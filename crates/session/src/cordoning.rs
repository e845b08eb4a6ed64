//! Cordoning the node: up to ten tries, of which only real refusals count. Then our slot is confirmed, before a pod
//! leaves, because another node may meanwhile have judged our entry abandoned and taken a slot.

use std::time::Duration;

use drain::time::Moment;
use schemas::Outcome;

use crate::context::StepContext;
use crate::effect::Effect;
use crate::event::{CallError, Cordoned, Event};
use crate::next::Next;
use crate::phase::{Cordoning, Failed, Phase};
use crate::policy::Policy;
use crate::state::State;

/// Begins the cordon for this attempt.
pub(crate) fn begin(state: &mut State, attempt: u32, context: &mut StepContext<'_>) {
    let now = context.now;
    send(state, Cordoning { attempt, started: now, began: now, next: now, ..Cordoning::default() }, context);
}

/// Notes the answer to a cordon, in every phase: after a success our cordon is on the node, and if the server did not
/// answer it may be.
pub(crate) fn note(state: &mut State, result: &Result<Cordoned, CallError>) {
    match result {
        Ok(cordoned) => {
            state.restoring.may_be_cordoned = !cordoned.before;
            state.see_own(&cordoned.node);
        }
        Err(CallError::Unreachable(_)) => state.restoring.may_be_cordoned = true,
        Err(CallError::Denied(_) | CallError::Elsewhere(_) | CallError::Busy(_) | CallError::Other(_)) => {}
    }
}

/// Notes the answer to the try in flight, or the node as it was just read, and goes on.
pub(crate) fn step(state: &mut State, event: &Event, context: &mut StepContext<'_>) -> Next {
    let Phase::Cordoning(mut cordoning) = state.phase.clone() else { return Next::Stay };
    if event.is_unreachable() && state.api.is_news(context.now) && cordoning.is_first() {
        let unreachable = state.unreachable_at(cordoning.began, context.policy);
        if unreachable.is_some_and(|at| at <= context.now) {
            return Next::Finish(Outcome::ApiUnreachable);
        }
    }
    if let Event::Cordoned { serial, result } = event
        && cordoning.in_flight == Some(*serial)
    {
        answered(state, &mut cordoning, result, context);
        if cordoning.failures >= context.policy.cordon_tries {
            let Cordoning { failures, error, .. } = &cordoning;
            let text = format!("the node could not be cordoned in {failures} tries: {error}");
            return give_up(cordoning, text);
        }
    }
    if let Some(node) = event.own_node()
        && cordoning.unseen
    {
        if !node.cordoned {
            return Next::AttemptFailed(cordoning, drain::Failure::Uncordoned.to_string());
        }
        cordoning.unseen = false;
    }
    go_on(state, cordoning, context)
}

fn answered(
    state: &mut State,
    cordoning: &mut Cordoning,
    result: &Result<Cordoned, CallError>,
    context: &StepContext<'_>,
) {
    cordoning.in_flight = None;
    cordoning.next = context.now + context.policy.cordon_pause;
    match result {
        Ok(cordoned) => {
            if cordoning.is_first() {
                state.session.cordoned_before = cordoned.before;
            }
            (cordoning.cordoned, state.slots.confirmed) = (true, false);
            cordoning.error.clear();
        }
        // The API server was not there, or too busy, and refused nothing, so this does not count as a try.
        Err(CallError::Unreachable(text) | CallError::Busy(text)) => cordoning.error.clone_from(text),
        Err(CallError::Denied(text) | CallError::Elsewhere(text) | CallError::Other(text)) => {
            cordoning.failures = cordoning.failures.saturating_add(1);
            cordoning.error.clone_from(text);
        }
    }
}

/// Does what can be done next: begin the attempt once our slot is confirmed, or try to cordon again.
fn go_on(state: &mut State, cordoning: Cordoning, context: &mut StepContext<'_>) -> Next {
    if cordoning.cordoned && (state.slots.confirmed || context.policy.slots_limit == 0) {
        return Next::Attempt(cordoning);
    }
    let is_late = context.now.since(cordoning.began) > limit(context.policy);
    if is_late && cordoning.cordoned {
        let text = format!("our slot could not be confirmed after the cordon: {}", state.slots.error);
        return give_up(cordoning, text);
    }
    if is_late && !cordoning.is_first() {
        let text = format!("the node could not be cordoned again: {}", cordoning.error);
        return give_up(cordoning, text);
    }
    let is_due = is_next_due(&cordoning, context.now);
    if is_due {
        send(state, cordoning, context);
    } else {
        state.enter(Phase::Cordoning(cordoning), context.now);
    }
    Next::Stay
}

fn is_next_due(cordoning: &Cordoning, now: Moment) -> bool {
    next_try(cordoning).is_some_and(|next| next <= now)
}

/// When the next try is due; `None` while a try is in flight, or something else has to happen first.
pub(crate) fn next_try(cordoning: &Cordoning) -> Option<Moment> {
    let waits = cordoning.in_flight.is_some() || cordoning.unseen || cordoning.cordoned;
    (!waits).then_some(cordoning.next)
}

/// Longest time for the cordon of a later attempt, and for the confirmation of a slot: as long as an attempt may wait in
/// an outage.
fn limit(policy: &Policy) -> Duration {
    policy.drain.freeze_limit.max(policy.cordon_pause.saturating_mul(policy.cordon_tries))
}

fn send(state: &mut State, mut cordoning: Cordoning, context: &mut StepContext<'_>) {
    // After a restart it is not known yet which Node is ours; the list that shows it is on its way.
    if state.own.is_some() {
        cordoning.in_flight = Some(context.send(|serial| Effect::Cordon { serial }));
        // From now on the node may carry our cordon, whether or not an answer comes.
        state.restoring.may_be_cordoned = true;
    }
    state.enter(Phase::Cordoning(cordoning), context.now);
}

fn give_up(cordoning: Cordoning, text: String) -> Next {
    if cordoning.is_first() { Next::Fail(Failed::Cordon(text)) } else { Next::AttemptFailed(cordoning, text) }
}
