//! The events that the shell feeds to the session.

use drain::view::NodeView;
use schemas::DrainOrder;
use serde::{Deserialize, Serialize};

use crate::membership::Facts;
use crate::requests::Request;
use crate::slots::SlotTable;

/// Something that happened outside the session.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The requests that exist now, read from their files.
    Requests(Vec<Request>),
    /// What the device itself knows about its membership of a cluster.
    Facts(Facts),
    /// A fresh list of all nodes: the answer to [`crate::Effect::ListNodes`].
    NodesListed {
        /// The effect's serial.
        serial: u32,
        /// The list, or why there is none.
        result: Result<NodeList, CallError>,
    },
    /// The first nodes of a fresh list: the answer to [`crate::Effect::SampleNodes`].
    NodesSampled {
        /// The effect's serial.
        serial: u32,
        /// The nodes, or why there are none.
        result: Result<NodeSample, CallError>,
    },
    /// Our own Node, as its watch shows it now; `None` if it does not exist.
    OwnSeen(Option<NodeView>),
    /// The watch on our own Node has failed: the Node may change unseen until the next [`Event::OwnSeen`].
    OwnWatchFailed,
    /// Our own Node, freshly read: the answer to [`crate::Effect::Probe`]. `None` if the Node does not exist.
    Probed {
        /// The effect's serial.
        serial: u32,
        /// The Node, or why it could not be read.
        result: Result<Option<NodeView>, CallError>,
    },
    /// The answer to [`crate::Effect::Cordon`].
    Cordoned {
        /// The effect's serial.
        serial: u32,
        /// The node as it is now, and whether another party had cordoned it before; or why it could not be cordoned.
        result: Result<Cordoned, CallError>,
    },
    /// The answer to [`crate::Effect::Uncordon`].
    Uncordoned {
        /// The effect's serial.
        serial: u32,
        /// The node is uncordoned (also if there was nothing to do), or why not.
        result: Result<(), String>,
    },
    /// The answer to [`crate::Effect::Adopt`].
    Adopted {
        /// The effect's serial.
        serial: u32,
        /// Whether there was a cordon to adopt, or why that is not known.
        result: Result<bool, String>,
    },
    /// The answer to [`crate::Effect::MarkWithoutSlot`].
    MarkedWithoutSlot {
        /// The effect's serial.
        serial: u32,
        /// A cordon of ours on the node takes no slot from now on, or why that could not be written.
        result: Result<(), String>,
    },
    /// The answer to [`crate::Effect::ReadSlots`] or [`crate::Effect::WriteSlots`].
    Slots {
        /// The effect's serial.
        serial: u32,
        /// The slot table as it is now, or why it could not be read or written.
        result: Result<SlotTable, SlotError>,
    },
    /// The slot table, as its watch shows it now; an empty table if there is none.
    SlotsSeen(SlotTable),
    /// The watch on the slot table has failed: the table may change unseen until the next [`Event::SlotsSeen`].
    SlotWatchFailed,
    /// The answer to [`crate::Effect::AskHealth`].
    Health {
        /// The effect's serial.
        serial: u32,
        /// The command has passed, or why not.
        result: Result<(), String>,
    },
    /// An operator's order was read from its file.
    Override(Order),
    /// The answer to [`crate::Effect::TakeOverride`].
    OverrideTaken {
        /// True: the order's file is renamed. False: it could not be renamed, and the order is not carried out.
        renamed: bool,
    },
    /// An event of the attempt's driver: a snapshot of the watches, an answer to [`crate::Effect::Drain`], or whether
    /// the API server is away.
    Drain(drain::Event),
    /// The time of an [`crate::Effect::WakeAt`] has come.
    Tick,
}

impl Event {
    /// The serial of the effect that this event answers ([`crate::Effect::awaited`]), if it answers one.
    pub fn answers(&self) -> Option<u32> {
        match self {
            Self::NodesListed { serial, .. }
            | Self::NodesSampled { serial, .. }
            | Self::Probed { serial, .. }
            | Self::Cordoned { serial, .. }
            | Self::Uncordoned { serial, .. }
            | Self::Adopted { serial, .. }
            | Self::MarkedWithoutSlot { serial, .. }
            | Self::Slots { serial, .. }
            | Self::Health { serial, .. } => Some(*serial),
            Self::Requests(_)
            | Self::Facts(_)
            | Self::OwnSeen(_)
            | Self::OwnWatchFailed
            | Self::SlotsSeen(_)
            | Self::SlotWatchFailed
            | Self::Override(_)
            | Self::OverrideTaken { .. }
            | Self::Drain(_)
            | Self::Tick => None,
        }
    }

    /// True if this event says that the API server has just not answered. The length of an outage alone is not enough to
    /// act on: it also grows while the device is suspended, or while no zedkube runs.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::NodesListed { result: Err(CallError::Unreachable(_)), .. }
                | Self::Probed { result: Err(CallError::Unreachable(_)), .. }
                | Self::Cordoned { result: Err(CallError::Unreachable(_)), .. }
        )
    }

    /// Our own Node, if this event has just read it, alone or in a list.
    pub(crate) fn own_node(&self) -> Option<&NodeView> {
        if let Self::NodesListed { result: Ok(NodeList { own: Ok(node), .. }), .. }
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
pub struct NodeList {
    /// All nodes.
    pub nodes: Vec<NodeView>,
    /// UID of the cluster's namespace `kube-system`; `None` if it may not be read.
    pub cluster: Option<String>,
    /// The Node that is this machine, or why none is.
    pub own: Result<NodeView, NoNode>,
}

/// The first nodes of a fresh list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSample {
    /// At least two nodes, if there are two.
    pub nodes: Vec<NodeView>,
    /// How many nodes there are; `None` if the server does not say so.
    pub total: Option<usize>,
    /// UID of the cluster's namespace `kube-system`; `None` if it may not be read.
    pub cluster: Option<String>,
}

/// Why no Node could be matched to this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoNode {
    /// The reason, and what a person can do.
    pub why: String,
    /// True if none of the Nodes is this machine: it may still join the cluster. False if a Node looks like this machine
    /// and is not: only a person can correct that.
    pub may_join: bool,
}

/// A node that is cordoned now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cordoned {
    /// The node.
    pub node: NodeView,
    /// Another party had cordoned the node before us.
    pub before: bool,
}

/// An operator's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Order {
    /// What is ordered.
    pub what: DrainOrder,
    /// The person who gave the order, and the reason, in words.
    pub by: String,
}

/// Why a call to the API server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The server has not answered, or answered only that it is not well.
    Unreachable(String),
    /// The server refused the call; the text names the missing right.
    Denied(String),
    /// The API server belongs to another cluster than the one in which the drain began; the text names both.
    Elsewhere(String),
    /// The server answered that it is too busy. It is not away, and has refused nothing.
    Busy(String),
    /// Any other failure.
    Other(String),
}

/// Why a call for the slot table failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// Another node has changed the table since it was read.
    Conflict,
    /// Any other failure.
    Failed(CallError),
}
