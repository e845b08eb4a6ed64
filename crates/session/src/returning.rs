//! Taking our cordon and our slot back.
//!
//! Level-triggered: whenever no request holds the node and the node carries our cordon or the table our entry, the node
//! is uncordoned and then the slot is given back, and retried for ever. So it covers cancel, failure and the next boot
//! alike.

use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;

use crate::effect::Effect;
use crate::event::Look;
use crate::health::Purpose;
use crate::leasing;
use crate::policy::Policy;
use crate::state::{OWNER, Phase, Remembered, State};

/// First pause after a write that failed; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// A node that cannot be uncordoned is tried this often.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// How far the return is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returning {
    /// A cordon of ours was sent in this boot and its removal has not been confirmed: the node may carry it,
    /// whatever was last seen.
    pub may_be_cordoned: bool,
    /// The serial of the write in flight: an uncordon, or an adoption.
    pub in_flight: Option<u32>,
    /// How often it failed.
    pub failures: u32,
    /// The next try may come then.
    pub next: Moment,
    /// Why the last one failed.
    pub error: String,
}

/// Our cordon or our slot is, or may be, there, and nobody needs it.
pub fn is_due(state: &State) -> bool {
    is_cordon_due(state) || (!state.requests.hold_the_node() && leasing::has_place(state))
}

/// A cordon nobody needs: no request holds the node, or others have all the slots, and a cordoned node that waits
/// for them is missing as a peer.
fn is_cordon_due(state: &State) -> bool {
    let needed = state.requests.hold_the_node() && !leasing::is_waiting(state);
    !needed && has_cordon(state)
}

fn has_cordon(state: &State) -> bool {
    state.returning.may_be_cordoned || state.own.as_ref().is_some_and(is_marked)
}

fn is_marked(node: &NodeView) -> bool {
    node.cordoned_by.as_deref() == Some(OWNER)
}

/// Somebody has lifted our cordon, and our mark is left: it says nothing any more and goes at once. While we cordon or
/// evict, what was last seen may be older than our cordon.
fn is_stray(state: &State) -> bool {
    let quiet = match &state.phase {
        Phase::Idle
        | Phase::Waiting(_)
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => true,
        Phase::Cordoning(_) | Phase::Attempting { .. } => false,
    };
    quiet && state.own.as_ref().is_some_and(|node| is_marked(node) && !node.cordoned)
}

