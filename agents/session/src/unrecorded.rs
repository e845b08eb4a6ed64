//! What may go on while the record cannot be written.
//!
//! Record, publish, act: a step begins nothing that is not on record. But a device must never be deaf: who withdraws a
//! request, and what an operator orders, is heard all the same. So events are taken in, what is in memory goes on, and
//! only what a restarted zedkube would have to know of waits.

use crate::effect::Effect;
use crate::leasing;
use crate::state::{Phase, State};

/// The effect has to wait until the record can be written. What only looks, stops, renews, or gives back does not: it is
/// level-triggered, and a zedkube that knows nothing of it does it again. Nor does an operator's order.
pub fn has_to_wait(effect: &Effect, state: &State) -> bool {
    match effect {
        Effect::Cordon { .. } | Effect::Drain(drain::Effect::Evict { .. } | drain::Effect::Delete { .. }) => {
            true
        }
        // Without an entry of ours it takes a slot.
        Effect::WriteSlots { .. } => !leasing::is_held(state),
        Effect::Record
        | Effect::Publish
        | Effect::Look { .. }
        | Effect::Probe { .. }
        | Effect::Uncordon { .. }
        | Effect::Adopt { .. }
        | Effect::ReadSlots { .. }
        | Effect::AskHealth { .. }
        | Effect::TakeOverride
        | Effect::Drain(
            drain::Effect::Prove { .. }
            | drain::Effect::Inquire { .. }
            | drain::Effect::WakeAt(_)
            | drain::Effect::Abort,
        )
        | Effect::WakeAt(_) => false,
    }
}

/// An effect that has waited is still what the state wants: somebody waits for its answer.
pub fn is_wanted(effect: &Effect, state: &State) -> bool {
    match effect {
        Effect::Cordon { serial } => {
            matches!(&state.phase, Phase::Cordoning(cordoning) if cordoning.in_flight == Some(*serial))
        }
        Effect::Drain(drain::Effect::Evict { attempt, .. } | drain::Effect::Delete { attempt, .. }) => {
            let running = drain::progress::attempt(&state.drain).map(|running| running.number);
            matches!(state.phase, Phase::Attempting { .. }) && running == Some(*attempt)
        }
        Effect::WriteSlots { serial, .. } => {
            state.slots.in_flight.is_some_and(|in_flight| in_flight.serial == *serial)
        }
        Effect::Record
        | Effect::Publish
        | Effect::Look { .. }
        | Effect::Probe { .. }
        | Effect::Uncordon { .. }
        | Effect::Adopt { .. }
        | Effect::ReadSlots { .. }
        | Effect::AskHealth { .. }
        | Effect::TakeOverride
        | Effect::Drain(
            drain::Effect::Prove { .. }
            | drain::Effect::Inquire { .. }
            | drain::Effect::WakeAt(_)
            | drain::Effect::Abort,
        )
        | Effect::WakeAt(_) => true,
    }
}
