//! Keeps as many pods as each `ReplicaSet` wants.

use std::time::Duration;

use super::changes::Changes;
use super::workload::{BURST, create_pod, delete_pod, is_active, owned, pod_of, replicas, set_status};
use super::{Step, World};
use crate::object::{self, set};
use crate::resources::{PODS, REPLICA_SETS, Resource};
use crate::store::{Object, Store};
use crate::write;

#[derive(Debug, Default)]
pub(super) struct ReplicaSets {
    changes: Changes,
}

impl Step for ReplicaSets {
    fn reads(&self) -> &'static [&'static Resource] {
        &[REPLICA_SETS, PODS]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let sets = self.changes.owners(store, REPLICA_SETS, None);
        for set in sets.iter().filter(|set| !object::is_terminating(set)) {
            let pods = owned(store, PODS, set);
            let active: Vec<&Object> = pods.iter().filter(|pod| is_active(pod)).collect();
            scale(store, set, &active, world);
            report(store, set, &active);
        }
        None
    }
}

fn scale(store: &mut Store, owner: &Object, active: &[&Object], world: &World<'_>) {
    let wanted = replicas(owner);
    for _ in active.len()..wanted.min(active.len() + BURST) {
        let mut pod = pod_of(owner);
        set(&mut pod, &["metadata", "generateName"], format!("{}-", object::name(owner)));
        if create_pod(store, owner, pod, world).is_err() {
            // Most likely the namespace is terminating. The next change tries again.
            break;
        }
    }
    let mut surplus = active.to_vec();
    // Pods that are not ready are deleted first.
    surplus.sort_by_key(|pod| object::is_ready(pod));
    for pod in surplus.iter().take(active.len().saturating_sub(wanted)) {
        delete_pod(store, pod, world);
    }
}

fn report(store: &mut Store, owner: &Object, active: &[&Object]) {
    let ready = active.iter().filter(|pod| object::is_ready(pod)).count();
    let counts = [
        ("replicas", active.len()),
        ("fullyLabeledReplicas", active.len()),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
    ];
    drop(write::edit(store, REPLICA_SETS, object::namespace(owner), object::name(owner), |owner| {
        set_status(owner, &counts);
    }));
}
