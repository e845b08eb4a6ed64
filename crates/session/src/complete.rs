//! COMPLETE is taken back as soon as it is not true any more, because the reboot that it allows may come hours later.
//!
//! After a drain, a watch that contradicts COMPLETE causes a fresh list. If the list confirms the contradiction, or
//! fails, all answers are taken back. An answer that was given without a drain is taken back as soon as its reason is
//! gone.
//!
//! Nothing is taken back while nodeagent is Acting. Meanwhile our agents see only the answer by which it acts. If the
//! action fails, the answers to other requesters wait for a fresh list: once a command went ahead, after an image's
//! reboot had failed, by an answer that nothing could take back.

use std::time::Duration;

use drain::plan::{Planned, plan};
use drain::time::Moment;
use drain::view::Snapshot;
use schemas::Outcome;

use crate::context::StepContext;
use crate::effect::Effect;
use crate::event::Event;
use crate::membership::NodeAgent;
use crate::next::Next;
use crate::phase::{Phase, Recheck};
use crate::policy::Policy;
use crate::state::State;

/// EVE's nodeagent does not publish when it begins to act: for this long after the answer we assume that it has not
/// begun.
const BESIDE_EVES_NODEAGENT: Duration = Duration::from_secs(5);

/// A watch may stay silent, or fail again and again: so long after a list the pods of a drained node are listed again.
const LISTED_AGAIN: Duration = Duration::from_secs(30);

/// Checks whether the event contradicts COMPLETE.
pub(crate) fn step(state: &mut State, event: &Event, context: &mut StepContext<'_>) -> Next {
    let Phase::Complete { outcome, recheck } = state.phase else { return Next::Stay };
    if outcome == Outcome::Drained {
        return drained(state, event, recheck, context);
    }
    let is_taken_back = is_reason_gone(state, outcome, event) && !is_too_late(state, context);
    if is_taken_back { Next::BeginAnew } else { Next::Stay }
}

/// The reason for an answer without a drain is not true any more.
fn is_reason_gone(state: &State, outcome: Outcome, event: &Event) -> bool {
    let is_listed = matches!(event, Event::NodesListed { result: Ok(_), .. });
    match outcome {
        Outcome::ApiUnreachable => is_listed || matches!(event, Event::Probed { result: Ok(_), .. }),
        Outcome::NoSchedulablePeer => is_listed && state.has_peer(),
        Outcome::NodeGone => event.own_node().is_some(),
        Outcome::Drained
        | Outcome::Forced
        | Outcome::CordonFailed
        | Outcome::DrainFailed
        | Outcome::Cancelled => false,
    }
}

/// The requester may have begun to go down, because it was told that it may without a drain. Our nodeagent publishes
/// whether it has.
fn is_too_late(state: &State, context: &StepContext<'_>) -> bool {
    match state.facts.nodeagent {
        NodeAgent::Acting(_) => true,
        NodeAgent::NotActing => false,
        NodeAgent::Silent => {
            let told = state.published.announced_at().filter(|_| context.policy.beside_zedbox);
            told.is_some_and(|told| told + BESIDE_EVES_NODEAGENT <= context.now)
        }
    }
}

/// nodeagent was past the point of no return, and the device stays up all the same. Meanwhile nothing was taken back, so
/// what other requesters were told has to be looked at anew.
pub(crate) fn action_failed(state: &mut State) -> Next {
    match state.phase {
        Phase::Complete { outcome: Outcome::Drained, .. } => {
            state.nobody_looked();
            Next::Stay
        }
        Phase::Complete { outcome: Outcome::Forced, .. }
        | Phase::Idle
        | Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Failed(_) => Next::Stay,
        Phase::Complete { .. } => Next::BeginAnew,
    }
}

