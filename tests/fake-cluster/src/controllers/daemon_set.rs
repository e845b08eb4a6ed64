//! Keeps one pod of each `DaemonSet` on every node that fits.

use std::time::Duration;

use serde_json::{Value, json};

use super::changes::Changes;
use super::placement::{is_selected_by, is_tainted_for};
use super::workload::{create_pod, delete_pod, owned, pod_of, set_status};
use super::{Step, World};
use crate::object::{self, items, set, text};
use crate::resources::{DAEMON_SETS, NODES, PODS, Resource};
use crate::store::{Object, Store};
use crate::write;

/// Taints that the pods of a `DaemonSet` tolerate by default: a cordon, and those of a node that has problems.
const TOLERATED: [(&str, &str); 5] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

#[derive(Debug, Default)]
pub(super) struct DaemonSets {
    changes: Changes,
}

impl Step for DaemonSets {
    fn reads(&self) -> &'static [&'static Resource] {
        &[DAEMON_SETS, PODS, NODES]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let sets = self.changes.owners(store, DAEMON_SETS, Some(NODES));
        let nodes: Vec<Object> = store.objects(NODES).cloned().collect();
        for set in sets.iter().filter(|set| !object::is_terminating(set)) {
            let pods = owned(store, PODS, set);
            place(store, set, &pods, &nodes, world);
        }
        None
    }
}

fn place(store: &mut Store, owner: &Object, pods: &[Object], nodes: &[Object], world: &World<'_>) {
    let pod = daemon_pod(owner);
    let is_wanted = |node: &Value| is_selected_by(node, &pod) && !is_tainted_for(node, &pod);
    let wanted: Vec<&str> =
        nodes.iter().filter(|node| is_wanted(node)).map(|node| object::name(node)).collect();
    for existing in pods.iter().filter(|pod| !object::is_terminating(pod)) {
        if object::is_finished(existing) || !wanted.contains(&target(existing)) {
            delete_pod(store, existing, world);
        }
    }
    for node in &wanted {
        if !pods.iter().any(|pod| target(pod) == *node) {
            // A terminating namespace refuses the pod; the next change tries again.
            drop(create_pod(store, owner, pod_for(&pod, node), world));
        }
    }
    let ready = pods.iter().filter(|pod| object::is_ready(pod)).count();
    let counts = [
        ("desiredNumberScheduled", wanted.len()),
        ("currentNumberScheduled", pods.len().min(wanted.len())),
        ("updatedNumberScheduled", pods.len().min(wanted.len())),
        ("numberReady", ready),
        ("numberAvailable", ready),
        ("numberMisscheduled", 0),
    ];
    drop(write::edit(store, DAEMON_SETS, object::namespace(owner), object::name(owner), |owner| {
        set_status(owner, &counts);
    }));
}

/// The pod without its node.
fn daemon_pod(owner: &Value) -> Value {
    let mut pod = pod_of(owner);
    let mut tolerations = items(&pod, "/spec/tolerations").to_vec();
    let own =
        TOLERATED.iter().map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}));
    tolerations.extend(own);
    set(&mut pod, &["spec", "tolerations"], tolerations);
    set(&mut pod, &["metadata", "generateName"], format!("{}-", object::name(owner)));
    pod
}

/// The pod for one node; the scheduler binds it there.
fn pod_for(pod: &Value, node: &str) -> Value {
    let mut pod = pod.clone();
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
    set(&mut pod, &["spec", "affinity", "nodeAffinity"], affinity);
    pod
}

/// The node that a pod is bound to, or is meant for.
fn target(pod: &Value) -> &str {
    match text(pod, "/spec/nodeName") {
        "" => text(
            pod,
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0\
             /matchFields/0/values/0",
        ),
        bound => bound,
    }
}
