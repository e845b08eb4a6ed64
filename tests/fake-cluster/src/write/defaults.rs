//! The values that the server fills in, by kind: only those that a drain or a controller reads.

use serde_json::{Value, json};

use crate::object::{self, at, set, set_default};
use crate::resources::{
    CLAIMS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICA_SETS, Resource, STATEFUL_SETS, VOLUMES,
};

/// Fills in a new object.
pub(super) fn fill(resource: &Resource, object: &mut Value) {
    omit_zeros(resource, object);
    if resource == PODS {
        fill_pod(object);
    } else if resource == NAMESPACES {
        let name = object::name(object).to_owned();
        set(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
        set(object, &["spec", "finalizers"], json!(["kubernetes"]));
        set_default(object, &["status", "phase"], "Active");
    } else if [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS].contains(&resource) {
        set_default(object, &["spec", "replicas"], 1);
        set_default(object, &["status", "replicas"], 0);
    } else if resource == DAEMON_SETS {
        set_default(object, &["status", "currentNumberScheduled"], 0);
    } else if resource == CLAIMS || resource == VOLUMES {
        set_default(object, &["status", "phase"], "Pending");
    }
}

/// Removes fields that the server leaves out of its JSON: those with their Go type's zero value and `omitempty`. Only
/// the cordon is handled.
pub(super) fn omit_zeros(resource: &Resource, object: &mut Value) {
    if resource == NODES && at(object, "/spec/unschedulable") == Some(&Value::Bool(false)) {
        object::remove(object, &["spec", "unschedulable"]);
    }
}

fn fill_pod(pod: &mut Value) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("priority", json!(0)),
    ] {
        set_default(pod, &["spec", field], value);
    }
    set_default(pod, &["status", "phase"], "Pending");
    set_default(pod, &["status", "qosClass"], "BestEffort");
}
