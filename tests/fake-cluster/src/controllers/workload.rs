//! Shared by the controllers of pods: ownership of pods, and pods from a template.

use serde_json::{Value, json};

use super::World;
use crate::object::{self, at, set};
use crate::refusal::Refusal;
use crate::resources::{PODS, Resource};
use crate::store::{Object, Store};
use crate::write::{self, DeleteOptions, NewStatus};

/// Number of pods that one step creates at most; the next steps create the rest.
pub(super) const BURST: usize = 500;

/// The objects of a kind that `owner` controls.
pub(super) fn owned(store: &Store, kind: &'static Resource, owner: &Value) -> Vec<Object> {
    let places = store.dependents(object::uid(owner)).filter(|(resource, _)| *resource == kind);
    let objects = places.filter_map(|(_, key)| store.get(kind, &key.namespace, &key.name));
    objects.filter(|object| object::is_controlled_by(object, object::uid(owner))).cloned().collect()
}

/// True for a pod that counts: neither finished nor terminating.
pub(super) fn is_active(pod: &Object) -> bool {
    !object::is_terminating(pod) && !object::is_finished(pod)
}

/// A pod by `owner`'s template.
pub(super) fn pod_of(owner: &Value) -> Value {
    let template = at(owner, "/spec/template").cloned().unwrap_or_else(|| json!({}));
    let field = |pointer| at(&template, pointer).cloned().unwrap_or_else(|| json!({}));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": field("/metadata/labels"),
            "annotations": field("/metadata/annotations"),
            "ownerReferences": [object::controller_reference(owner)],
        },
        "spec": field("/spec"),
    })
}

pub(super) fn create_pod(
    store: &mut Store,
    owner: &Value,
    pod: Value,
    world: &World<'_>,
) -> Result<Object, Refusal> {
    write::create(store, PODS, object::namespace(owner), pod, NewStatus::ByRule, world.context())
}

/// Deletes a pod with its own grace; a pod that is gone already is no error.
pub(super) fn delete_pod(store: &mut Store, pod: &Value, world: &World<'_>) {
    let key = (object::namespace(pod), object::name(pod));
    drop(write::delete(store, PODS, key, &DeleteOptions::default(), world.context()));
}

/// The wanted number of replicas.
pub(super) fn replicas(owner: &Value) -> usize {
    usize::try_from(object::number(owner, "/spec/replicas").unwrap_or(1)).unwrap_or_default()
}

/// Writes numbers into a status, together with the generation they belong to.
pub(super) fn set_status(owner: &mut Value, counts: &[(&str, usize)]) {
    let generation = object::number(owner, "/metadata/generation").unwrap_or_default();
    set(owner, &["status", "observedGeneration"], generation);
    for (field, count) in counts {
        set(owner, &["status", field], *count);
    }
}
