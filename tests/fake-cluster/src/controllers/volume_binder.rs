//! Creates a volume for each pending claim, creates the claims of generic ephemeral volumes, and removes a volume
//! together with its claim.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::changes::Changes;
use super::{Step, World};
use crate::object::{self, at, items, set, text};
use crate::resources::{CLAIMS, PODS, Resource, VOLUMES};
use crate::store::{Key, Object, Store};
use crate::write::{self, DeleteOptions, NewStatus};

/// The driver of the volumes.
const DRIVER: &str = "csi.fake";

#[derive(Debug, Default)]
pub(super) struct VolumeBinder {
    changes: Changes,
}

impl Step for VolumeBinder {
    fn reads(&self) -> &'static [&'static Resource] {
        &[CLAIMS, VOLUMES, PODS]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let pods = self.changes.keys(store, PODS);
        make_ephemeral_claims(store, &pods, world);
        let claims: Vec<Object> = store.objects(CLAIMS).cloned().collect();
        for claim in claims.iter().filter(|claim| text(claim, "/status/phase") != "Bound") {
            bind(store, claim, world);
        }
        let left: Vec<Object> =
            store.objects(VOLUMES).filter(|volume| is_left(store, volume)).cloned().collect();
        for volume in &left {
            let key = ("", object::name(volume));
            drop(write::delete(store, VOLUMES, key, &DeleteOptions::default(), world.context()));
        }
        None
    }
}

fn make_ephemeral_claims(store: &mut Store, pods: &BTreeSet<Key>, world: &World<'_>) {
    let mut missing = Vec::new();
    let pods = pods.iter().filter_map(|key| store.get(PODS, &key.namespace, &key.name));
    for pod in pods.filter(|pod| !object::is_terminating(pod)) {
        for volume in items(pod, "/spec/volumes") {
            let Some(template) = at(volume, "/ephemeral/volumeClaimTemplate") else { continue };
            let name = format!("{}-{}", object::name(pod), text(volume, "/name"));
            if store.get(CLAIMS, object::namespace(pod), &name).is_none() {
                let owner = object::controller_reference(pod);
                let metadata = json!({"name": name, "ownerReferences": [owner]});
                let claim = json!({"metadata": metadata, "spec": template.get("spec")});
                missing.push((object::namespace(pod).to_owned(), claim));
            }
        }
    }
    for (namespace, claim) in missing {
        drop(write::create(store, CLAIMS, &namespace, claim, NewStatus::ByRule, world.context()));
    }
}

fn bind(store: &mut Store, claim: &Object, world: &World<'_>) {
    let volume = match text(claim, "/spec/volumeName") {
        "" => format!("pvc-{}", object::uid(claim)),
        named => named.to_owned(),
    };
    if store.get(VOLUMES, "", &volume).is_none() {
        if !text(claim, "/spec/volumeName").is_empty() {
            return; // It waits for the volume that it names.
        }
        let new = new_volume(claim, &volume);
        drop(write::create(store, VOLUMES, "", new, NewStatus::ByRule, world.context()));
    }
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": object::namespace(claim),
        "name": object::name(claim), "uid": object::uid(claim),
    });
    drop(write::edit(store, VOLUMES, "", &volume, |volume| {
        set(volume, &["spec", "claimRef"], reference);
        set(volume, &["status", "phase"], "Bound");
    }));
    drop(write::edit(store, CLAIMS, object::namespace(claim), object::name(claim), |claim| {
        set(claim, &["spec", "volumeName"], volume.as_str());
        set(claim, &["status", "phase"], "Bound");
    }));
}

fn new_volume(claim: &Value, name: &str) -> Value {
    let field = |pointer| at(claim, pointer).cloned();
    json!({
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {
            "accessModes": field("/spec/accessModes"),
            "capacity": field("/spec/resources/requests"),
            "storageClassName": text(claim, "/spec/storageClassName"),
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": DRIVER, "volumeHandle": name},
        },
    })
}

/// True if the volume was created for a claim that is deleted.
fn is_left(store: &Store, volume: &Value) -> bool {
    let claim = text(volume, "/spec/claimRef/uid");
    let is_ours = object::annotation(volume, "pv.kubernetes.io/provisioned-by").is_some();
    is_ours && !claim.is_empty() && !store.has_uid(claim) && !object::is_terminating(volume)
}
