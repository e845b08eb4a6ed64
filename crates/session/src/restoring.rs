//! Uncordoning this node: one write at a time, retried for ever.
//!
//! Level-triggered, because a cordon of ours that is forgotten takes the node out of service for good.

use std::time::Duration;

use drain::cordon::{NO_SLOT, Ownerless};
use drain::time::Moment;
use drain::view::NodeView;

use crate::OWNER;
use crate::context::StepContext;
use crate::effect::Effect;

/// Pause after the first failed write; doubles with each failure up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// Longest pause between two writes.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Progress of the uncordon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restoring {
    /// A cordon of ours was sent in this boot and its removal is not confirmed: the node may carry it, whatever a list
    /// or watch showed last.
    pub may_be_cordoned: bool,
    /// In this boot our Node was seen Ready, by the word of this boot's kubelet. Until then a cordon and a slot may date
    /// from the boot before, whoever has renewed them since.
    pub has_been_back: bool,
    /// Our Node is cordoned without our annotation, and by its managed fields zedkube did not set this cordon.
    pub is_foreign: bool,
    in_flight: Option<u32>,
    /// How many times in a row the write has failed.
    failures: u32,
    next: Moment,
    /// Why the last write failed; empty if it succeeded.
    pub error: String,
}

/// A write to our own Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Removes our cordon, or our annotation without a cordon.
    Uncordon,
    /// Marks a cordon without an owner as ours.
    Adopt(Ownerless),
    /// Marks our cordon as one that takes no slot ([`NO_SLOT`]).
    MarkWithoutSlot,
}

impl Restoring {
    /// The state that the previous process recorded.
    pub(crate) fn resumed(may_be_cordoned: bool, has_been_back: bool) -> Self {
        Self { may_be_cordoned, has_been_back, ..Self::default() }
    }

    /// The node carries our cordon, or may carry it.
    pub(crate) fn has_cordon(&self, own: Option<&NodeView>) -> bool {
        self.may_be_cordoned || own.is_some_and(is_marked)
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> Option<u32> {
        self.in_flight
    }

    /// Starts the write, if none is in flight. Gives the time of the next try.
    pub(crate) fn pursue(&mut self, write: Write, context: &mut StepContext<'_>) -> Option<Moment> {
        if self.in_flight.is_some() {
            return None;
        }
        if context.now < self.next {
            return Some(self.next);
        }
        self.in_flight = Some(context.send(|serial| match write {
            Write::Uncordon => Effect::Uncordon { serial },
            Write::Adopt(whose) => Effect::Adopt { serial, whose },
            Write::MarkWithoutSlot => Effect::MarkWithoutSlot { serial },
        }));
        None
    }

    /// Notes the answer to an uncordon. True if our cordon is gone now.
    pub(crate) fn uncordoned(&mut self, serial: u32, result: &Result<(), String>, now: Moment) -> bool {
        let is_done = self.answered(serial, result.as_ref().err(), now);
        self.may_be_cordoned &= !is_done;
        is_done
    }

    /// Notes the answer to a write. True if it is the answer to the write in flight, and the write succeeded.
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
        // Somebody may undo each of our writes to the Node at once.
        self.next = now + FIRST_PAUSE;
        true
    }
}

/// The node carries our annotation.
pub(crate) fn is_marked(node: &NodeView) -> bool {
    node.cordoned_by.as_deref() == Some(OWNER)
}

/// Other nodes count the node's cordon as one that takes a slot: it is ours, without the mark `ebb.dev/slots-group: "-"`
/// ([`NO_SLOT`]). [`crate::State::is_no_slot_mark_due`] says when that is wrong.
pub(crate) fn cordon_takes_slot(node: &NodeView) -> bool {
    node.is_cordoned_by(OWNER) && node.slots_group.as_deref() != Some(NO_SLOT)
}

/// The node is cordoned, and nobody says by whom.
pub(crate) fn is_ownerless(node: &NodeView) -> bool {
    node.cordoned && node.cordoned_by.is_none()
}
