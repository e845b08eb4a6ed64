//! What makes a type a topic, and the names of the agents that publish topics.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that is published: one JSON object per item, named by [`Topic::NAME`] on disk and on sockets.
///
/// Equality is equality of meaning: two values that a reader must treat alike are equal.
/// A topic must not use `#[serde(flatten)]` nor untagged enums: [`crate::parse`] matches field names in any
/// letter case by the type's own field list, which those two hide.
pub trait Topic: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// The folder and socket name, EVE's type name (`NodeDrainStatus`).
    const NAME: &'static str;

    /// The longest file of an item that is read or written, in bytes; a longer one is refused by name.
    const MAX_BYTES: usize = crate::parse::MAX_BYTES;
}

/// Agent names: the first folder of a topic's path. They are EVE's, whatever our crates are called.
pub mod agent {
    /// Drains the node; publishes the status and the report.
    pub const ZEDKUBE: &str = "zedkube";
    /// Gates reboot, shutdown and poweroff (our crate `device-op`).
    pub const ZEDAGENT: &str = "zedagent";
    /// Carries out what has been released.
    pub const NODEAGENT: &str = "nodeagent";
    /// Gates the activation of images (our crate `baseos`).
    pub const BASEOSMGR: &str = "baseosmgr";
    /// Reports the state of images; EVE's own, we only read it.
    pub const VOLUMEMGR: &str = "volumemgr";
    /// The person at the command line.
    pub const EBB: &str = "ebb";
    /// Whoever commands the device: a controller's agent, or `ebb reboot` and `ebb update`.
    pub const CONTROLLER: &str = "controller";
}
