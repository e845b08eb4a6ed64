//! What follows from the state as a whole, looked at after every event: which call for the slots is wanted, what the site is
//! asked, whether the cordon goes back, how often the API server is looked at.

use std::time::Duration;

use drain::time::Moment;
use schemas::{Member, Outcome};

use crate::health::Purpose;
use crate::phase::{Phase, Stage};
use crate::policy::Policy;
use crate::restoring::Write;
use crate::slot_lease::Wanted;
use crate::state::{Remembered, State};

/// Between two looks while a drain is under way or the API server is away (EVE polls as often).
const BUSY: Duration = Duration::from_secs(5);

/// Between two looks when nothing is going on.
const QUIET: Duration = Duration::from_mins(1);

/// The next look is for all nodes, not for ours alone.
pub(crate) fn wants_all_nodes(state: &State) -> bool {
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

/// How long until the next look. `failed`: the last one brought nothing.
pub(crate) fn pause_between_looks(state: &State, failed: bool) -> Duration {
    let is_restless = || failed || state.member_now() == Member::Unknown || state.is_return_due();
    let is_busy = match &state.phase {
        Phase::Waiting(_) | Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
        // An answer without an operator's word may be taken back.
        Phase::Complete { outcome, .. } => *outcome != Outcome::Forced || is_restless(),
        Phase::Idle | Phase::Failed(_) => is_restless(),
    };
    if is_busy { BUSY } else { QUIET }
}

/// What the site has to be asked now.
pub(crate) fn health(state: &State) -> Option<Purpose> {
    match &state.phase {
        Phase::Waiting(waiting) => match waiting.stage {
            Stage::Health => Some(Purpose::Before),
            Stage::HealthHeld => Some(Purpose::Held),
            Stage::Api | Stage::Slot | Stage::GivingBack | Stage::Peers => None,
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

/// Nothing stands between a return and its writes.
fn may_return(state: &State, policy: &Policy) -> bool {
    let is_asked = state.is_cordon_of_this_boot() || state.health.is_passed(Purpose::Return, policy);
    is_asked && state.return_obstacle().is_none()
}

/// The write to our Node that is due.
pub(crate) fn node_write(state: &mut State, policy: &Policy) -> Option<Write> {
    let adopts = is_adoption_due(state);
    let uncordons = state.is_mark_stray() || (state.is_cordon_unneeded() && may_return(state, policy));
    state.own.as_ref()?;
    if adopts { Some(Write::Adopt) } else { uncordons.then_some(Write::Uncordon) }
}

/// EVE's zedkube has cordoned this node for the very update that brought ours, and marks nothing: where no zedkube of
/// ours ever ran, that cordon becomes ours.
fn is_adoption_due(state: &mut State) -> bool {
    let Some(node) = state.own.as_ref().filter(|_| state.adopts) else { return false };
    state.adopts = node.cordoned && node.cordoned_by.is_none() && !node.tie_breaker;
    state.adopts
}

/// Remembers the node that carries something of ours, and forgets it once it is seen to carry nothing any more.
pub(crate) fn remember(state: &mut State, policy: &Policy) {
    let Some(own) = &state.own else { return };
    let own_is = |remembered: &Remembered| remembered.node_uid == own.uid;
    if state.has_cordon() || state.has_place() {
        // What was left on another node is not forgotten for that.
        if state.remembered.is_none() {
            state.remembered = Some(Remembered { node: own.name.clone(), node_uid: own.uid.clone() });
        }
    } else if state.remembered.as_ref().is_some_and(own_is)
        && (state.slots.table.is_some() || policy.slots_limit == 0)
    {
        state.remembered = None;
    }
}

/// What is wanted of the table of the slots.
pub(crate) fn slot(state: &State, now: Moment, policy: &Policy) -> Option<Wanted> {
    let held = state.holds_slot();
    let returns = !state.requests.hold_the_node() && state.has_place() && !state.has_cordon();
    // The slot goes back after the cordon.
    if returns && may_return(state, policy) {
        return Some(Wanted::GiveBack);
    }
    if policy.slots_limit == 0 {
        return None;
    }
    let is_held_for_somebody = state.requests.hold_the_node();
    match &state.phase {
        Phase::Waiting(waiting)
            if waiting.stage == Stage::GivingBack && (state.has_place() || state.slots.table.is_none()) =>
        {
            Some(Wanted::GiveBack)
        }
        Phase::Waiting(waiting) if waiting.stage == Stage::Slot && !held => Some(Wanted::Take),
        Phase::Cordoning(cordoning) if cordoning.cordoned && !state.slots.confirmed => Some(Wanted::Confirm),
        // Whether a boot before this one has left an entry; while that waits for the node to be well, whether somebody
        // else has released it; and who else has one.
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

/// In these phases we have a slot, whether or not the table could be read lately.
fn has_slot_by_now(phase: &Phase) -> bool {
    match phase {
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
        Phase::Complete { outcome, .. } => *outcome == Outcome::Drained,
        Phase::Waiting(waiting) => matches!(waiting.stage, Stage::HealthHeld | Stage::Peers),
        Phase::Idle | Phase::Failed(_) => false,
    }
}

/// Nothing of this drain has cordoned the node yet, or nobody has confirmed the slot since.
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
