//! The two topics by which EVE's agents ask for a drain and learn how far it is.
//!
//! The types have exactly EVE's fields, because EVE's agents and ours may run on one device.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::coded::{self, Code};
use crate::{Agent, GoTime, Topic, agent};

/// State of this node's drain, with EVE's names and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum DrainStatus {
    /// No status is known: there is no item, or it has the zero value.
    #[default]
    Unknown = 0,
    /// This device is not part of a cluster, or drains are switched off.
    NotSupported = 1,
    /// There is no request for a drain.
    NotRequested = 2,
    /// A request is accepted and waits until its drain can begin.
    Requested = 3,
    /// The drain begins.
    Starting = 4,
    /// The node is cordoned and pods are leaving; this is the first attempt.
    Cordoned = 5,
    /// The node could not be cordoned. Final for this request.
    FailedCordon = 6,
    /// An attempt failed. A pause or a further attempt is running.
    DrainRetrying = 7,
    /// All attempts failed. Final for this request.
    FailedDrain = 8,
    /// The node may go down.
    Complete = 9,
}

impl DrainStatus {
    /// All ten, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Unknown,
        Self::NotSupported,
        Self::NotRequested,
        Self::Requested,
        Self::Starting,
        Self::Cordoned,
        Self::FailedCordon,
        Self::DrainRetrying,
        Self::FailedDrain,
        Self::Complete,
    ];

    const CODES: &'static [Code] = &[
        (0, "UNKNOWN"),
        (1, "NOTSUPPORTED"),
        (2, "NOTREQUESTED"),
        (3, "REQUESTED"),
        (4, "STARTING"),
        (5, "CORDONED"),
        (6, "FAILEDCORDON"),
        (7, "DRAINRETRYING"),
        (8, "FAILEDDRAIN"),
        (9, "COMPLETE"),
    ];

    /// The status' number in files and messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The status with this number, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Name of EVE's constant without its prefix, for logs: `NOTREQUESTED`.
    pub fn constant(self) -> &'static str {
        Self::CODES.get(usize::from(self.code())).map_or("UNKNOWN", |(_, name)| name)
    }

    /// True while a drain is under way for any requester: requested and not yet answered (3, 4, 5, 7).
    pub const fn is_in_progress(self) -> bool {
        match self {
            Self::Requested | Self::Starting | Self::Cordoned | Self::DrainRetrying => true,
            Self::Unknown
            | Self::NotSupported
            | Self::NotRequested
            | Self::FailedCordon
            | Self::FailedDrain
            | Self::Complete => false,
        }
    }

    /// True if zedkube gave up the drain (6, 8).
    pub const fn is_failed(self) -> bool {
        match self {
            Self::FailedCordon | Self::FailedDrain => true,
            Self::Unknown
            | Self::NotSupported
            | Self::NotRequested
            | Self::Requested
            | Self::Starting
            | Self::Cordoned
            | Self::DrainRetrying
            | Self::Complete => false,
        }
    }
}

/// EVE's own words (`DrainStatus.String()`), as EVE's `diag` prints them.
impl fmt::Display for DrainStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unknown => "Unknown",
            Self::NotSupported => "Not Supported",
            Self::NotRequested => "Not Requested",
            Self::Requested => "Requested",
            Self::Starting => "Starting",
            Self::Cordoned => "Cordoned",
            Self::FailedCordon => "Failed Cordon",
            Self::DrainRetrying => "Drain Retrying",
            Self::FailedDrain => "Failed Drain",
            Self::Complete => "Complete",
        })
    }
}

impl Serialize for DrainStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code())
    }
}

impl<'de> Deserialize<'de> for DrainStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = coded::deserialize(deserializer, Self::CODES)?;
        Ok(Self::from_code(code).unwrap_or_default())
    }
}

impl JsonSchema for DrainStatus {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DrainStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": 9, "description": coded::listed(Self::CODES)})
    }
}

/// The agent that asks for a drain, or that a status answers, in EVE's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum DrainRequester {
    /// The zero value of a missing field. EVE has no name for it, and a request with it is refused.
    #[default]
    Unset = 0,
    /// In a status: no requester. In a request of ours: an operator, on the device (`ebb`) or by the cluster (`zedkube`); or
    /// the shutdown of the machine (`ebb-hold`, `nodeagent`).
    None = 1,
    /// device-op (EVE's zedagent): reboot, shutdown, poweroff.
    DeviceOp = 2,
    /// baseos (EVE's baseosmgr): a new image.
    Update = 3,
}

impl DrainRequester {
    const CODES: &'static [Code] = &[(0, "unset"), (1, "NONE"), (2, "DEVICEOP"), (3, "UPDATE")];

    /// The agents that may request a drain, by their folders, each with the requester that its requests must name.
    pub const PUBLISHERS: [(&'static str, Self); 6] = [
        (agent::ZEDAGENT, Self::DeviceOp),
        (agent::BASEOSMGR, Self::Update),
        (agent::EBB, Self::None),
        // What the cluster commands by an annotation of the Node.
        (agent::ZEDKUBE, Self::None),
        (agent::HOLD, Self::None),
        (agent::NODEAGENT, Self::None),
    ];

    /// The requester's number in files and messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The requester for whom the agent with this folder may ask. A request with another requester is refused.
    pub fn of_publisher(agent: &str) -> Option<Self> {
        let of_agent = Self::PUBLISHERS.into_iter().find(|(publisher, _)| *publisher == agent);
        of_agent.map(|(_, requester)| requester)
    }

    /// The agent that asks; nothing for an operator.
    pub const fn agent(self) -> Option<Agent> {
        match self {
            Self::DeviceOp => Some(Agent::DeviceOp),
            Self::Update => Some(Agent::Baseos),
            Self::Unset | Self::None => None,
        }
    }
}

/// Name of EVE's constant without its prefix (`DEVICEOP`).
impl fmt::Display for DrainRequester {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unset => "unset",
            Self::None => "NONE",
            Self::DeviceOp => "DEVICEOP",
            Self::Update => "UPDATE",
        })
    }
}

impl Serialize for DrainRequester {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code())
    }
}

impl<'de> Deserialize<'de> for DrainRequester {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match coded::deserialize(deserializer, Self::CODES)? {
            1 => Self::None,
            2 => Self::DeviceOp,
            3 => Self::Update,
            _ => Self::Unset,
        })
    }
}

impl JsonSchema for DrainRequester {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DrainRequester".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": 3, "description": coded::listed(Self::CODES)})
    }
}

/// Asks zedkube to drain this node. Key `global`; the publisher's folder decides who the requester is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeDrainRequest {
    /// Time of the request. It identifies the request: a new time is a new request.
    pub requested_at: GoTime,
    /// The requester.
    pub requested_by: DrainRequester,
    /// Purpose of the request: `reboot`, `shutdown`, `poweroff`, the content tree of an image, or the operator's
    /// reason.
    pub context: String,
}

impl Topic for NodeDrainRequest {
    const NAME: &'static str = "NodeDrainRequest";

    /// A request is a time, a number and a line of text. This limit is also the length of EVE's longest message.
    const MAX_BYTES: usize = 64 * 1024;
}

/// zedkube's answer to all agents. Key `global`. The type has exactly these two fields; everything else is in
/// [`crate::NodeDrainReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeDrainStatus {
    /// State of the drain.
    pub status: DrainStatus,
    /// The requester that this status answers; [`DrainRequester::None`] if there is no request.
    pub requested_by: DrainRequester,
}

impl Topic for NodeDrainStatus {
    const NAME: &'static str = "NodeDrainStatus";
}