/// Remembers the node that carries something of ours, and forgets it once it is seen to carry nothing any more.
pub(crate) fn remember(state: &mut State, policy: &Policy) {
    let Some(own) = &state.own else { return };
    let own_is = |remembered: &Remembered| remembered.node_uid == own.uid;
    if has_cordon(state) || leasing::has_place(state) {
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

/// A Node that exists no more carries nothing. Believed only of a cluster that knows this machine: another kubeconfig may
/// lead to another cluster.
pub(crate) fn forget_what_is_gone(state: &mut State, look: &Look) {
    let is_there = |remembered: &Remembered| look.nodes.iter().any(|node| node.uid == remembered.node_uid);
    if look.own.is_ok() && state.remembered.as_ref().is_some_and(|remembered| !is_there(remembered)) {
        state.remembered = None;
    }
}

/// The node that we left something on, as long as it is not known to be this machine: nobody takes it back.
pub fn left_behind(state: &State) -> Option<&Remembered> {
    let is_own =
        |remembered: &&Remembered| state.own.as_ref().is_some_and(|own| own.uid == remembered.node_uid);
    state.remembered.as_ref().filter(|remembered| !is_own(remembered))
}

/// Why a return that is due has to wait; `None` when nothing is in its way.
pub fn obstacle(state: &State) -> Option<String> {
    if is_of_this_boot(state) {
        return None;
    }
    // A cordon from before this boot: the node must be able to take pods again.
    let node = state.own.as_ref()?;
    let failure = || state.health.failure(Purpose::Return);
    not_back_yet(node, &state.boot_id)
        .map(str::to_owned)
        .or_else(|| failure().map(|error| format!("the site's health command does not pass: {error}")))
}

/// Why the node itself cannot take pods yet after a boot.
fn not_back_yet(node: &NodeView, boot_id: &str) -> Option<&'static str> {
    if !node.ready {
        Some("the node is not Ready yet")
    } else if !node.boot_id.is_empty() && node.boot_id != boot_id {
        Some("the kubelet has not reported this boot yet")
    } else {
        None
    }
}

fn is_of_this_boot(state: &State) -> bool {
    let entry = leasing::entry(state);
    state.returning.may_be_cordoned || entry.is_some_and(|entry| entry.boot_id == state.boot_id)
}

/// The site has to be asked before the node takes pods again.
pub(crate) fn wants_health(state: &State) -> bool {
    let is_back = |node: &NodeView| not_back_yet(node, &state.boot_id).is_none();
    is_due(state) && !is_of_this_boot(state) && state.own.as_ref().is_some_and(is_back)
}

/// Nothing stands between a return and its writes.
fn is_free(state: &State, policy: &Policy) -> bool {
    obstacle(state).is_none() && (is_of_this_boot(state) || state.health.is_passed(Purpose::Return, policy))
}

/// The slot goes back after the cordon.
pub(crate) fn wants_slot_back(state: &State, policy: &Policy) -> bool {
    !state.requests.hold_the_node()
        && leasing::has_place(state)
        && !has_cordon(state)
        && is_free(state, policy)
}

/// Starts the write that is due, if none is in flight; says when to come again.
pub(crate) fn pursue(
    state: &mut State,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) -> Option<Moment> {
    let adopts = is_adoption_due(state);
    let uncordons = is_stray(state) || (is_cordon_due(state) && is_free(state, policy));
    if (!adopts && !uncordons) || state.returning.in_flight.is_some() || state.own.is_none() {
        return None;
    }
    if now < state.returning.next {
        return Some(state.returning.next);
    }
    let serial = state.next_serial();
    state.returning.in_flight = Some(serial);
    effects.push(if adopts { Effect::Adopt { serial } } else { Effect::Uncordon { serial } });
    None
}

/// EVE's zedkube has cordoned this node for the very update that brought ours, and marks nothing: where no zedkube of
/// ours ever ran, that cordon becomes ours.
fn is_adoption_due(state: &mut State) -> bool {
    let Some(node) = state.own.as_ref().filter(|_| state.adopts) else { return false };
    state.adopts = node.cordoned && node.cordoned_by.is_none() && !node.tie_breaker;
    state.adopts
}

/// Takes the answer to an uncordon in.
pub(crate) fn uncordoned(state: &mut State, serial: u32, result: &Result<(), String>, now: Moment) {
    if answered(state, serial, result.as_ref().err(), now) {
        state.returning = Returning::default();
        if let Some(node) = &mut state.own {
            node.cordoned &= !is_marked(node);
            node.cordoned_by = None;
        }
    }
}

/// Takes the answer to an adoption in: whether there was a cordon to adopt.
pub(crate) fn adopted(state: &mut State, serial: u32, result: &Result<bool, String>, now: Moment) {
    if answered(state, serial, result.as_ref().err(), now) {
        state.adopts = false;
        if *result == Ok(true)
            && let Some(node) = &mut state.own
        {
            node.cordoned_by = Some(OWNER.to_owned());
        }
    }
}

/// Whether the write in flight was this one, and went well.
fn answered(state: &mut State, serial: u32, error: Option<&String>, now: Moment) -> bool {
    let returning = &mut state.returning;
    if returning.in_flight != Some(serial) {
        return false;
    }
    returning.in_flight = None;
    if let Some(error) = error {
        let pause = FIRST_PAUSE.saturating_mul(1 << returning.failures.min(6)).min(LONGEST_PAUSE);
        returning.failures = returning.failures.saturating_add(1);
        returning.next = now + pause;
        returning.error.clone_from(error);
        return false;
    }
    returning.failures = 0;
    returning.error.clear();
    true
}
