//! Topics of EVE's zedagent about the cluster, the device and the controller's settings. We only read them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Topic;

/// Whether this device shall be in a cluster, and in which one. Key `global`.
///
/// Without a cluster EVE publishes this topic too, with only `Initialized` true.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "EVE's struct, field by field")]
pub struct EdgeNodeClusterConfig {
    /// EVE has read a configuration. If false, the other fields mean nothing.
    pub initialized: bool,
    /// There is a cluster. EVE also clears this field when it could not read the configuration (D20).
    pub valid: bool,
    /// Name of the cluster.
    pub cluster_name: String,
    /// UUID and version of the cluster.
    #[serde(rename = "ClusterID")]
    pub cluster_id: UuidAndVersion,
    /// Logical label of the cluster's network port.
    pub cluster_interface: String,
    /// Address of this node in the cluster.
    #[serde(rename = "ClusterIPPrefix")]
    pub cluster_ip_prefix: Option<ClusterIpPrefix>,
    /// This node is a worker, not a server.
    pub is_worker_node: bool,
    /// Address of the node through which this one joins the cluster; empty if none.
    #[serde(rename = "JoinServerIP")]
    pub join_server_ip: String,
    /// This is the first node of the cluster.
    pub bootstrap_node: bool,
    /// Encrypted token; passed through, never read.
    pub cipher_token: Value,
    /// Encrypted manifest; passed through, never read.
    pub cipher_gzip_registration_manifest_yaml: Value,
    /// Kind of cluster: 0 none, 1 K3s, 2 replicated storage, 3 high availability.
    pub cluster_type: u8,
    /// The node that never takes workloads.
    #[serde(rename = "TieBreakerNodeID")]
    pub tie_breaker_node_id: UuidAndVersion,
    /// Kubernetes, not EVE, decides on which node an application runs.
    #[serde(rename = "EnableNativeK8SOrchestration")]
    pub enable_native_k8s_orchestration: bool,
    /// Ports of the load balancer; null if none.
    #[serde(rename = "LBInterfaces")]
    pub lb_interfaces: Option<Vec<LbInterface>>,
    /// UUIDs of the control-plane nodes; null if none.
    #[serde(rename = "MasterNodeIDs")]
    pub master_node_ids: Option<Vec<String>>,
}

impl Topic for EdgeNodeClusterConfig {
    const NAME: &'static str = "EdgeNodeClusterConfig";
}

/// EVE's identity of an object: UUID and version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct UuidAndVersion {
    /// UUID of the object; all zeros when unset.
    #[serde(rename = "UUID")]
    pub uuid: String,
    /// Version of the object.
    pub version: String,
}

/// An address with its network mask, as Go writes `net.IPNet`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClusterIpPrefix {
    /// The address.
    #[serde(rename = "IP")]
    pub ip: String,
    /// Bytes of the mask, in base64.
    #[serde(rename = "Mask")]
    pub mask: String,
}

/// A port of the load balancer, with its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct LbInterface {
    /// Name of the port.
    pub interface: String,
    /// Addresses in CIDR notation.
    #[serde(rename = "IPPrefix")]
    pub ip_prefix: String,
}

/// Identity of this device. Key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct EdgeNodeInfo {
    /// Name of the device; the name of the Kubernetes node is made from it.
    pub device_name: String,
    /// UUID of the device: label `node-uuid` of the Kubernetes node.
    #[serde(rename = "DeviceID")]
    pub device_id: String,
    /// Name of the device's project at the controller.
    pub project_name: String,
    /// UUID of the project.
    #[serde(rename = "ProjectID")]
    pub project_id: String,
    /// Name of the device's enterprise at the controller.
    pub enterprise_name: String,
    /// UUID of the enterprise.
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
    /// Settings of the device, by name, such as `kubernetes.drain.timeout`.
    pub global_settings: BTreeMap<String, ConfigItemValue>,
    /// Settings of one agent: by name of the agent, then by name of the setting.
    pub agent_settings: BTreeMap<String, BTreeMap<String, ConfigItemValue>>,
}

impl Topic for ConfigItemValueMap {
    const NAME: &'static str = "ConfigItemValueMap";
}

/// Which field of a [`ConfigItemValue`] holds the value, in EVE's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ConfigItemType(pub u8);

impl ConfigItemType {
    /// The value is in `IntValue`.
    pub const INT: Self = Self(1);
    /// The value is in `BoolValue`.
    pub const BOOL: Self = Self(2);
    /// The value is in `StrValue`.
    pub const STRING: Self = Self(3);
    /// The value is in `TriStateValue`.
    pub const TRISTATE: Self = Self(4);
}

/// One setting of the controller.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ConfigItemValue {
    /// Name of the setting, repeated.
    pub key: String,
    /// Which of the fields below holds the value.
    pub item_type: ConfigItemType,
    /// The value, if it is a number.
    pub int_value: u32,
    /// The value, if it is a text.
    pub str_value: String,
    /// The value, if it is a boolean.
    pub bool_value: bool,
    /// The value, if it is a switch of three positions: 0 none, 1 disabled, 2 enabled.
    pub tri_state_value: u8,
}
