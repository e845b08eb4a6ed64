//! Keeps the numbered pods of each `StatefulSet`, and the claims they mount.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::changes::Changes;
use super::workload::{create_pod, delete_pod, owned, pod_of, replicas, set_status};
use super::{Step, World};
use crate::object::{self, at, items, set, text};
use crate::resources::{CLAIMS, PODS, Resource, STATEFUL_SETS};
use crate::store::{Object, Store};
use crate::write::{self, NewStatus};

#[derive(Debug, Default)]
pub(super) struct StatefulSets {
    changes: Changes,
}

impl Step for StatefulSets {
    fn reads(&self) -> &'static [&'static Resource] {
        &[STATEFUL_SETS, PODS]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let sets = self.changes.owners(store, STATEFUL_SETS, None);
        for set in sets.iter().filter(|set| !object::is_terminating(set)) {
            let pods = owned(store, PODS, set);
            scale(store, set, &pods, world);
            report(store, set, &pods);
        }
        None
    }
}

/// Creates missing pods, the lowest number first, each when the previous one is ready (all at once with the `Parallel`
/// policy); deletes surplus and finished pods.
fn scale(store: &mut Store, owner: &Object, pods: &[Object], world: &World<'_>) {
    let is_parallel = text(owner, "/spec/podManagementPolicy") == "Parallel";
    let by_name: BTreeMap<&str, &Object> = pods.iter().map(|pod| (object::name(pod), pod)).collect();
    for number in 0..replicas(owner) {
        let name = format!("{}-{number}", object::name(owner));
        let existing = by_name.get(name.as_str());
        let is_ready = existing.is_some_and(|pod| object::is_ready(pod) && !object::is_terminating(pod));
        match existing {
            Some(pod) if object::is_finished(pod) => delete_pod(store, pod, world),
            Some(_) => {}
            // The name may belong to a foreign pod, or the namespace may be terminating: the next change tries again.
            None => drop(create(store, owner, number, &name, world)),
        }
        if !is_ready && !is_parallel {
            return;
        }
    }
    let surplus = |pod: &&Object| ordinal(owner, pod).is_none_or(|number| number >= replicas(owner));
    if let Some(last) = pods.iter().filter(surplus).max_by_key(|pod| ordinal(owner, pod))
        && !object::is_terminating(last)
    {
        delete_pod(store, last, world);
    }
}

fn ordinal(owner: &Value, pod: &Value) -> Option<usize> {
    object::name(pod).strip_prefix(object::name(owner))?.strip_prefix('-')?.parse().ok()
}

fn create(
    store: &mut Store,
    owner: &Object,
    number: usize,
    name: &str,
    world: &World<'_>,
) -> Result<Object, crate::Refusal> {
    let mut pod = pod_of(owner);
    set(&mut pod, &["metadata", "name"], name);
    set(&mut pod, &["metadata", "labels", "statefulset.kubernetes.io/pod-name"], name);
    set(&mut pod, &["metadata", "labels", "apps.kubernetes.io/pod-index"], number.to_string());
    let mut volumes = items(&pod, "/spec/volumes").to_vec();
    for template in items(owner, "/spec/volumeClaimTemplates") {
        let volume = object::name(template);
        let claim = format!("{volume}-{name}");
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
        // If the claim of a former pod of this name exists, it is used again.
        drop(create_claim(store, owner, template, &claim, world));
    }
    set(&mut pod, &["spec", "volumes"], volumes);
    create_pod(store, owner, pod, world)
}

fn create_claim(
    store: &mut Store,
    owner: &Object,
    template: &Value,
    name: &str,
    world: &World<'_>,
) -> Result<Object, crate::Refusal> {
    let claim = json!({
        "metadata": {"name": name, "labels": at(owner, "/spec/selector/matchLabels")},
        "spec": template.get("spec"),
    });
    write::create(store, CLAIMS, object::namespace(owner), claim, NewStatus::ByRule, world.context())
}

fn report(store: &mut Store, owner: &Object, pods: &[Object]) {
    let ready = pods.iter().filter(|pod| object::is_ready(pod) && !object::is_terminating(pod)).count();
    let counts = [
        ("replicas", pods.len()),
        ("currentReplicas", pods.len()),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
    ];
    drop(write::edit(store, STATEFUL_SETS, object::namespace(owner), object::name(owner), |owner| {
        set_status(owner, &counts);
    }));
}
