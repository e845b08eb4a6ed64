//! The site's health check, setting `health.command`: may this node leave, or come back?
//!
//! The command is run before a slot is taken, again once the slot is held, and after a boot before the node takes pods
//! again: storage may still be rebuilding what it lost when this node was down last.

use drain::time::Moment;

use crate::context::StepContext;
use crate::effect::Effect;
use crate::policy::Policy;

/// The purpose of a run of the command. A result for one purpose does not count for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To take a slot.
    Before,
    /// To cordon, with the slot held: other nodes may have changed since.
    Held,
    /// To let the node take pods again after a boot.
    Return,
}

/// The last result of the health command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The purpose for which the command has passed.
    passed: Option<Purpose>,
    /// The purpose for which the command has not passed, and why.
    failed: Option<(Purpose, String)>,
    in_flight: Option<(u32, Purpose)>,
    next: Moment,
}

impl Health {
    /// The command has passed for this purpose, or the site has no command.
    pub(crate) fn is_passed(&self, purpose: Purpose, policy: &Policy) -> bool {
        !policy.has_health_command || self.passed == Some(purpose)
    }

    /// Why the command did not pass for this purpose; `None` if it was not run or has passed.
    pub fn failure(&self, purpose: Purpose) -> Option<&str> {
        self.failed.as_ref().filter(|(of, _)| *of == purpose).map(|(_, error)| error.as_str())
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> Option<u32> {
        self.in_flight.map(|(serial, _)| serial)
    }

    /// Notes the result of the command.
    pub(crate) fn answered(&mut self, serial: u32, result: &Result<(), String>, context: &StepContext<'_>) {
        let Some((_, purpose)) = self.in_flight.filter(|(in_flight, _)| *in_flight == serial) else { return };
        self.in_flight = None;
        match result {
            Ok(()) => (self.passed, self.failed) = (Some(purpose), None),
            Err(error) => {
                (self.passed, self.failed) = (None, Some((purpose, error.clone())));
                self.next = context.now + context.policy.health_interval;
            }
        }
    }

    /// Runs the command if a result is wanted. Gives the time of the next run.
    pub(crate) fn pursue(
        &mut self,
        wanted: Option<Purpose>,
        context: &mut StepContext<'_>,
    ) -> Option<Moment> {
        if !context.policy.has_health_command {
            // Without a command an old failure must not hold anything back.
            self.failed = None;
        }
        let Some(purpose) = wanted.filter(|_| context.policy.has_health_command) else {
            self.passed = None;
            return None;
        };
        if self.is_passed(purpose, context.policy) || self.in_flight.is_some() {
            return None;
        }
        if context.now < self.next {
            return Some(self.next);
        }
        self.in_flight = Some((context.send(|serial| Effect::AskHealth { serial }), purpose));
        None
    }
}
