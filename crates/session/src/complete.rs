//! COMPLETE stands only while it is true.

use std::time::Duration;

use drain::plan::{Planned, plan};
use drain::time::Moment;
use drain::view::Picture;

use crate::effect::Effect;
use crate::event::{Event, Look};
use crate::membership::NodeAgent;
use crate::policy::Policy;
use crate::state::{Outcome, Phase, Recheck, State};
use crate::step::begin;
use crate::waiting::has_peer;

/// EVE's nodeagent does not say when it begins to act: for so long after the answer nothing was done yet.
const BESIDE_EVES_NODEAGENT: Duration = Duration::from_secs(5);

pub(crate) fn step(state: &mut State, event: Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    let Phase::Complete { outcome, recheck } = state.phase else { return };
    match outcome {
        Outcome::Drained => drained(state, event, recheck, now, policy, effects),
        Outcome::ApiUnreachable | Outcome::NoSchedulablePeer | Outcome::NodeGone => {
            if is_reason_gone(state, outcome, &event) && !is_too_late(state, now, policy) {
                take_back(state, now);
            }
        }
        Outcome::Forced => {}
    }
}

/// Why the node was not drained is not true any more.
fn is_reason_gone(state: &State, outcome: Outcome, event: &Event) -> bool {
    match outcome {
        Outcome::ApiUnreachable => {
            matches!(event, Event::Looked { result: Ok(_), .. } | Event::Probed { result: Ok(_), .. })
        }
        Outcome::NoSchedulablePeer => matches!(event, Event::Looked { result: Ok(_), .. }) && has_peer(state),
        Outcome::NodeGone => matches!(
            event,
            Event::Looked { result: Ok(Look { own: Ok(_), .. }), .. }
                | Event::Probed { result: Ok(Some(_)), .. }
        ),
        Outcome::Drained | Outcome::Forced => false,
    }
}

/// Whoever was told that the node may go down without a drain may have begun. Our nodeagent says so.
fn is_too_late(state: &State, now: Moment, policy: &Policy) -> bool {
    match state.facts.nodeagent {
        NodeAgent::Acting => true,
        NodeAgent::NotActing => false,
        NodeAgent::Silent => {
            let told = state.shown.announced_at().filter(|_| policy.beside_zedbox);
            told.is_some_and(|told| told + BESIDE_EVES_NODEAGENT <= now)
        }
    }
}

/// Nothing is undone after the point of no return.
fn is_acting(state: &State) -> bool {
    state.facts.nodeagent == NodeAgent::Acting
}

/// Everybody's answer is taken back, and a new drain begins.
fn take_back(state: &mut State, now: Moment) {
    state.requests.forget_answers();
    begin(state, now);
}

fn drained(
    state: &mut State,
    event: Event,
    asked: Option<Recheck>,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    match event {
        // A watch may be late: it is a reason to look, not a proof.
        Event::Picture(picture) if !is_acting(state) && !still_true(&picture, policy) => {
            recheck(state, now, effects);
        }
        Event::Probed { result: Ok(node), .. }
            if !is_acting(state) && node.as_ref().is_none_or(|node| !node.cordoned) =>
        {
            recheck(state, now, effects);
        }
        Event::Proof { attempt, look } if asked.is_some_and(|asked| asked.serial == attempt) => {
            proven(state, look.ok().as_deref(), now, policy);
            if asked.is_some_and(|asked| asked.is_overtaken) {
                recheck(state, now, effects);
            }
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
}

/// Asks for a fresh look. One that is on its way may have been served before what it is asked for now, so it is
/// followed by another.
pub(crate) fn recheck(state: &mut State, now: Moment, effects: &mut Vec<Effect>) {
    let Phase::Complete { outcome: outcome @ Outcome::Drained, recheck } = state.phase else { return };
    let recheck = recheck.map_or_else(
        || {
            let serial = state.next_serial();
            effects.push(Effect::Drain(drain::Effect::Prove { attempt: serial, volumes: false }));
            Recheck { serial, is_overtaken: false }
        },
        |on_its_way| Recheck { is_overtaken: true, ..on_its_way },
    );
    state.enter(Phase::Complete { outcome, recheck: Some(recheck) }, now);
}

/// The fresh look: COMPLETE stands, or everybody's answer is taken back and a new drain begins. A look that
/// failed proves nothing, so it takes back as well.
fn proven(state: &mut State, look: Option<&Picture>, now: Moment, policy: &Policy) {
    let is_answered = state.requests.next_unanswered().is_none();
    let outcome = match look {
        Some(picture) if is_gone(state, picture) => Some(Outcome::NodeGone),
        Some(picture) if still_true(picture, policy) => Some(Outcome::Drained),
        Some(_) | None => (is_acting(state) && is_answered).then_some(Outcome::Drained),
    };
    match outcome {
        Some(outcome) => state.enter(Phase::Complete { outcome, recheck: None }, now),
        None => take_back(state, now),
    }
}

/// The Node that we have drained exists no more: the look and the watch do not find it, and no pod is bound to it.
fn is_gone(state: &State, look: &Picture) -> bool {
    let is_watched = state.picture.as_ref().is_none_or(|watched| watched.node.is_some());
    look.node.is_none() && look.pods.is_empty() && !is_watched
}

fn still_true(picture: &Picture, policy: &Policy) -> bool {
    let empty = !plan(picture, &policy.drain).iter().any(Planned::must_leave);
    empty && picture.node.as_ref().is_some_and(|node| node.cordoned)
}
