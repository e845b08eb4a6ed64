//! What may go on while the record cannot be written.
//!
//! Record, publish, act: a step begins nothing that is not on record. But a device must never be deaf: who withdraws a
//! request, and what an operator orders, is heard all the same. So events are taken in, what is in memory goes on, and
//! only what a restarted zedkube would have to know of waits.

use crate::effect::Effect;
use crate::phase::Phase;
use crate::state::State;

/// An effect that a restarted zedkube would have to know of.
enum Begins {
    /// A cordon, by its serial.
    Cordon(u32),
    /// The end of a pod, by its attempt.
    PodsEnd(u32),
    /// A write of the slots, by its serial.
    Slots(u32),
}

/// What only looks, stops or gives back begins nothing: it is level-triggered, and a zedkube that knows nothing of it does
/// it again. Nor does an operator's order.
fn begins(effect: &Effect) -> Option<Begins> {
    match effect {
        Effect::Cordon { serial } => Some(Begins::Cordon(*serial)),
        Effect::Drain(drain::Effect::Evict { attempt, .. } | drain::Effect::Delete { attempt, .. }) => {
            Some(Begins::PodsEnd(*attempt))
        }
        Effect::WriteSlots { serial, entry: Some(_), .. } => Some(Begins::Slots(*serial)),
        Effect::Record
        | Effect::Publish
        | Effect::Look { .. }
        | Effect::Probe { .. }
        | Effect::Uncordon { .. }
        | Effect::Adopt { .. }
        | Effect::ReadSlots { .. }
        | Effect::WriteSlots { entry: None, .. }
        | Effect::AskHealth { .. }
        | Effect::TakeOverride
        | Effect::Drain(
            drain::Effect::Prove { .. }
            | drain::Effect::Inquire { .. }
            | drain::Effect::WakeAt(_)
            | drain::Effect::Abort,
        )
        | Effect::WakeAt(_) => None,
    }
}

/// The effect has to wait until the record can be written.
pub fn has_to_wait(effect: &Effect, state: &State) -> bool {
    begins(effect).is_some_and(|begins| match begins {
        Begins::Cordon(_) | Begins::PodsEnd(_) => true,
        // With a slot it renews; without one it takes one.
        Begins::Slots(_) => !state.holds_slot(),
    })
}

/// An effect that has waited is still what the state wants: somebody waits for its answer.
pub fn is_wanted(effect: &Effect, state: &State) -> bool {
    begins(effect).is_none_or(|begins| match begins {
        Begins::Cordon(serial) => {
            matches!(&state.phase, Phase::Cordoning(cordoning) if cordoning.in_flight == Some(serial))
        }
        Begins::PodsEnd(attempt) => {
            let running = drain::progress::attempt(&state.drain).map(drain::state::Attempt::number);
            matches!(state.phase, Phase::Attempting { .. }) && running == Some(attempt)
        }
        Begins::Slots(serial) => state.slots.awaits(serial),
    })
}
