//! The context of one step: the time, the limits, and the effects that it asks for.

use drain::time::Moment;

use crate::effect::Effect;
use crate::policy::Policy;

/// The context of one step, while it is decided.
#[derive(Debug)]
pub(crate) struct StepContext<'a> {
    pub(crate) now: Moment,
    pub(crate) policy: &'a Policy,
    /// The effects so far, not yet in their order.
    pub(crate) effects: Vec<Effect>,
    serial: u32,
}

impl<'a> StepContext<'a> {
    /// `serial` is the serial of the last call that was sent.
    pub(crate) fn new(now: Moment, policy: &'a Policy, serial: u32) -> Self {
        Self { now, policy, effects: Vec::new(), serial }
    }

    /// The serial of the last call that was sent.
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// The serial of the next call. No serial is used twice in one process.
    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Adds a call to the effects. Gives its serial.
    pub(crate) fn send(&mut self, effect: impl FnOnce(u32) -> Effect) -> u32 {
        let serial = self.next_serial();
        self.effects.push(effect(serial));
        serial
    }
}
