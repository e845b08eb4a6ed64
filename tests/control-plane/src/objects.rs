//! The objects most tests need, as JSON for [`crate::ControlPlane::apply`].
//!
//! What kwok does with an object can be changed by annotations on it; values are Go durations, for example `500ms`:
//!
//! | annotation | on | default |
//! |---|---|---|
//! | [`READY_DELAY`] | pod: from binding to Ready | 200 ms |
//! | [`DELETE_DELAY`] | pod: from deletion to gone | 1 s |
//! | [`COMPLETE_AFTER`] | pod: from running to Succeeded | never |
//! | [`DETACH_DELAY`] | VolumeAttachment: from deletion to gone | 2 s |
//!
//! A pod's delay starts again when the pod changes meanwhile. A VolumeAttachment is created by the controller-manager,
//! so its annotation is set after it appeared. The name of a driver can also set the times: `detach-10s.csi.test` takes
//! 10 s, and `attach-5s.csi.test` attaches after 5 s instead of at once. kwok never sets a node's `volumesInUse`.

use serde_json::{Value, json};

/// Annotation of a pod: time from binding to Ready.
pub const READY_DELAY: &str = "simulate.ebb.dev/ready-delay";
/// Annotation of a pod: time from deletion to its end.
pub const DELETE_DELAY: &str = "simulate.ebb.dev/delete-delay";
/// Annotation of a pod: time after which it has Succeeded.
pub const COMPLETE_AFTER: &str = "simulate.ebb.dev/complete-after";
/// Annotation of a VolumeAttachment: time from deletion to its end.
pub const DETACH_DELAY: &str = "simulate.ebb.dev/detach-delay";
/// Label of a node: the pool it belongs to. The workloads below stay in the pool that has their namespace's name.
pub const POOL: &str = "simulate.ebb.dev/pool";

/// A namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A node of a pool. Its annotation makes the controller-manager attach volumes to it, as the annotation of a kubelet
/// does.
pub fn node(name: &str, pool: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", POOL: pool},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
    })
}

/// A Deployment whose pods are labelled `app=<name>`.
pub fn deployment(namespace: &str, name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(namespace)},
        },
    })
}

/// A StatefulSet whose pods are labelled `app=<name>`; pod `i` mounts the claim `data-<name>-<i>` at `/data`.
///
/// Make the claims and their volumes with [`volume`] first.
pub fn stateful_set(namespace: &str, name: &str, replicas: u32) -> Value {
    let mut spec = pod_spec(namespace);
    if let Some(container) = spec.pointer_mut("/containers/0").and_then(Value::as_object_mut) {
        container.insert("volumeMounts".to_owned(), json!([{"name": "data", "mountPath": "/data"}]));
    }
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec("")}],
        },
    })
}

/// A pod without an owner, bound by the scheduler.
pub fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": pod_spec(namespace),
    })
}

/// A PodDisruptionBudget for the pods labelled `app=<name>`; `limit` is `("maxUnavailable", 1)`, for example.
pub fn disruption_budget(namespace: &str, name: &str, limit: (&str, u32)) -> Value {
    let (field, number) = limit;
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {field: number, "selector": {"matchLabels": {"app": name}}},
    })
}

/// A CSI driver whose volumes are attached and detached.
pub fn csi_driver(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": name}, "spec": {"attachRequired": true, "podInfoOnMount": false},
    })
}

/// The CSINode of a node: the node has these CSI drivers.
pub fn csi_node(node: &str, drivers: &[&str]) -> Value {
    let drivers: Vec<Value> = drivers.iter().map(|driver| json!({"name": driver, "nodeID": node})).collect();
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": node}, "spec": {"drivers": drivers},
    })
}

/// A volume of a CSI driver and the claim that it is bound to; the volume is called `<namespace>-<claim>`.
pub fn volume(namespace: &str, claim: &str, driver: &str) -> [Value; 2] {
    let name = format!("{namespace}-{claim}");
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"namespace": namespace, "name": claim},
            "csi": {"driver": driver, "volumeHandle": name},
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace}, "spec": claim_spec(&name),
    });
    [volume, claim]
}

fn pod_spec(pool: &str) -> Value {
    json!({
        "nodeSelector": {POOL: pool},
        "containers": [{"name": "main", "image": "main"}],
    })
}

fn claim_spec(volume: &str) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": volume,
    })
}
