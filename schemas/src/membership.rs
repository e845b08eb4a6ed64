//! Membership in a cluster, as zedkube keeps it across boots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Member, Topic};

/// Whether this device was a member of a cluster when zedkube last knew. Persistent; publisher zedkube, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Membership {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Whether this device is a member of a cluster.
    pub member: Member,
}

impl Topic for Membership {
    const NAME: &'static str = "Membership";
}

/// What zedkube knew of the other nodes of the cluster when the API server last answered. In an outage it says how long
/// this device waits: longer while another node may be down, and in turn with nodes that come before it. If the slot
/// table (a ConfigMap) is lost, a node that had a slot counts until it was seen back. Persistent; publisher zedkube, key
/// `global`; written when it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct KnownHolders {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Slots of the other nodes, as zedkube last knew.
    pub others: OtherHolders,
    /// The last list of nodes showed this device's Node and no other one.
    pub alone: bool,
    /// How many other nodes of that list come before this one by name.
    pub nodes_before: u32,
    /// UID of the slot table, as zedkube last saw it; empty if there was none.
    #[serde(rename = "TableUID")]
    pub table_uid: String,
    /// `resourceVersion` of the slot table when its holders or its UID changed last; empty if there was none.
    pub table_version: String,
    /// The nodes that had an entry in the slot table, or that zedkube had cordoned for a drain.
    pub holders: Vec<KnownHolder>,
    /// The nodes whose entry was lost with an earlier slot table, and that were not seen back since. A person who removes
    /// this item ends their claim (`ebb slots forget`).
    pub lost: Vec<KnownHolder>,
}

/// A node that had a slot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct KnownHolder {
    /// Name of the Node.
    pub node: String,
    /// UID of the Node.
    #[serde(rename = "NodeUID")]
    pub node_uid: String,
    /// The boot in which it wrote its entry; in another one it is back.
    #[serde(rename = "BootID")]
    pub boot_id: String,
}

impl Topic for KnownHolders {
    const NAME: &'static str = "KnownHolders";
}

/// Whether other nodes have slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherHolders {
    /// Not known; treated as if another node had a slot.
    #[default]
    Unknown,
    /// No other node has a slot, or there are no other nodes.
    Nobody,
    /// At least one other node has a slot, or may be down for a drain.
    Hold,
}

/// The Node on which zedkube has left, or may have left, its cordon or its slot entry. The item is removed when zedkube
/// has seen both given back, or when a person removes it (`ebb slots forget`). Persistent; publisher zedkube, key
/// `global`. If the device boots under another name or with another kubeconfig, this item is the only trace of that cordon.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct OwnCordon {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Name of the Node.
    pub node: String,
    /// UID of the Node: a Node of the same name with another UID is another Node.
    #[serde(rename = "NodeUID")]
    pub node_uid: String,
    /// UID of namespace `kube-system` of the Node's cluster; empty if it was not known.
    #[serde(rename = "ClusterUID")]
    pub cluster_uid: String,
}

impl Topic for OwnCordon {
    const NAME: &'static str = "OwnCordon";
}
