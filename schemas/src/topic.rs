//! The trait of all topics, and the names of the agents that publish them.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that is published: one JSON object per item. [`Topic::NAME`] is its name on disk and on sockets.
///
/// Equality is equality of meaning: two values that a reader must treat alike are equal. A topic must not use
/// `#[serde(flatten)]` nor untagged enums: [`crate::parse`] matches field names in any letter case by the type's field
/// list, which those two hide.
pub trait Topic: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Name of the topic's folder and socket; EVE's type name (`NodeDrainStatus`).
    const NAME: &'static str;

    /// The longest item that is read or written, in bytes; a longer file is refused by name.
    const MAX_BYTES: usize = crate::parse::MAX_BYTES;
}

/// Folder names of the agents: the first part of a topic's path. They are EVE's names, also for device-op and baseos.
pub mod agent {
    /// zedkube drains the node; it publishes the status and the report.
    pub const ZEDKUBE: &str = "zedkube";
    /// device-op, the gate in front of reboot, shutdown and poweroff.
    pub const ZEDAGENT: &str = "zedagent";
    /// nodeagent carries out what the gates have released.
    pub const NODEAGENT: &str = "nodeagent";
    /// baseos, the gate in front of the activation of images.
    pub const BASEOSMGR: &str = "baseosmgr";
    /// EVE's volumemgr reports the state of images; we only read it.
    pub const VOLUMEMGR: &str = "volumemgr";
    /// The person at the command line.
    pub const EBB: &str = "ebb";
    /// Commands for the device: from a controller's agent, or from `ebb reboot` and `ebb update`.
    pub const CONTROLLER: &str = "controller";
}