fn drained(state: &mut State, event: &Event, asked: Option<Recheck>, context: &mut StepContext<'_>) -> Next {
    if let Event::Drain(drain::Event::Relisted { attempt, result: relisted }) = event
        && let Some(asked) = asked.filter(|asked| asked.serial == *attempt)
    {
        let was_unseen = state.is_unseen;
        let next = if relisted.is_err() && asked.is_routine {
            still_true(state, Outcome::Drained, context.now)
        } else {
            proven(state, relisted.as_deref().ok(), context)
        };
        if asked.is_overtaken && matches!(next, Next::Stay) {
            state.is_unseen = was_unseen;
            recheck(state, context);
        }
        return next;
    }
    let is_look =
        matches!(event, Event::Facts(_) | Event::Tick | Event::NodesListed { .. } | Event::Probed { .. });
    let is_look = is_look && asked.is_none();
    let is_old = state.api.away_since.is_none() && context.now.since(state.listed) >= LISTED_AGAIN;
    let is_doubtful = if let Event::Drain(drain::Event::Snapshot(snapshot)) = event {
        // A watch may be late: it is a reason to list again, not a proof.
        !is_still_true(snapshot, context.policy)
    } else if let Event::Probed { result: Ok(node), .. } = event {
        node.as_ref().is_none_or(|node| !node.cordoned)
    } else {
        false
    };
    // Past the point of no return nothing is taken back.
    if state.facts.nodeagent.is_acting() {
        return Next::Stay;
    }
    if is_doubtful || (is_look && state.is_unseen) {
        recheck(state, context);
    } else if is_look && is_old {
        verify(state, true, context);
    }
    Next::Stay
}

/// Asks for a verification. If one is in flight, the server may have answered it before the event that causes this one,
/// so another follows.
pub(crate) fn recheck(state: &mut State, context: &mut StepContext<'_>) {
    verify(state, false, context);
}

/// As [`recheck`]; `is_routine` says that no event has caused it.
fn verify(state: &mut State, is_routine: bool, context: &mut StepContext<'_>) {
    let Phase::Complete { outcome: outcome @ Outcome::Drained, recheck } = state.phase else { return };
    let recheck = recheck.map_or_else(
        || {
            let prove = |attempt| Effect::Drain(drain::Effect::Relist { attempt, volumes: false });
            Recheck { serial: context.send(prove), is_overtaken: false, is_routine }
        },
        |on_its_way| Recheck { is_overtaken: true, ..on_its_way },
    );
    state.enter(Phase::Complete { outcome, recheck: Some(recheck) }, context.now);
}

/// Judges the result of a verification: COMPLETE is kept, or all answers are taken back and a new drain begins. A failed
/// list proves nothing, so the answers are taken back as well.
fn proven(state: &mut State, snapshot: Option<&Snapshot>, context: &StepContext<'_>) -> Next {
    let is_answered = state.requests.next_unanswered().is_none();
    let outcome = match snapshot {
        Some(snapshot) if is_gone(state, snapshot) => Some(Outcome::NodeGone),
        Some(snapshot) if is_still_true(snapshot, context.policy) => Some(Outcome::Drained),
        Some(_) | None => (state.facts.nodeagent.is_acting() && is_answered).then_some(Outcome::Drained),
    };
    let Some(outcome) = outcome else { return Next::BeginAnew };
    state.is_unseen = false;
    still_true(state, outcome, context.now)
}

/// COMPLETE stays; the next list follows in time.
fn still_true(state: &mut State, outcome: Outcome, now: Moment) -> Next {
    state.listed = now;
    state.enter(Phase::Complete { outcome, recheck: None }, now);
    Next::Stay
}

/// The Node that was drained does not exist any more: neither the fresh list nor the watch finds it, and no pod is bound
/// to it.
fn is_gone(state: &State, snapshot: &Snapshot) -> bool {
    let is_watched = state.snapshot.as_ref().is_none_or(|watched| watched.node.is_some());
    snapshot.node.is_none() && snapshot.pods.is_empty() && !is_watched
}

fn is_still_true(snapshot: &Snapshot, policy: &Policy) -> bool {
    let empty = !plan(snapshot, &policy.drain).iter().any(Planned::must_leave);
    empty && snapshot.node.as_ref().is_some_and(|node| node.cordoned)
}
