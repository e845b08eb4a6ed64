//! The objects of the cases. Their annotations say the same to both kubelets, the fake's and kwok's.

use control_plane::objects::{DELETE_DELAY, POOL, READY_DELAY};
use fake_cluster::{GONE_AFTER, READY_AFTER};
use serde_json::{Value, json};

/// Value of the label `app` of all pods of a case; the budgets of the case select it.
pub const APP: &str = "x";

/// How a kubelet handles a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelet {
    /// The pod is Ready after 10 ms and gone 10 ms after its deletion.
    Quick,
    /// The pod is Ready after 10 ms; once deleted it does not end.
    NeverEnds,
    /// The pod neither starts nor ends.
    NeverStarts,
}

impl Kubelet {
    /// The annotations of such a pod.
    pub fn annotations(self) -> Value {
        // `never` as the time to Ready means a pod that runs without ever being Ready.
        const SOON: (&str, &str) = ("10ms", "10");
        const NEVER_STARTS: (&str, &str) = ("1000h", "3600000000");
        const NEVER_ENDS: (&str, &str) = ("1000h", "never");
        let (ready, gone) = match self {
            Self::Quick => (SOON, SOON),
            Self::NeverEnds => (SOON, NEVER_ENDS),
            Self::NeverStarts => (NEVER_STARTS, NEVER_ENDS),
        };
        json!({READY_DELAY: ready.0, READY_AFTER: ready.1, DELETE_DELAY: gone.0, GONE_AFTER: gone.1})
    }
}

/// A namespace.
pub fn namespace(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// A node that is Ready from the start and has room; `pool` is its label for the scheduler.
pub fn node(name: &str, pool: &str) -> Value {
    let room = json!({"cpu": "1000", "memory": "1Ti", "pods": "1000"});
    json!({
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, POOL: pool},
            // As a kubelet writes it: without this annotation no controller attaches volumes.
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "capacity": room, "allocatable": room,
        },
    })
}

/// A pod that its creator binds to a node. Its grace period is 30 s.
pub fn bound_pod(name: &str, node: &str, kubelet: Kubelet) -> Value {
    pod(name, kubelet, &[("nodeName", node)])
}

/// A pod that waits for the scheduler, which may put it on any node of the pool.
pub fn pending_pod(name: &str, pool: &str) -> Value {
    let mut pod = pod(name, Kubelet::Quick, &[]);
    set(&mut pod, "/spec", "nodeSelector", json!({POOL: pool}));
    pod
}

/// A pod that waits for a scheduler that does not exist: it never changes.
pub fn abandoned_pod(name: &str) -> Value {
    pod(name, Kubelet::NeverStarts, &[("schedulerName", "nobody")])
}

/// A Deployment of the pods with label `app=NAME`.
pub fn deployment(name: &str, replicas: u32, pool: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": template_in(pool, name),
    }})
}

/// A StatefulSet without volumes.
pub fn stateful_set(name: &str, replicas: u32, pool: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": name}}, "template": template_in(pool, name),
    }})
}

/// A DaemonSet on the nodes of a pool.
pub fn daemon_set(name: &str, pool: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}}, "template": template_in(pool, name),
    }})
}

/// A budget for the pods with label `app=APP`; `limit` such as `{"minAvailable": 1}`.
pub fn budget(name: &str, app: &str, limit: &Value) -> Value {
    let mut budget = json!({"metadata": {"name": name}, "spec": limit});
    set(&mut budget, "/spec", "selector", json!({"matchLabels": {"app": app}}));
    budget
}

/// A `ValidatingAdmissionPolicy` that forbids all evictions in a namespace, and its binding, both of the same name.
pub fn policy_against_evictions(namespace: &str, why: &str) -> [Value; 2] {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"],
    });
    let policy = json!({"metadata": {"name": namespace}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": why, "reason": "Forbidden"}],
    }});
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let binding = json!({"metadata": {"name": namespace}, "spec": {
        "policyName": namespace, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": here},
    }});
    [policy, binding]
}

fn pod(name: &str, kubelet: Kubelet, spec: &[(&str, &str)]) -> Value {
    let mut pod = template(APP, kubelet);
    set(&mut pod, "/metadata", "name", json!(name));
    for (field, value) in spec {
        set(&mut pod, "/spec", field, json!(value));
    }
    pod
}

fn template_in(pool: &str, app: &str) -> Value {
    let mut template = template(app, Kubelet::Quick);
    set(&mut template, "/spec", "nodeSelector", json!({POOL: pool}));
    template
}

fn template(app: &str, kubelet: Kubelet) -> Value {
    json!({
        "metadata": {"labels": {"app": app}, "annotations": kubelet.annotations()},
        "spec": {"containers": [{"name": "main", "image": "main"}]},
    })
}

fn set(object: &mut Value, pointer: &str, field: &str, value: Value) {
    if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.insert(field.to_owned(), value);
    }
}
