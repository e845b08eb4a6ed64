//! The effects that the session asks the shell to carry out.

use drain::cordon::Ownerless;
use drain::time::Moment;

use crate::slots::Holder;

/// One effect. The shell carries effects out in the order in which it gets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The record has changed: write it before any later effect.
    Record,
    /// The status has changed: publish it before any later effect.
    Publish,
    /// List all nodes, freshly from the API server.
    ListNodes {
        /// The event that answers this effect carries the same serial.
        serial: u32,
    },
    /// List the first two nodes, freshly from the API server, and learn how many there are.
    SampleNodes {
        /// The event that answers this effect carries the same serial.
        serial: u32,
    },
    /// Read our own Node, freshly from the API server.
    Probe {
        /// The event that answers this effect carries the same serial.
        serial: u32,
    },
    /// Cordon our own node. A cordon never overtakes an uncordon that was sent before it.
    Cordon {
        /// The event that answers this effect carries the same serial.
        serial: u32,
    },
    /// Remove our cordon. An uncordon never overtakes a cordon that was sent before it.
    Uncordon {
        /// The event that answers this effect carries the same serial.
        serial: u32,
    },
    /// Mark the cordon of our own node as ours, unless it already names an owner, or is not `whose`.
    Adopt {
        /// The event that answers this effect carries the same serial.
        serial: u32,
        /// Whose the cordon is taken to be.
        whose: Ownerless,
    },
    /// Mark the cordon of our own node, if it is ours, as one that takes no slot ([`drain::cordon::NO_SLOT`]): the node is
    /// set aside, or is kept and waits for a slot.
    MarkWithoutSlot {
        /// The event that answers this effect carries the same serial.
        serial: u32,
    },
    /// Read the slot table.
    ReadSlots {
        /// The event that answers this effect carries the same serial.
        serial: u32,
    },
    /// Write this node's entry in the slot table.
    WriteSlots {
        /// The event that answers this effect carries the same serial.
        serial: u32,
        /// The version of the table that the write is based on; `None` to create the table.
        based_on: Option<String>,
        /// The key of the entry: our node's name.
        node: String,
        /// The entry's new content; `None` removes the entry.
        entry: Option<Holder>,
    },
    /// Run the site's health command.
    AskHealth {
        /// The event that answers this effect carries the same serial.
        serial: u32,
    },
    /// Rename the file of the order that is in the record.
    TakeOverride,
    /// An effect of the attempt that runs; never its `WakeAt`.
    Drain(drain::Effect),
    /// Send [`crate::Event::Tick`] at this time. A later `WakeAt` replaces an earlier one.
    WakeAt(Moment),
}

impl Effect {
    /// The serial of the event that answers this effect, and a name for the call, for the log. `None` for effects
    /// without an answer, and for evictions and proofs: they use the same connection as the probe of our node that goes
    /// on beside them, so a hanging connection is noticed there.
    pub fn awaited(&self) -> Option<(u32, &'static str)> {
        match self {
            Self::ListNodes { serial } => Some((*serial, "the list of nodes")),
            Self::SampleNodes { serial } => Some((*serial, "the list of two nodes")),
            Self::Probe { serial } => Some((*serial, "the read of our node")),
            Self::Cordon { serial } => Some((*serial, "the cordon")),
            Self::Uncordon { serial } => Some((*serial, "the uncordon")),
            Self::Adopt { serial, .. } => Some((*serial, "the mark on a cordon without an owner")),
            Self::MarkWithoutSlot { serial } => {
                Some((*serial, "the mark on our cordon that it takes no slot"))
            }
            Self::ReadSlots { serial } => Some((*serial, "the read of the slot table")),
            Self::WriteSlots { serial, .. } => Some((*serial, "the write of the slot table")),
            Self::AskHealth { serial } => Some((*serial, "the health command")),
            Self::Record | Self::Publish | Self::TakeOverride | Self::Drain(_) | Self::WakeAt(_) => None,
        }
    }

    /// The order of a step's effects: first stop what was given up, then write the record, then publish, then everything
    /// else.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Drain(drain::Effect::Abort) => 0,
            Self::Record => 1,
            Self::Publish => 2,
            Self::ListNodes { .. }
            | Self::SampleNodes { .. }
            | Self::Probe { .. }
            | Self::Cordon { .. }
            | Self::Uncordon { .. }
            | Self::Adopt { .. }
            | Self::MarkWithoutSlot { .. }
            | Self::ReadSlots { .. }
            | Self::WriteSlots { .. }
            | Self::AskHealth { .. }
            | Self::TakeOverride
            | Self::Drain(_)
            | Self::WakeAt(_) => 3,
        }
    }
}
