//! Pods, Nodes and PodDisruptionBudgets as the API server sends them; only the fields that are needed are read. The
//! objects that volumes depend on are in [`crate::storage`].
//!
//! Most of an object is not needed by any decision: containers, managed fields, conditions. Skipping that keeps a node
//! of a thousand pods at a few MiB instead of some dozens, and an oddity in a part that is not needed cannot make a
//! whole list unreadable.

use std::borrow::Cow;
use std::collections::BTreeMap;

use drain::cordon::{CORDON_REASON, CORDONED_BY, SLOTS_GROUP};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::failure::ApiFailure;
use crate::node_commands::{NodeCommand, STATE};
use crate::operation::Operation;

/// The kubelet's own static pods carry this annotation.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The fields of a Pod that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Pod {
    #[serde(default, deserialize_with = "needed_metadata")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<PodSpec>,
    pub(crate) status: Option<PodStatus>,
}

/// The fields of a Node that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Node {
    #[serde(default, deserialize_with = "needed_metadata")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<NodeSpec>,
    pub(crate) status: Option<NodeStatus>,
}

/// The fields of a PodDisruptionBudget that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Budget {
    #[serde(default, deserialize_with = "needed_metadata")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<BudgetSpec>,
    pub(crate) status: Option<BudgetStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) termination_grace_period_seconds: Option<i64>,
    pub(crate) volumes: Option<Vec<PodVolume>>,
    pub(crate) priority: Option<i32>,
    pub(crate) tolerations: Option<Vec<Toleration>>,
    pub(crate) node_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodVolume {
    pub(crate) name: Option<String>,
    pub(crate) empty_dir: Option<IgnoredAny>,
    pub(crate) persistent_volume_claim: Option<ClaimName>,
    pub(crate) ephemeral: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimName {
    pub(crate) claim_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Toleration {
    pub(crate) key: Option<String>,
    pub(crate) operator: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) effect: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    pub(crate) phase: Option<String>,
    pub(crate) conditions: Option<Vec<Condition>>,
    #[serde(rename = "containerStatuses")]
    pub(crate) containers: Option<Vec<ContainerStatus>>,
    #[serde(rename = "initContainerStatuses")]
    pub(crate) init_containers: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStatus {
    pub(crate) state: Option<ContainerState>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) running: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    pub(crate) unschedulable: Option<bool>,
    pub(crate) taints: Option<Vec<Taint>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Taint {
    pub(crate) key: Option<String>,
    pub(crate) effect: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatus {
    pub(crate) conditions: Option<Vec<Condition>>,
    pub(crate) node_info: Option<NodeInfo>,
    pub(crate) volumes_attached: Option<Vec<AttachedVolume>>,
    pub(crate) volumes_in_use: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AttachedVolume {
    pub(crate) name: Option<String>,
}

/// A condition of any object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    /// `None` also for a time that cannot be read: any writer of a status may leave one, and the object still counts.
    #[serde(deserialize_with = "readable_time")]
    pub(crate) last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeInfo {
    #[serde(rename = "bootID")]
    pub(crate) boot_id: Option<String>,
    #[serde(rename = "machineID")]
    pub(crate) machine_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BudgetSpec {
    pub(crate) selector: Option<LabelSelector>,
    /// Any value, so that an odd one makes no list unreadable.
    pub(crate) min_available: Option<Value>,
    pub(crate) max_unavailable: Option<Value>,
    pub(crate) unhealthy_pod_eviction_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BudgetStatus {
    pub(crate) observed_generation: Option<i64>,
    pub(crate) expected_pods: Option<i32>,
    pub(crate) current_healthy: Option<i32>,
    pub(crate) desired_healthy: Option<i32>,
    pub(crate) disruptions_allowed: Option<i32>,
    pub(crate) disrupted_pods: Option<BTreeMap<String, Value>>,
    pub(crate) conditions: Option<Vec<Condition>>,
}

impl Condition {
    /// True if the condition is of this type.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    /// Its status, `True`, `False` or `Unknown`; empty without one.
    pub(crate) fn status(&self) -> &str {
        self.status.as_deref().unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<Annotations>,
    owner_references: Option<Vec<OwnerReference>>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
    #[serde(rename = "ebb.dev/cordoned-by")]
    cordoned_by: Option<String>,
    #[serde(rename = "ebb.dev/cordon-reason")]
    cordon_reason: Option<String>,
    #[serde(rename = "ebb.dev/slots-group")]
    slots_group: Option<String>,
    #[serde(rename = "ebb.dev/reboot")]
    reboot: Option<String>,
    #[serde(rename = "ebb.dev/shutdown")]
    shutdown: Option<String>,
    #[serde(rename = "ebb.dev/update")]
    update: Option<String>,
    #[serde(rename = "ebb.dev/drain")]
    drain: Option<String>,
    #[serde(rename = "ebb.dev/state")]
    state: Option<String>,
}

pub(crate) fn readable_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let time = Value::deserialize(deserializer)?;
    Ok(time.as_str().and_then(|time| time.parse().ok()))
}

pub(crate) fn needed_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let metadata = Option::<Metadata>::deserialize(deserializer)?.unwrap_or_default();
    let annotations = metadata.annotations.unwrap_or_default();
    let annotations = [
        (MIRROR, annotations.mirror),
        (CORDONED_BY, annotations.cordoned_by),
        (CORDON_REASON, annotations.cordon_reason),
        (SLOTS_GROUP, annotations.slots_group),
        (NodeCommand::Reboot.key(), annotations.reboot),
        (NodeCommand::Shutdown.key(), annotations.shutdown),
        (NodeCommand::Update.key(), annotations.update),
        (NodeCommand::Drain.key(), annotations.drain),
        (STATE, annotations.state),
    ];
    let annotations: BTreeMap<_, _> =
        annotations.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    Ok(ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        labels: metadata.labels,
        annotations: (!annotations.is_empty()).then_some(annotations),
        owner_references: metadata.owner_references,
        deletion_timestamp: metadata.deletion_timestamp,
        deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
        finalizers: metadata.finalizers,
        ..ObjectMeta::default()
    })
}

/// The version that a change of the object has to name. Without it the change would overwrite what other clients did
/// meanwhile; so would an empty version, and 0.
pub(crate) fn version<'a>(
    operation: &Operation<'_>,
    metadata: &'a ObjectMeta,
) -> Result<&'a str, ApiFailure> {
    let version = metadata.resource_version.as_deref().filter(|version| !matches!(*version, "" | "0"));
    version
        .ok_or_else(|| ApiFailure::other(format!("cannot {operation}: the server sent no resourceVersion")))
}

/// Tells kube where the API server keeps objects of a type.
macro_rules! resource {
    ($type:ty, $scope:ty, $kind:literal, $group:literal, $version:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use resource;

resource!(Pod, NamespaceResourceScope, "Pod", "", "v1", "pods");
resource!(Node, ClusterResourceScope, "Node", "", "v1", "nodes");
resource!(Budget, NamespaceResourceScope, "PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets");
