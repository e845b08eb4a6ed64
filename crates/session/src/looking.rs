//! Fresh looks at the API server: is it there, who are the nodes, what does our own look like.

use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;

use crate::attempting::drive;
use crate::effect::Effect;
use crate::event::{Look, Trouble};
use crate::leasing;
use crate::membership::{Listed, Member, next};
use crate::policy::Policy;
use crate::returning;
use crate::state::{Outcome, Phase, State};

/// Between two looks while a drain is under way or the API server is away (EVE polls as often).
const BUSY: Duration = Duration::from_secs(5);

/// Between two looks when nothing is going on.
const QUIET: Duration = Duration::from_mins(1);

/// Starts a look or a probe if one is due and none is in flight; says when to come again.
pub(crate) fn pursue(state: &mut State, now: Moment, effects: &mut Vec<Effect>) -> Option<Moment> {
    if state.api.asked.is_some() {
        return None;
    }
    if now < state.api.next {
        return Some(state.api.next);
    }
    let serial = state.next_serial();
    state.api.asked = Some(serial);
    effects.push(if wants_all_nodes(state) { Effect::Look { serial } } else { Effect::Probe { serial } });
    None
}

/// Takes a list of nodes in.
pub(crate) fn looked(
    state: &mut State,
    serial: u32,
    result: &Result<Look, Trouble>,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    reached(state, serial, result.as_ref().err(), now, policy, effects);
    if let Ok(look) = result {
        state.sight.identity = look.own.as_ref().err().map(|none| none.why.clone()).unwrap_or_default();
        returning::forget_what_is_gone(state, look);
        state.slots.watched.see_nodes(&look.nodes, now);
        state.nodes.clone_from(&look.nodes);
        state.nodes_asked = serial;
        if let Ok(own) = &look.own {
            state.own = Some(own.clone());
        }
        leasing::see_others(state, now, policy);
        state.has_looked = true;
        membership(state, Some(Listed { nodes: look.nodes.len(), has_own: look.own.is_ok() }));
    }
}

/// Takes a look at our own node in.
pub(crate) fn probed(
    state: &mut State,
    serial: u32,
    result: &Result<Option<NodeView>, Trouble>,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    reached(state, serial, result.as_ref().err(), now, policy, effects);
    if let Ok(node) = result {
        state.own.clone_from(node);
    }
}

/// `no` lets the device go down, so `yes` becomes `no` only while nobody asks, and what is not known yet only as long as
/// nothing was done to the node. Everything else may change at any time.
pub(crate) fn membership(state: &mut State, listed: Option<Listed>) {
    let next = next(state.member, &state.facts, listed);
    let is_allowed = match (state.member, next) {
        (Member::Yes, Member::No) => state.requests.is_empty(),
        (Member::Unknown, Member::No) => matches!(state.phase, Phase::Idle | Phase::Waiting(_)),
        (Member::Yes | Member::No | Member::Unknown, _) => true,
    };
    if is_allowed {
        state.member = next;
    }
}

/// An API server that has been away for so long that a drain would be given up has been asked.
pub(crate) fn note_outage(state: &mut State, now: Moment, policy: &Policy) {
    let away = state.api.away_since.map(|since| since + policy.unreachable_timeout);
    state.has_looked |= away.is_some_and(|limit| limit <= now);
}

/// Whether the API server was reached: the freeze of an attempt's clocks follows it.
pub(crate) fn note_api(
    state: &mut State,
    trouble: Option<&Trouble>,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    match trouble {
        Some(Trouble::Unreachable(text)) => {
            state.api.error.clone_from(text);
            if state.api.away_since.is_none() {
                state.api.away_since = state.api.away_before.take().or(Some(now));
            }
            if state.api.outage.failed(now) {
                drive(state, drain::Event::ApiAway, now, policy, effects);
            }
        }
        // A refusal is an answer: the server is there.
        None | Some(Trouble::Denied(_) | Trouble::Other(_)) => {
            (state.api.away_before, state.api.away_since) = (None, None);
            if state.api.outage.answered() {
                state.api.back = Some(now);
                drive(state, drain::Event::ApiBack, now, policy, effects);
            }
        }
    }
}

fn reached(
    state: &mut State,
    serial: u32,
    trouble: Option<&Trouble>,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    if state.api.asked == Some(serial) {
        state.api.asked = None;
        state.api.next = now + pause(state, trouble.is_some());
    }
    match trouble {
        None => state.sight.refused.clear(),
        Some(Trouble::Denied(text) | Trouble::Other(text)) => state.sight.refused.clone_from(text),
        Some(Trouble::Unreachable(_)) => {}
    }
    note_api(state, trouble, now, policy, effects);
}

fn pause(state: &State, failed: bool) -> Duration {
    match &state.phase {
        Phase::Waiting(_) | Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => BUSY,
        // Each of them may be taken back.
        Phase::Complete {
            outcome:
                Outcome::Drained | Outcome::ApiUnreachable | Outcome::NoSchedulablePeer | Outcome::NodeGone,
            ..
        } => BUSY,
        Phase::Idle | Phase::Complete { outcome: Outcome::Forced, .. } | Phase::Failed(_) => {
            let restless = failed || state.member_now() == Member::Unknown || returning::is_due(state);
            if restless { BUSY } else { QUIET }
        }
    }
}

fn wants_all_nodes(state: &State) -> bool {
    match &state.phase {
        Phase::Idle | Phase::Waiting(_) => true,
        Phase::Complete { outcome: Outcome::NoSchedulablePeer, .. } => true,
        Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => state.own.is_none(),
    }
}
