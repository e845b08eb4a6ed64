//! Small objects for tests and demonstrations, as plain JSON: change them as you need, then
//! [`apply`](crate::FakeCluster::apply) them. Namespaced objects without a namespace go to `default`.

use serde_json::{Value, json};

use crate::cluster::FakeCluster;
use crate::object::set;
use crate::refusal::Refusal;

/// Annotation: milliseconds from a pod's binding to Ready; `never` for a pod that runs but does not become ready.
pub const READY_AFTER: &str = "fake-cluster/ready-after-ms";

/// Annotation: milliseconds from a pod's deletion to its end, unless its grace is shorter; `never` for a pod whose
/// kubelet does not end it.
pub const GONE_AFTER: &str = "fake-cluster/gone-after-ms";

/// Annotation: milliseconds from Running to Succeeded.
pub const FINISH_AFTER: &str = "fake-cluster/finish-after-ms";

/// Annotation: the node that the scheduler chooses for a pod if the pod fits there.
pub const PREFER_NODE: &str = "fake-cluster/prefer-node";

/// A node that is Ready from the start.
pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    })
}

/// The `metadata.managedFields` of a Node that `manager` has cordoned.
pub fn managed_cordon(manager: &str) -> Value {
    let fields = json!({"f:spec": {"f:unschedulable": {}}});
    json!([{"manager": manager, "operation": "Update", "fieldsV1": fields}])
}

/// A pod without a controller, with the label `app`, bound to `node`; if `node` is empty, it has to be scheduled.
pub fn pod(name: &str, node: &str) -> Value {
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}});
    set(&mut pod, &["spec"], pod_spec());
    if !node.is_empty() {
        set(&mut pod, &["spec", "nodeName"], node);
    }
    pod
}

/// A deployment whose pods have the label `app` with its name and start on `node` if they fit there (on any node if it
/// is empty).
pub fn deployment(name: &str, replicas: u32, node: &str) -> Value {
    workload("Deployment", name, replicas, node)
}

/// As [`deployment`], with numbered pods.
pub fn stateful_set(name: &str, replicas: u32, node: &str) -> Value {
    let mut set_object = workload("StatefulSet", name, replicas, node);
    set(&mut set_object, &["spec", "serviceName"], name);
    set_object
}

/// As [`stateful_set`]; each pod has a claim `data-NAME-N` for a volume that only one node may have at a time.
pub fn stateful_set_with_volumes(name: &str, replicas: u32, node: &str) -> Value {
    let mut set_object = stateful_set(name, replicas, node);
    let template = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    set(&mut set_object, &["spec", "volumeClaimTemplates"], json!([template]));
    set_object
}

/// A daemon set: one pod on every node.
pub fn daemon_set(name: &str) -> Value {
    let mut set_object = workload("DaemonSet", name, 0, "");
    crate::object::remove(&mut set_object, &["spec", "replicas"]);
    set_object
}

/// The limit of a budget: a number, or a percentage such as `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit<'a> {
    /// At least this many pods must stay healthy.
    MinAvailable(&'a str),
    /// At most this many pods may be missing.
    MaxUnavailable(&'a str),
}

/// A budget with the name `name` for the pods with the label `app` = `name`.
pub fn budget(name: &str, limit: Limit<'_>) -> Value {
    let (field, text) = match limit {
        Limit::MinAvailable(text) => ("minAvailable", text),
        Limit::MaxUnavailable(text) => ("maxUnavailable", text),
    };
    let value = text.parse::<u32>().map_or_else(|_| json!(text), |number| json!(number));
    let mut budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}},
    });
    set(&mut budget, &["spec", field], value);
    budget
}

fn workload(kind: &str, name: &str, replicas: u32, node: &str) -> Value {
    let mut workload = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    });
    if !node.is_empty() {
        set(&mut workload, &["spec", "template", "metadata", "annotations", PREFER_NODE], node);
    }
    workload
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "main", "image": "example.invalid/main:1"}]})
}

/// Shortcuts that apply one of the objects above to `default`.
impl FakeCluster {
    /// Applies [`node`].
    pub fn node(&self, name: &str) -> Result<Value, Refusal> {
        self.apply(node(name))
    }

    /// Applies [`pod`].
    pub fn pod(&self, name: &str, node: &str) -> Result<Value, Refusal> {
        self.apply(pod(name, node))
    }

    /// Applies [`deployment`].
    pub fn deployment(&self, name: &str, replicas: u32, node: &str) -> Result<Value, Refusal> {
        self.apply(deployment(name, replicas, node))
    }

    /// Applies [`stateful_set`].
    pub fn stateful_set(&self, name: &str, replicas: u32, node: &str) -> Result<Value, Refusal> {
        self.apply(stateful_set(name, replicas, node))
    }

    /// Applies [`daemon_set`].
    pub fn daemon_set(&self, name: &str) -> Result<Value, Refusal> {
        self.apply(daemon_set(name))
    }

    /// Applies [`budget`].
    pub fn budget(&self, name: &str, limit: Limit<'_>) -> Result<Value, Refusal> {
        self.apply(budget(name, limit))
    }
}
