//! Another cluster: a kubeconfig that is replaced may lead to one that has a Node of the same name.
//!
//! A cluster is known by the UID of its namespace `kube-system`, which is in the record. A drain is finished in the
//! cluster in which it began: another one cannot say that the pods have left (a new kubeconfig once led to a cluster
//! that had an empty Node of the same name). Without a drain zedkube moves on to the new cluster, and remembers the
//! node of the old one that may still carry its cordon or slot.

use crate::event::{CallError, Event, NodeList};
use crate::phase::{Phase, Stage};
use crate::restoring::Restoring;
use crate::slot_lease::SlotLease;
use crate::state::State;

/// Why a call is not sent to the cluster `now`, or its answer does not count, while zedkube is in the cluster `begun`.
pub fn refusal(begun: &str, now: Option<&str>) -> String {
    match now {
        Some(now) => format!(
            "the kubeconfig leads to another cluster ({now}) than the one in which zedkube drains ({begun}; both are the UID \
             of namespace kube-system)"
        ),
        None => format!(
            "it cannot be seen whether this is still the cluster in which zedkube drains ({begun}, the UID of namespace \
             kube-system): zedkube's user may not get namespaces kube-system"
        ),
    }
}

/// Gives the event with what it means here: a list of another cluster's nodes is a refusal while a drain is open, and
/// otherwise zedkube moves on to that cluster.
pub(crate) fn judged(state: &mut State, event: Event) -> Event {
    let Event::NodesListed { serial, result: Ok(look) } = event else { return event };
    match &state.cluster {
        Some(begun) if look.cluster.as_ref() != Some(begun) => {
            if !may_move(state) {
                let text = refusal(begun, look.cluster.as_deref());
                let is_known = look.cluster.is_some();
                let why = if is_known { CallError::Elsewhere(text) } else { CallError::Denied(text) };
                return Event::NodesListed { serial, result: Err(why) };
            }
            if look.cluster.is_some() {
                leave(state);
            }
        }
        Some(_) | None => {}
    }
    state.cluster.clone_from(&look.cluster);
    Event::NodesListed { serial, result: Ok(look) }
}

/// True if no drain has done or seen anything in the present cluster: none is open, or it waits for its first list of nodes.
fn may_move(state: &State) -> bool {
    match &state.phase {
        Phase::Idle | Phase::Failed(_) => true,
        Phase::Waiting(waiting) => waiting.stage == Stage::Api && !state.has_cordon() && !state.has_place(),
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Complete { .. } => {
            false
        }
    }
}

/// Forgets what was seen of the old cluster. What zedkube may have left on a node there stays in [`State::remembered`].
fn leave(state: &mut State) {
    state.own = None;
    state.nodes.clear();
    state.watched_uid = None;
    state.slots = SlotLease::default();
    state.restoring = Restoring::default();
    state.snapshot = None;
    state.adopts = false;
}

/// Forgets a Node that does not exist any more: it carries no cordon and no slot. Only its own cluster can say that; one
/// that is not known counts if it knows this machine.
pub(crate) fn forget_what_is_gone(state: &mut State, look: &NodeList) {
    let is_gone = state.remembered.as_ref().is_some_and(|left| {
        let is_its_own = match &left.cluster {
            Some(_) => left.cluster == look.cluster,
            None => look.own.is_ok(),
        };
        is_its_own && look.nodes.iter().all(|node| node.uid != left.node_uid)
    });
    if is_gone {
        state.remembered = None;
    }
}
