//! Works out, after every event, what follows from the state as a whole: the next call for the slot table, the next run
//! of the health command, the next write to our Node, and the pause between calls to the API server.

use std::time::Duration;

use drain::cordon::Ownerless;
use drain::time::Moment;
use schemas::{Member, Outcome};

use crate::api::Query;
use crate::health::Purpose;
use crate::phase::{Phase, Stage};
use crate::policy::Policy;
use crate::restoring::{Write, is_ownerless};
use crate::slot_lease::Wanted;
use crate::state::{Remembered, State};

/// Pause between two lists or probes while a drain goes on (EVE polls as often).
const BUSY: Duration = Duration::from_secs(5);

/// Longest pause, but for up to a quarter more, while the API server is away, too busy, or refuses, and nothing is done to
/// the node yet. A thousand agents that ask every 5 s hold a server down that comes back.
const AWAY: Duration = Duration::from_secs(30);

/// Pause between two lists or probes while nothing is done, but a change would not be seen otherwise.
const QUIET: Duration = Duration::from_mins(1);

/// Pause between two samples of the nodes at rest, but for up to a quarter more, so that agents do not ask together: a
/// thousand of them must cost an API server next to nothing.
const REST: Duration = Duration::from_mins(30);

/// Pause between two lists while this node waits for a slot and would see that one becomes free, but for up to a quarter
/// more: lists find the nodes that hold a slot and do not need it any more.
const QUEUED: Duration = Duration::from_mins(7);

/// What the next call has to read.
pub(crate) fn next_query(state: &State) -> Query {
    if state.own.is_none() || !state.nodes_error.refused.is_empty() {
        // It may be another cluster's server that refuses, which only a list shows.
        return Query::All;
    }
    match &state.phase {
        Phase::Idle | Phase::Failed(_) if is_at_rest(state) => Query::Sample,
        // All agents notice an outage at the same time, and its end: a thousand lists of a thousand nodes.
        Phase::Idle if state.api.away_since.is_some() => Query::Own,
        Phase::Idle | Phase::Waiting(_) => Query::All,
        Phase::Complete { outcome: Outcome::NoSchedulablePeer, .. } => Query::All,
        Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => Query::Own,
    }
}

/// True if nothing is to be done, and a change of what a drain depends on is seen without a list: our Node is watched, and
/// the last list of nodes, which may be old, had one that can take pods. A device that is in no cluster is never at rest:
/// it may join one, and would go down without a drain.
fn is_at_rest(state: &State) -> bool {
    state.member_now() == Member::Yes
        && state.is_own_watched()
        && state.has_peer()
        && !state.is_list_outdated
        && state.slots.observed.lost().next().is_none()
        && !state.is_return_due()
}

/// The pause before the next list or probe.
pub(crate) fn pause_before_query(state: &State, now: Moment, policy: &Policy) -> Duration {
    if let Some(since) = state.api.failing_since
        && let Some(pause) = pause_after_failures(state, now.since(since), now, policy)
    {
        return pause;
    }
    let failed = state.api.failing_since.is_some();
    let is_return_unseen = || state.is_return_due() && !state.is_own_watched();
    let is_restless = || failed || state.member_now() == Member::Unknown || is_return_unseen();
    let is_queued = state.is_waiting_for_slot() && state.slots.is_watched() && state.is_own_watched();
    let is_busy = match &state.phase {
        Phase::Waiting(_) if is_queued => is_restless(),
        Phase::Waiting(_) | Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
        // An answer that no operator has ordered may have to be taken back.
        Phase::Complete { outcome, .. } => *outcome != Outcome::Forced || is_restless(),
        Phase::Idle | Phase::Failed(_) => is_restless(),
    };
    match &state.phase {
        _ if is_busy => BUSY,
        Phase::Waiting(_) if state.slots.will_be_seen_free(state.own.as_ref(), policy) => {
            jittered(state, QUEUED)
        }
        Phase::Idle | Phase::Failed(_) if is_at_rest(state) => jittered(state, REST),
        Phase::Idle
        | Phase::Failed(_)
        | Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. } => QUIET,
    }
}

/// The pause while lists and probes have `failed` for so long: as long again, if nothing is done to the node yet.
///
/// A drain that waits fails after some refusals, which are asked for at the usual pace. And it may be decided by an outage:
/// the device then goes down undrained. In the time that the server has to be away for that (`api.unreachable-timeout`) it
/// is asked often, so that a short return is seen.
fn pause_after_failures(state: &State, failed: Duration, now: Moment, policy: &Policy) -> Option<Duration> {
    let decides = match &state.phase {
        Phase::Idle | Phase::Failed(_) => None,
        Phase::Waiting(waiting) if state.api.is_overtaxed => state.unreachable_at(waiting.since, policy),
        Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. } => return None,
    };
    let counts = decides.map(|at| now.until(at.before(policy.unreachable_timeout)));
    Some(jittered(state, failed.min(AWAY)).min(counts.unwrap_or(Duration::MAX)).max(BUSY))
}

/// This pause, and up to a quarter of it more, so that agents do not ask together.
fn jittered(state: &State, pause: Duration) -> Duration {
    let uid = state.own.as_ref().map(|own| own.uid.as_str()).unwrap_or_default();
    pause + drain::retry::within(pause / 4, state.serial, uid)
}

