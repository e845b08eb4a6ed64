//! What happens: what the shell tells the session.

use std::sync::Arc;

use drain::Findings;
use drain::view::{NodeView, Picture};

use crate::forcing::Order;
use crate::leasing::SlotTrouble;
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
    /// A fresh look at our own node, asked for by [`crate::Effect::Probe`]; `None` when it does not exist.
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
    /// The watches show this now.
    Picture(Arc<Picture>),
    /// The server does not let us watch the node, its pods or the budgets, and that lasts: no picture will come.
    Unseen {
        /// Why, with the missing verb.
        why: String,
    },
    /// The answer to an eviction or deletion of [`crate::Effect::Drain`].
    Answer {
        /// The attempt's serial.
        attempt: u32,
        /// The pod's UID.
        uid: String,
        /// What it means.
        answer: drain::Answer,
    },
    /// The fresh look that a [`drain::Effect::Prove`] asked for.
    Proof {
        /// The effect's serial.
        attempt: u32,
        /// What was seen, or why nothing was.
        look: Result<Arc<Picture>, String>,
    },
    /// What a [`drain::Effect::Inquire`] found out.
    Found {
        /// The attempt's serial.
        attempt: u32,
        /// What was found out.
        findings: Arc<Findings>,
    },
    /// The time of an [`crate::Effect::WakeAt`] has come.
    Tick,
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
