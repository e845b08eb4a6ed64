//! Plays the attach-detach controller and the attachers of the drivers: volumes follow their pods. The order is the
//! measured one: a volume is removed from `volumesAttached` first, then its `VolumeAttachment` is deleted, and only the
//! end of that object is the detach.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::changes::Changes;
use super::volumes::{Volume, attachable, attachable_volumes, claims};
use super::{Step, World, earlier};
use crate::object::{self, items, set, text};
use crate::resources::{ATTACHMENTS, CLAIMS, NODES, PODS, Resource, VOLUMES};
use crate::store::{Key, Object, Store};
use crate::write::{self, DeleteOptions, NewStatus};

#[derive(Debug, Default)]
pub(super) struct AttachDetach {
    changes: Changes,
    /// Pods that have claims.
    users: BTreeSet<Key>,
    /// For each attachment (by uid): when its attaching or detaching began; `true` stands for detaching.
    since: BTreeMap<(String, bool), Duration>,
}

impl Step for AttachDetach {
    fn reads(&self) -> &'static [&'static Resource] {
        &[PODS, NODES, CLAIMS, VOLUMES, ATTACHMENTS]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let wanted = self.wanted(store);
        for (volume, node) in &wanted {
            attach(store, volume, node, world);
        }
        let attachments: Vec<Object> = store.objects(ATTACHMENTS).cloned().collect();
        let before = std::mem::take(&mut self.since);
        let mut next = None;
        for attachment in &attachments {
            let is_ending = object::is_terminating(attachment);
            let volume = text(attachment, "/spec/source/persistentVolumeName");
            let node = text(attachment, "/spec/nodeName");
            if !is_ending && object::flag(attachment, "/status/attached") {
                if !wanted.iter().any(|(wanted, place)| wanted.name == volume && place == node) {
                    begin_detach(store, attachment, world);
                }
                continue;
            }
            let key = (object::uid(attachment).to_owned(), is_ending);
            let since = before.get(&key).copied().unwrap_or(world.now.elapsed);
            self.since.insert(key, since);
            let settings = world.settings;
            let delay = if is_ending { settings.volume_detach_after } else { settings.volume_attach_after };
            let due = since.saturating_add(delay);
            if due > world.now.elapsed {
                next = earlier(next, Some(due));
            } else if is_ending {
                end(store, attachment);
            } else {
                finish_attach(store, attachment);
            }
        }
        next
    }
}

impl AttachDetach {
    /// Each volume, with the node of a pod that uses it.
    fn wanted(&mut self, store: &Store) -> BTreeSet<(Volume, String)> {
        self.users.extend(self.changes.keys(store, PODS));
        let mut wanted = BTreeSet::new();
        self.users.retain(|key| {
            let pod = store.get(PODS, &key.namespace, &key.name).filter(|pod| !claims(pod).is_empty());
            let Some(pod) = pod else { return false };
            let node = text(pod, "/spec/nodeName");
            if !node.is_empty() && !object::is_finished(pod) {
                let volumes = attachable_volumes(store, pod).unwrap_or_default();
                wanted.extend(volumes.into_iter().map(|volume| (volume, node.to_owned())));
            }
            true
        });
        wanted
    }
}

fn attach(store: &mut Store, volume: &Volume, node: &str, world: &World<'_>) {
    let is_of = |attachment: &Object| text(attachment, "/spec/source/persistentVolumeName") == volume.name;
    if store.objects(ATTACHMENTS).any(is_of) {
        return;
    }
    let attachment = json!({
        "metadata": {
            "generateName": "csi-",
            "finalizers": [finalizer(&volume.driver)],
        },
        "spec": {
            "attacher": volume.driver, "nodeName": node, "source": {"persistentVolumeName": volume.name},
        },
    });
    drop(write::create(store, ATTACHMENTS, "", attachment, NewStatus::ByRule, world.context()));
}

fn finish_attach(store: &mut Store, attachment: &Object) {
    drop(write::edit(store, ATTACHMENTS, "", object::name(attachment), |attachment| {
        set(attachment, &["status", "attached"], true);
    }));
    list_on_node(store, attachment, true);
}

/// Begins a detach: once the kubelet has unmounted the volume, the volume is removed from the node's list, then the
/// attachment is deleted.
fn begin_detach(store: &mut Store, attachment: &Object, world: &World<'_>) {
    let node = store.get(NODES, "", text(attachment, "/spec/nodeName"));
    let name = attached_name(store, attachment);
    let is_mounted =
        node.is_some_and(|node| items(node, "/status/volumesInUse").iter().any(|used| *used == name));
    if is_mounted {
        return;
    }
    list_on_node(store, attachment, false);
    let key = ("", object::name(attachment));
    drop(write::delete(store, ATTACHMENTS, key, &DeleteOptions::default(), world.context()));
}

/// Removes the driver's finalizer from the object; other finalizers may still hold it.
fn end(store: &mut Store, attachment: &Object) {
    let own = finalizer(text(attachment, "/spec/attacher"));
    drop(write::edit(store, ATTACHMENTS, "", object::name(attachment), |attachment| {
        let mut holders = items(attachment, "/metadata/finalizers").to_vec();
        holders.retain(|holder| *holder != own);
        if holders.is_empty() {
            object::remove(attachment, &["metadata", "finalizers"]);
        } else {
            set(attachment, &["metadata", "finalizers"], holders);
        }
    }));
}

fn finalizer(driver: &str) -> String {
    format!("external-attacher/{}", driver.replace('.', "-"))
}

fn attached_name(store: &Store, attachment: &Value) -> String {
    let volume = store.get(VOLUMES, "", text(attachment, "/spec/source/persistentVolumeName"));
    volume.and_then(|volume| attachable(volume)).map(|volume| volume.attached_name()).unwrap_or_default()
}

/// Updates the node's `volumesAttached`.
fn list_on_node(store: &mut Store, attachment: &Object, is_attached: bool) {
    let name = attached_name(store, attachment);
    if name.is_empty() {
        return;
    }
    drop(write::edit(store, NODES, "", text(attachment, "/spec/nodeName"), |node| {
        let mut attached = items(node, "/status/volumesAttached").to_vec();
        attached.retain(|volume| text(volume, "/name") != name);
        if is_attached {
            attached.push(json!({"name": name, "devicePath": ""}));
        }
        set(node, &["status", "volumesAttached"], attached);
    }));
}