/// The purpose for which the health command has to run now, if it has to run.
pub(crate) fn health(state: &State) -> Option<Purpose> {
    match &state.phase {
        Phase::Waiting(waiting) => match waiting.stage {
            Stage::Health => Some(Purpose::Before),
            Stage::HealthHeld => Some(Purpose::Held),
            Stage::Api | Stage::Slot | Stage::Releasing | Stage::Peers => None,
        },
        // Before the node takes pods again after a boot.
        Phase::Idle | Phase::Failed(_) => {
            let is_back = state.own.as_ref().is_some_and(|node| state.not_back_yet(node).is_none());
            let is_asked = state.is_return_due() && !state.is_cordon_of_this_boot() && is_back;
            is_asked.then_some(Purpose::Return)
        }
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Complete { .. } => {
            None
        }
    }
}

/// True if restoring may write now: the node can take pods, and the health command has passed.
fn may_return(state: &State, policy: &Policy) -> bool {
    let is_asked = state.is_cordon_of_this_boot() || state.health.is_passed(Purpose::Return, policy);
    is_asked && state.return_obstacle().is_none()
}

/// The write to our Node that is due, if one is.
pub(crate) fn node_write(state: &mut State, policy: &Policy) -> Option<Write> {
    let adopts = is_adoption_due(state);
    let uncordons = state.is_mark_stray() || (state.is_cordon_unneeded() && may_return(state, policy));
    state.own.as_ref()?;
    if adopts {
        Some(Write::Adopt(Ownerless::Eves))
    } else if state.is_mark_lost() {
        Some(Write::Adopt(Ownerless::Ours))
    } else if state.is_no_slot_mark_due() {
        Some(Write::MarkWithoutSlot)
    } else {
        uncordons.then_some(Write::Uncordon)
    }
}

/// True if our node's cordon has to be adopted: EVE's zedkube cordoned this node for the very update that brought ours,
/// and writes no owner. If no zedkube of ours ever ran, that cordon becomes ours.
fn is_adoption_due(state: &mut State) -> bool {
    let Some(node) = state.own.as_ref().filter(|_| state.adopts) else { return false };
    state.adopts = is_ownerless(node) && !node.tie_breaker;
    state.adopts
}

/// Remembers the node that carries our cordon or our slot, and forgets it once the node is seen without both.
pub(crate) fn remember(state: &mut State, policy: &Policy) {
    let Some(own) = &state.own else { return };
    state.restoring.is_foreign &= is_ownerless(own);
    let own_is = |remembered: &Remembered| remembered.node_uid == own.uid;
    if state.has_cordon() || state.has_place() {
        // A node that was remembered earlier is not replaced: its cordon and slot are not removed yet.
        if state.remembered.as_ref().is_none_or(own_is) {
            let (node, node_uid) = (own.name.clone(), own.uid.clone());
            state.remembered = Some(Remembered { node, node_uid, cluster: state.cluster.clone() });
        }
    } else if state.remembered.as_ref().is_some_and(own_is)
        && !state.is_mark_lost()
        && (state.slots.table.is_some() || policy.slots_limit == 0)
    {
        state.remembered = None;
    }
}

/// The write or read of the slot table that is due, if one is.
pub(crate) fn slot(state: &State, now: Moment, policy: &Policy) -> Option<Wanted> {
    let held = state.holds_slot();
    let returns = !state.requests.hold_the_node() && state.has_place() && !state.has_cordon();
    // The slot is released after the uncordon.
    if returns && may_return(state, policy) {
        return Some(Wanted::GiveBack);
    }
    if state.is_set_aside {
        // Without the mark the cordon would take a slot after the entry is gone.
        let is_free = state.has_place() && !state.is_no_slot_mark_due();
        return if is_free {
            Some(Wanted::GiveBack)
        } else {
            state.slots.is_unknown().then_some(Wanted::Knowledge)
        };
    }
    if policy.slots_limit == 0 {
        return None;
    }
    let is_held_for_somebody = state.requests.hold_the_node();
    match &state.phase {
        Phase::Waiting(waiting)
            if waiting.stage == Stage::Releasing && (state.has_place() || state.slots.table.is_none()) =>
        {
            Some(Wanted::GiveBack)
        }
        Phase::Waiting(waiting) if waiting.stage == Stage::Slot && !held => Some(Wanted::Take),
        Phase::Cordoning(cordoning) if cordoning.cordoned && !state.slots.confirmed => Some(Wanted::Confirm),
        // The table is read for three reasons: an earlier boot may have left an entry of ours; an operator may release
        // that entry while we wait for the node to be Ready; and we have to know which other nodes have a slot.
        Phase::Idle | Phase::Failed(_) => {
            let is_due = state.slots.is_unknown() || (held && state.slots.is_renewal_due(now));
            (is_due && state.member_now() != Member::No).then_some(Wanted::Knowledge)
        }
        phase if is_held_for_somebody => {
            let is_due = if held { state.slots.is_renewal_due(now) } else { has_slot_by_now(phase) };
            let wants_to_know = !held && matches!(phase, Phase::Waiting(_)) && state.slots.is_unknown();
            is_due.then_some(Wanted::Renew).or_else(|| wants_to_know.then_some(Wanted::Knowledge))
        }
        Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. } => None,
    }
}

/// True in the phases in which this node has a slot, even if the table could not be read lately.
fn has_slot_by_now(phase: &Phase) -> bool {
    match phase {
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
        Phase::Complete { outcome, .. } => *outcome == Outcome::Drained,
        Phase::Waiting(waiting) => matches!(waiting.stage, Stage::HealthHeld | Stage::Peers),
        Phase::Idle | Phase::Failed(_) => false,
    }
}

/// True until this drain has cordoned the node and then confirmed its slot.
pub(crate) fn is_before_the_cordon(phase: &Phase) -> bool {
    match phase {
        Phase::Waiting(_) => true,
        Phase::Cordoning(cordoning) => !cordoning.resumes,
        Phase::Idle
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => false,
    }
}
