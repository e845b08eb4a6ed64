//! The site's own word on whether the node may leave, or come back: setting `health.command`.
//!
//! Asked before a slot is taken, again once it is held, and after a boot before the node takes pods again: storage
//! may still be rebuilding what it lost when this node was down last.

use drain::time::Moment;

use crate::effect::Effect;
use crate::policy::Policy;
use crate::returning;
use crate::state::{Phase, State};
use crate::waiting::Stage;

/// What the answer is for. An answer for one thing is none for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A slot may be taken.
    Before,
    /// Still so, with the slot.
    Held,
    /// The node may take pods again after a boot.
    Return,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Passed for this.
    passed: Option<Purpose>,
    /// Not passed for this, and why.
    failed: Option<(Purpose, String)>,
    pub(crate) in_flight: Option<(u32, Purpose)>,
    next: Moment,
}

impl Health {
    /// It passed, or nobody has to be asked.
    pub(crate) fn is_passed(&self, purpose: Purpose, policy: &Policy) -> bool {
        !policy.has_health_command || self.passed == Some(purpose)
    }

    /// Why it did not pass, if it was asked for this and did not.
    pub fn failure(&self, purpose: Purpose) -> Option<&str> {
        self.failed.as_ref().filter(|(of, _)| *of == purpose).map(|(_, error)| error.as_str())
    }
}

/// Takes an answer in.
pub(crate) fn answered(
    state: &mut State,
    serial: u32,
    result: &Result<(), String>,
    now: Moment,
    policy: &Policy,
) {
    let health = &mut state.health;
    let Some((_, purpose)) = health.in_flight.filter(|(in_flight, _)| *in_flight == serial) else { return };
    health.in_flight = None;
    match result {
        Ok(()) => (health.passed, health.failed) = (Some(purpose), None),
        Err(error) => {
            (health.passed, health.failed) = (None, Some((purpose, error.clone())));
            health.next = now + policy.health_interval;
        }
    }
}

/// Asks if an answer is wanted; says when to come again.
pub(crate) fn pursue(
    state: &mut State,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) -> Option<Moment> {
    if !policy.has_health_command {
        // Nobody is asked any more: what was answered before holds nothing back.
        state.health.failed = None;
    }
    let wanted = wanted(state).filter(|_| policy.has_health_command);
    let Some(purpose) = wanted else {
        state.health.passed = None;
        return None;
    };
    if state.health.is_passed(purpose, policy) || state.health.in_flight.is_some() {
        return None;
    }
    if now < state.health.next {
        return Some(state.health.next);
    }
    let serial = state.next_serial();
    state.health.in_flight = Some((serial, purpose));
    effects.push(Effect::AskHealth { serial });
    None
}

fn wanted(state: &State) -> Option<Purpose> {
    match &state.phase {
        Phase::Waiting(waiting) => match waiting.stage {
            Stage::Health => Some(Purpose::Before),
            Stage::HealthHeld => Some(Purpose::Held),
            Stage::Api | Stage::Slot | Stage::GivingBack | Stage::Peers => None,
        },
        Phase::Idle | Phase::Failed(_) => returning::wants_health(state).then_some(Purpose::Return),
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Complete { .. } => {
            None
        }
    }
}
