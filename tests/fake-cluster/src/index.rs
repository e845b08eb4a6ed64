//! Indexes, to find objects without reading all of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::object::{is_finished, items, text, uid};
use crate::resources::{PODS, Resource};
use crate::store::Key;

/// The place of an object: its kind and its key.
pub(crate) type Place = (&'static Resource, Key);

#[derive(Debug, Default)]
pub(crate) struct Index {
    uids: BTreeSet<String>,
    /// Objects by the uid of their owner; the owner itself may not exist.
    dependents: BTreeMap<String, BTreeSet<Place>>,
    /// Pods by node name; pods without a node are under the empty name.
    pods: BTreeMap<String, BTreeSet<Key>>,
    /// For each node, the number of its pods that have not finished.
    load: BTreeMap<String, usize>,
}

impl Index {
    pub(crate) fn add(&mut self, resource: &'static Resource, key: &Key, object: &Value) {
        self.uids.insert(uid(object).to_owned());
        for owner in items(object, "/metadata/ownerReferences") {
            self.dependents
                .entry(text(owner, "/uid").to_owned())
                .or_default()
                .insert((resource, key.clone()));
        }
        if resource == PODS {
            let node = text(object, "/spec/nodeName").to_owned();
            *self.load.entry(node.clone()).or_default() += usize::from(!is_finished(object));
            self.pods.entry(node).or_default().insert(key.clone());
        }
    }

    pub(crate) fn remove(&mut self, resource: &'static Resource, key: &Key, object: &Value) {
        self.uids.remove(uid(object));
        for owner in items(object, "/metadata/ownerReferences") {
            let owner = text(owner, "/uid");
            if let Some(places) = self.dependents.get_mut(owner) {
                places.remove(&(resource, key.clone()));
                if places.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        let node = text(object, "/spec/nodeName");
        if resource == PODS
            && let Some(pods) = self.pods.get_mut(node)
        {
            pods.remove(key);
            let load = self.load.entry(node.to_owned()).or_default();
            *load = load.saturating_sub(usize::from(!is_finished(object)));
            if pods.is_empty() {
                self.pods.remove(node);
                self.load.remove(node);
            }
        }
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.uids.len()
    }

    pub(crate) fn has_uid(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    pub(crate) fn dependents(&self, owner: &str) -> impl Iterator<Item = &Place> {
        self.dependents.get(owner).into_iter().flatten()
    }

    pub(crate) fn load(&self, node: &str) -> usize {
        self.load.get(node).copied().unwrap_or_default()
    }

    pub(crate) fn pods(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.pods.get(node).into_iter().flatten()
    }
}
