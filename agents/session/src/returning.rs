//! Taking our cordon back.
//!
//! Level-triggered: whenever no request holds the node and the node carries our cordon, it is uncordoned, and
//! retried for ever. So it covers cancel, failure and the next boot alike.

use std::time::Duration;

use drain::time::Moment;

use crate::state::{OWNER, State};
use crate::step::Effect;

/// First pause after an uncordon that failed; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// A node that cannot be uncordoned is tried this often.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// How far the return is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returning {
    /// A cordon of ours was sent in this run and its removal has not been confirmed: the node may carry it,
    /// whatever was last seen.
    pub may_be_cordoned: bool,
    /// The serial of the uncordon in flight.
    pub in_flight: Option<u32>,
    /// How often it failed.
    pub failures: u32,
    /// The next try may come then.
    pub next: Moment,
    /// Why the last one failed.
    pub error: String,
}

/// Our cordon is, or may be, on the node, and nobody needs it.
pub fn is_due(state: &State) -> bool {
    let seen = state.own.as_ref().is_some_and(|node| node.cordoned_by.as_deref() == Some(OWNER));
    !state.requests.hold_the_node() && (seen || state.returning.may_be_cordoned)
}

/// Why a return that is due has to wait; `None` when nothing is in its way.
pub fn obstacle(state: &State) -> Option<&'static str> {
    if state.returning.may_be_cordoned {
        return None;
    }
    // A cordon from before this run: the node may just have booted, and must be able to take pods again.
    let node = state.own.as_ref()?;
    if !node.ready {
        Some("the node is not Ready yet")
    } else if !node.boot_id.is_empty() && node.boot_id != state.boot_id {
        Some("the kubelet has not reported this boot yet")
    } else {
        None
    }
}

/// Starts an uncordon if one is due and none is in flight; says when to come again.
pub(crate) fn pursue(state: &mut State, now: Moment, effects: &mut Vec<Effect>) -> Option<Moment> {
    if !is_due(state) || state.returning.in_flight.is_some() || obstacle(state).is_some() {
        return None;
    }
    if now < state.returning.next {
        return Some(state.returning.next);
    }
    let serial = state.next_serial();
    state.returning.in_flight = Some(serial);
    effects.push(Effect::Uncordon { serial });
    None
}

/// Takes the answer to an uncordon in.
pub(crate) fn answered(state: &mut State, serial: u32, result: Result<(), String>, now: Moment) {
    let returning = &mut state.returning;
    if returning.in_flight != Some(serial) {
        return;
    }
    returning.in_flight = None;
    match result {
        Ok(()) => {
            *returning = Returning::default();
            if let Some(node) = &mut state.own {
                node.cordoned &= node.cordoned_by.as_deref() != Some(OWNER);
                node.cordoned_by = None;
            }
        }
        Err(error) => {
            let pause = FIRST_PAUSE.saturating_mul(1 << returning.failures.min(6)).min(LONGEST_PAUSE);
            returning.failures = returning.failures.saturating_add(1);
            returning.next = now + pause;
            returning.error = error;
        }
    }
}
