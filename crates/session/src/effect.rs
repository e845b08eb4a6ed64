//! What is to be done: what the session asks of the shell.

use drain::time::Moment;

use crate::slots::Holder;

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What a restarted process has to know has changed: put it on record before anything else is done.
    Record,
    /// What is shown has changed: publish it before anything else is done.
    Publish,
    /// List all nodes freshly.
    Look {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Read our own node freshly.
    Probe {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Cordon our own node. Never overtakes an uncordon that was sent before.
    Cordon {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Take our cordon back. Never overtakes a cordon that was sent before.
    Uncordon {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Mark the cordon that is on our own node as ours, unless somebody's name is on it.
    Adopt {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Read the table of the slots.
    ReadSlots {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Write our place in the table of the slots.
    WriteSlots {
        /// Comes back with the answer.
        serial: u32,
        /// The version of the table that it is based on; `None` to make the table.
        based_on: Option<String>,
        /// Whose place is written: our node's name.
        node: String,
        /// What is written there; `None` takes away what is there.
        entry: Option<Holder>,
    },
    /// Run the site's health command.
    AskHealth {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Rename the file of the order that is on record.
    TakeOverride,
    /// An effect of the attempt that runs. Its `WakeAt` never comes here.
    Drain(drain::Effect),
    /// Send [`crate::Event::Tick`] then. A newer one replaces an older one.
    WakeAt(Moment),
}

impl Effect {
    /// The serial that comes back with the answer, and what is waited for, in words. Evictions and proofs have no serial of
    /// their own: they share the connection with the probe of our node that goes on beside them.
    pub fn awaited(&self) -> Option<(u32, &'static str)> {
        match self {
            Self::Look { serial } => Some((*serial, "the list of nodes")),
            Self::Probe { serial } => Some((*serial, "the look at our node")),
            Self::Cordon { serial } => Some((*serial, "the cordon")),
            Self::Uncordon { serial } => Some((*serial, "the uncordon")),
            Self::Adopt { serial } => Some((*serial, "the adoption of EVE's cordon")),
            Self::ReadSlots { serial } => Some((*serial, "the look at the slots")),
            Self::WriteSlots { serial, .. } => Some((*serial, "the write of the slots")),
            Self::AskHealth { serial } => Some((*serial, "the health command")),
            Self::Record | Self::Publish | Self::TakeOverride | Self::Drain(_) | Self::WakeAt(_) => None,
        }
    }

    /// It changes something in the cluster. Reads do not.
    pub fn changes_the_cluster(&self) -> bool {
        match self {
            Self::Cordon { .. }
            | Self::Uncordon { .. }
            | Self::Adopt { .. }
            | Self::WriteSlots { .. }
            | Self::Drain(drain::Effect::Evict { .. } | drain::Effect::Delete { .. }) => true,
            Self::Record
            | Self::Publish
            | Self::Look { .. }
            | Self::Probe { .. }
            | Self::ReadSlots { .. }
            | Self::AskHealth { .. }
            | Self::TakeOverride
            | Self::Drain(_)
            | Self::WakeAt(_) => false,
        }
    }

    /// What is given up stops first; then it is on record, then seen, and only then anything else is done.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Drain(drain::Effect::Abort) => 0,
            Self::Record => 1,
            Self::Publish => 2,
            Self::Look { .. }
            | Self::Probe { .. }
            | Self::Cordon { .. }
            | Self::Uncordon { .. }
            | Self::Adopt { .. }
            | Self::ReadSlots { .. }
            | Self::WriteSlots { .. }
            | Self::AskHealth { .. }
            | Self::TakeOverride
            | Self::Drain(_)
            | Self::WakeAt(_) => 3,
        }
    }
}
