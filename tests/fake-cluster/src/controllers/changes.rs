//! The changes since a controller's last step, so that an unchanged pod among thousands costs nothing.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::history::Change;
use crate::object::{self, text};
use crate::resources::Resource;
use crate::store::{Key, Object, Store};

/// The revision up to which a controller has read.
#[derive(Debug, Default)]
pub(super) struct Changes {
    cursor: u64,
}

impl Changes {
    /// The changes since the last step, oldest first; `None` if there were too many.
    pub(super) fn read<'a>(&mut self, store: &'a Store) -> Option<impl Iterator<Item = &'a Change>> {
        let cursor = std::mem::replace(&mut self.cursor, store.revision());
        store.history().after(cursor).ok()
    }

    /// Keys of the changed objects of a kind, including deleted ones. If there were too many changes, the keys of all
    /// existing objects.
    pub(super) fn keys(&mut self, store: &Store, resource: &'static Resource) -> BTreeSet<Key> {
        match self.read(store) {
            Some(changes) => changes.filter(|change| change.resource == resource).map(Change::key).collect(),
            None => store.objects(resource).map(|object| Key::of(object)).collect(),
        }
    }

    /// The objects of a kind that have changed, or that control a changed object. All objects if there were too many
    /// changes, or if an object of `all_with` changed.
    pub(super) fn owners(
        &mut self,
        store: &Store,
        kind: &'static Resource,
        all_with: Option<&'static Resource>,
    ) -> Vec<Object> {
        let Some(changes) = self.read(store) else { return store.objects(kind).cloned().collect() };
        let mut keys = BTreeSet::new();
        for change in changes {
            if Some(change.resource) == all_with {
                return store.objects(kind).cloned().collect();
            }
            if change.resource == kind {
                keys.insert(change.key());
            }
            keys.extend(change.versions().filter_map(|object| owner_key(object, kind)));
        }
        keys.iter().filter_map(|key| store.get(kind, &key.namespace, &key.name).cloned()).collect()
    }
}

fn owner_key(object: &Value, kind: &Resource) -> Option<Key> {
    let owner = object::controller(object).filter(|owner| text(owner, "/kind") == kind.kind)?;
    Some(Key::new(object::namespace(object), text(owner, "/name")))
}
