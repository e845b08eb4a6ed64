//! What zedkube remembers of the cluster over a boot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Member, Topic};

/// Whether this device was a member of a cluster when that was last known. Persistent, of zedkube, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Membership {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Whether this device is part of a cluster.
    pub member: Member,
}

impl Topic for Membership {
    const NAME: &'static str = "Membership";
}

/// Whether other nodes of the cluster had a slot when its API server last answered: as long as one may be down, this device
/// waits longer for a server that is away. Persistent, of zedkube, key `global`; written when it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct KnownHolders {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// What was known.
    pub others: OtherHolders,
}

impl Topic for KnownHolders {
    const NAME: &'static str = "KnownHolders";
}

/// Whether other nodes have slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherHolders {
    /// Not known; treated as if one had a slot.
    #[default]
    Unknown,
    /// None has one, or there are no other nodes.
    Nobody,
    /// At least one has, or may be down for a drain.
    Hold,
}

/// The node on which zedkube has left, or may have left, its cordon or its entry in the slots, until it has seen both
/// given back. Persistent, of zedkube, key `global`; no item when there is none. After a boot under another name, or
/// with another kubeconfig, nobody else knows of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct OwnCordon {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Name of the Node.
    pub node: String,
    /// Its UID: a Node of the same name with another UID is another Node.
    #[serde(rename = "NodeUID")]
    pub node_uid: String,
}

impl Topic for OwnCordon {
    const NAME: &'static str = "OwnCordon";
}
