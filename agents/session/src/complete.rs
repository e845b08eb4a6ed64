//! COMPLETE stands only while it is true.

use drain::plan::{Planned, plan};
use drain::time::Moment;
use drain::view::Picture;

use crate::effect::Effect;
use crate::event::Event;
use crate::policy::Policy;
use crate::state::{Outcome, Phase, Recheck, State};
use crate::step::begin;

pub(crate) fn step(state: &mut State, event: Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    let Phase::Complete { outcome: Outcome::Drained, recheck: asked } = state.phase else { return };
    match event {
        // A watch may be late: it is a reason to look, not a proof.
        Event::Picture(picture) if !still_true(&picture, policy) => recheck(state, now, effects),
        Event::Probed { result: Ok(node), .. } if node.as_ref().is_none_or(|node| !node.cordoned) => {
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
    match look {
        Some(picture) if picture.node.is_none() => {
            state.enter(Phase::Complete { outcome: Outcome::NodeGone, recheck: None }, now);
        }
        Some(picture) if still_true(picture, policy) => {
            state.enter(Phase::Complete { outcome: Outcome::Drained, recheck: None }, now);
        }
        Some(_) | None => {
            state.requests.forget_answers();
            begin(state, now);
        }
    }
}

fn still_true(picture: &Picture, policy: &Policy) -> bool {
    let empty = !plan(picture, &policy.drain).iter().any(Planned::must_leave);
    empty && picture.node.as_ref().is_some_and(|node| node.cordoned)
}
