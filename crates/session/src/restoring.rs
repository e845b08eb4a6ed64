//! Taking our cordon back: one write at a time, retried for ever.

use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;

use crate::OWNER;
use crate::effect::Effect;
use crate::turn::Turn;

/// First pause after a write that failed; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// A node that cannot be uncordoned is tried this often.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// How far the way back is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restoring {
    /// A cordon of ours was sent in this boot and its removal has not been confirmed: the node may carry it,
    /// whatever was last seen.
    pub may_be_cordoned: bool,
    in_flight: Option<u32>,
    /// How often the last write has failed on end.
    failures: u32,
    next: Moment,
    /// Why the last one failed; empty when it did not.
    pub error: String,
}

/// A write to our Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Takes our cordon, or a stray mark of ours, back.
    Uncordon,
    /// Marks the cordon that EVE's zedkube has left as ours.
    Adopt,
}

impl Restoring {
    /// As the process before this one has left it.
    pub(crate) fn resumed(may_be_cordoned: bool) -> Self {
        Self { may_be_cordoned, ..Self::default() }
    }

    /// The node carries our cordon, or may.
    pub(crate) fn has_cordon(&self, own: Option<&NodeView>) -> bool {
        self.may_be_cordoned || own.is_some_and(is_marked)
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> Option<u32> {
        self.in_flight
    }

    /// Starts the write, if none is in flight; says when to come again.
    pub(crate) fn pursue(&mut self, write: Write, turn: &mut Turn<'_>) -> Option<Moment> {
        if self.in_flight.is_some() {
            return None;
        }
        if turn.now < self.next {
            return Some(self.next);
        }
        self.in_flight = Some(turn.send(|serial| match write {
            Write::Uncordon => Effect::Uncordon { serial },
            Write::Adopt => Effect::Adopt { serial },
        }));
        None
    }

    /// Takes the answer to an uncordon in. True if our cordon is gone now.
    pub(crate) fn uncordoned(&mut self, serial: u32, result: &Result<(), String>, now: Moment) -> bool {
        let is_done = self.answered(serial, result.as_ref().err(), now);
        if is_done {
            *self = Self::default();
        }
        is_done
    }

    /// Takes the answer to a write in. True if it was the one in flight, and went well.
    pub(crate) fn answered(&mut self, serial: u32, error: Option<&String>, now: Moment) -> bool {
        if self.in_flight != Some(serial) {
            return false;
        }
        self.in_flight = None;
        if let Some(error) = error {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(6)).min(LONGEST_PAUSE);
            self.failures = self.failures.saturating_add(1);
            self.next = now + pause;
            self.error.clone_from(error);
            return false;
        }
        self.failures = 0;
        self.error.clear();
        true
    }
}

/// The node carries our mark.
pub(crate) fn is_marked(node: &NodeView) -> bool {
    node.cordoned_by.as_deref() == Some(OWNER)
}
