//! The effects that may be carried out while the record cannot be written.
//!
//! Normally zedkube records, publishes, then acts, so it begins nothing that is not in the record. While the record
//! cannot be written, it still has to hear a withdrawn request and an operator's order. So it takes events in and goes
//! on with what is in memory; only effects that a restarted zedkube would have to know about wait.
//!
//! Cordons, evictions and new slots wait, and are dropped as soon as the state does not want them any more, so no queue
//! grows. Meanwhile no request is answered COMPLETE because of a drain; an operator's order still answers it. The
//! price: an order that was carried out without a record is lost, not repeated, if zedkube dies before it can write. A
//! device that drains once more is better than one that goes down twice undrained.

use crate::effect::Effect;
use crate::phase::Phase;
use crate::state::State;

/// An effect that a restarted zedkube would have to know about.
enum Begins {
    /// A cordon; its serial.
    Cordon(u32),
    /// The eviction or deletion of a pod; the number of its attempt.
    PodsEnd(u32),
    /// A write of the slot table; its serial.
    Slots(u32),
}

/// The kind of effect; `None` for effects that only read, stop or give something back. Those are level-triggered: a
/// restarted zedkube that does not know about them does them again. An operator's order does not wait either.
fn begins(effect: &Effect) -> Option<Begins> {
    match effect {
        Effect::Cordon { serial } => Some(Begins::Cordon(*serial)),
        Effect::Drain(drain::Effect::Evict { attempt, .. } | drain::Effect::Delete { attempt, .. }) => {
            Some(Begins::PodsEnd(*attempt))
        }
        Effect::WriteSlots { serial, entry: Some(_), .. } => Some(Begins::Slots(*serial)),
        Effect::Record
        | Effect::Publish
        | Effect::ListNodes { .. }
        | Effect::SampleNodes { .. }
        | Effect::Probe { .. }
        | Effect::Uncordon { .. }
        | Effect::Adopt { .. }
        | Effect::MarkWithoutSlot { .. }
        | Effect::ReadSlots { .. }
        | Effect::WriteSlots { entry: None, .. }
        | Effect::AskHealth { .. }
        | Effect::TakeOverride
        | Effect::Drain(
            drain::Effect::Relist { .. }
            | drain::Effect::Inquire { .. }
            | drain::Effect::WakeAt(_)
            | drain::Effect::Abort,
        )
        | Effect::WakeAt(_) => None,
    }
}

/// True if the effect has to wait until the record can be written.
pub fn has_to_wait(effect: &Effect, state: &State) -> bool {
    begins(effect).is_some_and(|begins| match begins {
        Begins::Cordon(_) | Begins::PodsEnd(_) => true,
        // With a slot the write renews it; without one it takes one.
        Begins::Slots(_) => !state.holds_slot(),
    })
}

/// True if the state still wants this effect, after the effect has waited.
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
