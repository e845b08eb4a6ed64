//! Deletes objects whose owners are all gone.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::{Step, World};
use crate::index::Place;
use crate::object::{self, items, text};
use crate::resources::{RESOURCES, Resource, of_object};
use crate::store::{Key, Store};
use crate::write::{self, DeleteOptions};

#[derive(Debug, Default)]
pub(super) struct GarbageCollector {
    /// The revision up to which all orphans are deleted.
    seen: u64,
}

impl Step for GarbageCollector {
    fn reads(&self) -> &'static [&'static Resource] {
        RESOURCES
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let orphans = orphans_since(store, self.seen).unwrap_or_else(|| all_orphans(store));
        self.seen = store.revision();
        for (resource, Key { namespace, name }) in &orphans {
            drop(write::delete(
                store,
                resource,
                (namespace, name),
                &DeleteOptions::default(),
                world.context(),
            ));
        }
        None
    }
}

type Orphans = BTreeSet<Place>;

/// The objects that became orphans by the changes since `revision`; `None` if there were too many changes.
fn orphans_since(store: &Store, revision: u64) -> Option<Orphans> {
    let mut suspects = Orphans::new();
    for change in store.history().after(revision).ok()? {
        match (&change.before, &change.after) {
            (_, Some(after)) => drop(suspects.insert((change.resource, Key::of(after)))),
            (Some(before), None) => suspects.extend(store.dependents(object::uid(before)).cloned()),
            (None, None) => {}
        }
    }
    suspects.retain(|(resource, key)| {
        store.get(resource, &key.namespace, &key.name).is_some_and(|object| is_orphan(store, object))
    });
    Some(suspects)
}

fn all_orphans(store: &Store) -> Orphans {
    let of_kind = |resource: &'static Resource| {
        let orphans = store.objects(resource).filter(|object| is_orphan(store, object));
        orphans.map(move |object| (resource, Key::of(object))).collect::<Vec<_>>()
    };
    RESOURCES.iter().copied().flat_map(of_kind).collect()
}

fn is_orphan(store: &Store, object: &Value) -> bool {
    let owners = items(object, "/metadata/ownerReferences");
    // An owner of a kind that is not served may exist: its objects are no orphans.
    let is_known = |owner: &Value| of_object(text(owner, "/apiVersion"), text(owner, "/kind")).is_some();
    !owners.is_empty() && !owners.iter().any(|owner| store.has_uid(text(owner, "/uid")) || !is_known(owner))
}
