//! What EVE's zedagent says about the cluster, the device and the controller's settings. We only read these.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Topic;

/// Whether this device is to be in a cluster, and in which. Key `global`.
///
/// EVE publishes one also without a cluster, with only `Initialized` true.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "EVE's struct, field by field")]
pub struct EdgeNodeClusterConfig {
    /// EVE has read a configuration; before that the rest means nothing.
    pub initialized: bool,
    /// There is a cluster. EVE also clears it when it could not read the configuration (D20).
    pub valid: bool,
    /// Name of the cluster.
    pub cluster_name: String,
    /// Identity of the cluster.
    #[serde(rename = "ClusterID")]
    pub cluster_id: UuidAndVersion,
    /// Logical label of its network port.
    pub cluster_interface: String,
    /// Address of this node in it.
    #[serde(rename = "ClusterIPPrefix")]
    pub cluster_ip_prefix: Option<ClusterIpPrefix>,
    /// Not a server node.
    pub is_worker_node: bool,
    /// Address to join; empty without.
    #[serde(rename = "JoinServerIP")]
    pub join_server_ip: String,
    /// The first node of the cluster.
    pub bootstrap_node: bool,
    /// Encrypted; passed through, never looked into.
    pub cipher_token: Value,
    /// Encrypted; passed through, never looked into.
    pub cipher_gzip_registration_manifest_yaml: Value,
    /// 0 none, 1 K3s, 2 replicated storage, 3 high availability.
    pub cluster_type: u8,
    /// A node that never takes workloads.
    #[serde(rename = "TieBreakerNodeID")]
    pub tie_breaker_node_id: UuidAndVersion,
    /// Kubernetes places the applications.
    #[serde(rename = "EnableNativeK8SOrchestration")]
    pub enable_native_k8s_orchestration: bool,
    /// Ports of the load balancer; null without.
    #[serde(rename = "LBInterfaces")]
    pub lb_interfaces: Option<Vec<LbInterface>>,
    /// UUIDs of the control-plane nodes; null without.
    #[serde(rename = "MasterNodeIDs")]
    pub master_node_ids: Option<Vec<String>>,
}

impl Topic for EdgeNodeClusterConfig {
    const NAME: &'static str = "EdgeNodeClusterConfig";
}

/// EVE's identity of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct UuidAndVersion {
    /// Its UUID; all zeros when unset.
    #[serde(rename = "UUID")]
    pub uuid: String,
    /// Its version.
    pub version: String,
}

/// An address with its network mask, as Go writes `net.IPNet`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClusterIpPrefix {
    /// The address.
    #[serde(rename = "IP")]
    pub ip: String,
    /// The mask's bytes in base64.
    #[serde(rename = "Mask")]
    pub mask: String,
}

/// A port of the load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct LbInterface {
    /// Name of the port.
    pub interface: String,
    /// Addresses in CIDR notation.
    #[serde(rename = "IPPrefix")]
    pub ip_prefix: String,
}

/// Who this device is. Key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct EdgeNodeInfo {
    /// Its name; the Kubernetes node's name is made from it.
    pub device_name: String,
    /// Its UUID: label `node-uuid` of the Kubernetes node.
    #[serde(rename = "DeviceID")]
    pub device_id: String,
    /// Project at the controller.
    pub project_name: String,
    /// Its UUID.
    #[serde(rename = "ProjectID")]
    pub project_id: String,
    /// Enterprise at the controller.
    pub enterprise_name: String,
    /// Its UUID.
    #[serde(rename = "EnterpriseID")]
    pub enterprise_id: String,
}

impl Topic for EdgeNodeInfo {
    const NAME: &'static str = "EdgeNodeInfo";
}

/// The controller's settings. Key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ConfigItemValueMap {
    /// By name of the setting, as `kubernetes.drain.timeout`.
    pub global_settings: BTreeMap<String, ConfigItemValue>,
    /// By agent, then by name of the setting.
    pub agent_settings: BTreeMap<String, BTreeMap<String, ConfigItemValue>>,
}

impl Topic for ConfigItemValueMap {
    const NAME: &'static str = "ConfigItemValueMap";
}

/// Which value of a [`ConfigItemValue`] counts, EVE's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ConfigItemType(pub u8);

impl ConfigItemType {
    /// `IntValue` counts.
    pub const INT: Self = Self(1);
    /// `BoolValue` counts.
    pub const BOOL: Self = Self(2);
    /// `StrValue` counts.
    pub const STRING: Self = Self(3);
    /// `TriStateValue` counts.
    pub const TRISTATE: Self = Self(4);
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ConfigItemValue {
    /// Its name again.
    pub key: String,
    /// Which of the values counts.
    pub item_type: ConfigItemType,
    /// The number.
    pub int_value: u32,
    /// The text.
    pub str_value: String,
    /// The switch.
    pub bool_value: bool,
    /// 0 none, 1 disabled, 2 enabled.
    pub tri_state_value: u8,
}
