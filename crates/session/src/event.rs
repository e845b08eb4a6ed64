//! What happens: what the shell tells the session.

use drain::view::NodeView;
use schemas::DrainOrder;
use serde::{Deserialize, Serialize};

use crate::membership::Facts;
use crate::requests::Request;
use crate::slots::SlotTable;

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// These requests stand now.
    Requests(Vec<Request>),
    /// What the device itself knows of its membership.
    Facts(Facts),
    /// A fresh list of all nodes, asked for by [`crate::Effect::Look`].
    Looked {
        /// The effect's serial.
        serial: u32,
        /// What was seen.
        result: Result<Look, Trouble>,
    },
    /// Our own node, freshly read, asked for by [`crate::Effect::Probe`]; `None` when it does not exist.
    Probed {
        /// The effect's serial.
        serial: u32,
        /// What was seen.
        result: Result<Option<NodeView>, Trouble>,
    },
    /// The answer to [`crate::Effect::Cordon`].
    Cordoned {
        /// The effect's serial.
        serial: u32,
        /// The node as it is now, and whether somebody else had cordoned it before.
        result: Result<Cordoned, Trouble>,
    },
    /// The answer to [`crate::Effect::Uncordon`].
    Uncordoned {
        /// The effect's serial.
        serial: u32,
        /// Done (also when there was nothing to do), or why not.
        result: Result<(), String>,
    },
    /// The answer to [`crate::Effect::Adopt`].
    Adopted {
        /// The effect's serial.
        serial: u32,
        /// Whether there was a cordon to adopt, or why it is not known.
        result: Result<bool, String>,
    },
    /// The answer to [`crate::Effect::ReadSlots`] or [`crate::Effect::WriteSlots`].
    Slots {
        /// The effect's serial.
        serial: u32,
        /// The table as it is now.
        result: Result<SlotTable, SlotTrouble>,
    },
    /// Somebody has changed the table of the slots.
    SlotsChanged,
    /// The answer to [`crate::Effect::AskHealth`].
    Health {
        /// The effect's serial.
        serial: u32,
        /// It passed, or why not.
        result: Result<(), String>,
    },
    /// An operator's order was read.
    Override(Order),
    /// The answer to [`crate::Effect::TakeOverride`].
    OverrideTaken {
        /// Its file is renamed; else it could not be, and nothing is done.
        renamed: bool,
    },
    /// What the driver of the attempt saw: the watches, answers to [`crate::Effect::Drain`], whether the API server is away.
    Drain(drain::Event),
    /// The time of an [`crate::Effect::WakeAt`] has come.
    Tick,
}

impl Event {
    /// The serial of the effect that it answers ([`crate::Effect::awaited`]).
    pub fn answers(&self) -> Option<u32> {
        match self {
            Self::Looked { serial, .. }
            | Self::Probed { serial, .. }
            | Self::Cordoned { serial, .. }
            | Self::Uncordoned { serial, .. }
            | Self::Adopted { serial, .. }
            | Self::Slots { serial, .. }
            | Self::Health { serial, .. } => Some(*serial),
            Self::Requests(_)
            | Self::Facts(_)
            | Self::SlotsChanged
            | Self::Override(_)
            | Self::OverrideTaken { .. }
            | Self::Drain(_)
            | Self::Tick => None,
        }
    }

    /// The API server has just not answered. How long it was away on end is not enough to act on: that also grows while the
    /// device is suspended, or while no zedkube runs.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Looked { result: Err(Trouble::Unreachable(_)), .. }
                | Self::Probed { result: Err(Trouble::Unreachable(_)), .. }
                | Self::Cordoned { result: Err(Trouble::Unreachable(_)), .. }
        )
    }

    /// Our node as it was just read, by itself or in a list.
    pub(crate) fn own_node(&self) -> Option<&NodeView> {
        if let Self::Looked { result: Ok(Look { own: Ok(node), .. }), .. }
        | Self::Probed { result: Ok(Some(node)), .. } = self
        {
            Some(node)
        } else {
            None
        }
    }
}

/// A fresh list of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// All nodes.
    pub nodes: Vec<NodeView>,
    /// The one that is this machine, or why none is.
    pub own: Result<NodeView, NoNode>,
}

/// No node is known to be this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoNode {
    /// Why, and what a person can do.
    pub why: String,
    /// It may still come: none of the nodes is it. Otherwise one looks like it and is not, which does not mend itself.
    pub may_join: bool,
}

/// A node that is cordoned now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cordoned {
    /// The node.
    pub node: NodeView,
    /// Somebody else had cordoned it.
    pub before: bool,
}

/// An operator's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Order {
    /// What.
    pub what: DrainOrder,
    /// Who gave it, and why, in words.
    pub by: String,
}

/// Why a call to the API server brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No answer at all, or one that only says that the server is not well.
    Unreachable(String),
    /// The server does not let us; names the missing verb.
    Denied(String),
    /// Anything else.
    Other(String),
}

/// Why a call for the table of the slots brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotTrouble {
    /// Somebody else has changed it since it was read.
    Conflict,
    /// Anything else.
    Failed(Trouble),
}
