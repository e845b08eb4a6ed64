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

/// What is given up stops first; then it is on record, then seen, and only then anything else is done.
pub(crate) fn rank(effect: &Effect) -> u8 {
    match effect {
        Effect::Drain(drain::Effect::Abort) => 0,
        Effect::Record => 1,
        Effect::Publish => 2,
        Effect::Look { .. }
        | Effect::Probe { .. }
        | Effect::Cordon { .. }
        | Effect::Uncordon { .. }
        | Effect::Adopt { .. }
        | Effect::ReadSlots { .. }
        | Effect::WriteSlots { .. }
        | Effect::AskHealth { .. }
        | Effect::TakeOverride
        | Effect::Drain(_)
        | Effect::WakeAt(_) => 3,
    }
}
