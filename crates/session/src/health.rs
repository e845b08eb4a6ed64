//! The site's own word on whether the node may leave, or come back: setting `health.command`.
//!
//! Asked before a slot is taken, again once it is held, and after a boot before the node takes pods again: storage
//! may still be rebuilding what it lost when this node was down last.

use drain::time::Moment;

use crate::effect::Effect;
use crate::policy::Policy;
use crate::turn::Turn;

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
    in_flight: Option<(u32, Purpose)>,
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

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> Option<u32> {
        self.in_flight.map(|(serial, _)| serial)
    }

    /// Takes an answer in.
    pub(crate) fn answered(&mut self, serial: u32, result: &Result<(), String>, turn: &Turn<'_>) {
        let Some((_, purpose)) = self.in_flight.filter(|(in_flight, _)| *in_flight == serial) else { return };
        self.in_flight = None;
        match result {
            Ok(()) => (self.passed, self.failed) = (Some(purpose), None),
            Err(error) => {
                (self.passed, self.failed) = (None, Some((purpose, error.clone())));
                self.next = turn.now + turn.policy.health_interval;
            }
        }
    }

    /// Asks if an answer is wanted; says when to come again.
    pub(crate) fn pursue(&mut self, wanted: Option<Purpose>, turn: &mut Turn<'_>) -> Option<Moment> {
        if !turn.policy.has_health_command {
            // Nobody is asked any more: what was answered before holds nothing back.
            self.failed = None;
        }
        let Some(purpose) = wanted.filter(|_| turn.policy.has_health_command) else {
            self.passed = None;
            return None;
        };
        if self.is_passed(purpose, turn.policy) || self.in_flight.is_some() {
            return None;
        }
        if turn.now < self.next {
            return Some(self.next);
        }
        self.in_flight = Some((turn.send(|serial| Effect::AskHealth { serial }), purpose));
        None
    }
}
