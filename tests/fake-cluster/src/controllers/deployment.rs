//! Keeps one `ReplicaSet` per template of a `Deployment`. A new template replaces the old pods at once; the rolling
//! update of real deployments is left out.

use std::time::Duration;

use serde_json::{Value, json};

use super::changes::Changes;
use super::workload::{owned, replicas, set_status};
use super::{Step, World};
use crate::object::{self, at};
use crate::resources::{DEPLOYMENTS, REPLICA_SETS, Resource};
use crate::store::{Object, Store};
use crate::write::{self, NewStatus};

/// Label that distinguishes the pods of two templates.
const HASH: &str = "pod-template-hash";

#[derive(Debug, Default)]
pub(super) struct Deployments {
    changes: Changes,
}

impl Step for Deployments {
    fn reads(&self) -> &'static [&'static Resource] {
        &[DEPLOYMENTS, REPLICA_SETS]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let deployments = self.changes.owners(store, DEPLOYMENTS, None);
        for deployment in deployments.iter().filter(|deployment| !object::is_terminating(deployment)) {
            let sets = owned(store, REPLICA_SETS, deployment);
            roll_out(store, deployment, &sets, world);
            report(store, deployment, &sets);
        }
        None
    }
}

fn roll_out(store: &mut Store, deployment: &Object, sets: &[Object], world: &World<'_>) {
    let wanted = replicas(deployment);
    let current = format!("{}-{}", object::name(deployment), template_hash(deployment));
    for set in sets {
        let replicas = if object::name(set) == current { wanted } else { 0 };
        drop(write::edit(store, REPLICA_SETS, object::namespace(set), object::name(set), |set| {
            object::set(set, &["spec", "replicas"], replicas);
        }));
    }
    if sets.iter().any(|set| object::name(set) == current) {
        return;
    }
    let new = replica_set(deployment, &current);
    // A terminating namespace refuses the set; the next change tries again.
    drop(write::create(
        store,
        REPLICA_SETS,
        object::namespace(deployment),
        new,
        NewStatus::ByRule,
        world.context(),
    ));
}

fn replica_set(deployment: &Value, name: &str) -> Value {
    let hash = template_hash(deployment);
    let field = |pointer| at(deployment, pointer).cloned().unwrap_or_else(|| json!({}));
    let mut set = json!({
        "metadata": {
            "name": name,
            "labels": field("/spec/template/metadata/labels"),
            "ownerReferences": [object::controller_reference(deployment)],
        },
        "spec": {
            "replicas": replicas(deployment),
            "selector": field("/spec/selector"),
            "template": field("/spec/template"),
        },
    });
    for path in [
        &["metadata", "labels", HASH][..],
        &["spec", "selector", "matchLabels", HASH],
        &["spec", "template", "metadata", "labels", HASH],
    ] {
        object::set(&mut set, path, hash.as_str());
    }
    set
}

/// Eight hexadecimal digits that depend on the template alone (FNV-1a).
fn template_hash(deployment: &Value) -> String {
    let template = at(deployment, "/spec/template").map(Value::to_string).unwrap_or_default();
    let hash = template
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

fn report(store: &mut Store, deployment: &Object, sets: &[Object]) {
    let sum = |field: &str| -> usize {
        let counts = sets.iter().filter_map(|set| object::number(set, &format!("/status/{field}")));
        usize::try_from(counts.sum::<i64>()).unwrap_or_default()
    };
    let (all, ready) = (sum("replicas"), sum("readyReplicas"));
    let counts = [
        ("replicas", all),
        ("updatedReplicas", all),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("unavailableReplicas", replicas(deployment).saturating_sub(ready)),
    ];
    drop(write::edit(
        store,
        DEPLOYMENTS,
        object::namespace(deployment),
        object::name(deployment),
        |deployment| {
            set_status(deployment, &counts);
        },
    ));
}
