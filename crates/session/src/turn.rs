//! What one step has around it: the time, the limits, and what it wants done.

use drain::time::Moment;

use crate::effect::Effect;
use crate::policy::Policy;

/// One step, while it is decided.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) now: Moment,
    pub(crate) policy: &'a Policy,
    /// What is to be done, not yet in its order.
    pub(crate) effects: Vec<Effect>,
    serial: u32,
}

impl<'a> Turn<'a> {
    /// `serial` is that of the last call that was made.
    pub(crate) fn new(now: Moment, policy: &'a Policy, serial: u32) -> Self {
        Self { now, policy, effects: Vec::new(), serial }
    }

    /// The serial of the last call that was made.
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// The serial of the next call. None is used twice in one run.
    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Asks for a call. Gives its serial.
    pub(crate) fn send(&mut self, effect: impl FnOnce(u32) -> Effect) -> u32 {
        let serial = self.next_serial();
        self.effects.push(effect(serial));
        serial
    }
}
