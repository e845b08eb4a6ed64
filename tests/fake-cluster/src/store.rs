//! All objects of the cluster, the revision counter and the recent changes. The store knows no rule of any kind; the
//! rules are in `write`.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::eviction::Evicted;
use crate::history::{Change, History, TooOld};
use crate::index::{Index, Place};
use crate::object;
use crate::refusal::Refusal;
use crate::removal::Removal;
use crate::resources::{PODS, Resource};

/// An object. It is never changed in place: readers keep the version that they have.
pub(crate) type Object = Arc<Value>;

/// Namespace and name. Their order is the order of lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub(crate) fn of(object: &Value) -> Self {
        Self::new(object::namespace(object), object::name(object))
    }
}

pub(crate) type Table = BTreeMap<Key, Object>;

#[derive(Debug)]
pub(crate) struct Store {
    tables: BTreeMap<&'static Resource, Table>,
    /// The revision of each table's last change.
    changed: BTreeMap<&'static Resource, u64>,
    index: Index,
    revision: u64,
    history: History,
    object_limit: usize,
    announcements: watch::Sender<u64>,
    /// The newest evictions, at most [`MAX_EVICTIONS`].
    evictions: VecDeque<Evicted>,
    /// The newest requests to remove pods, as many.
    removals: VecDeque<Removal>,
}

/// Number of evictions that are kept until somebody takes them.
const MAX_EVICTIONS: usize = 4096;

impl Store {
    pub(crate) fn new(history_limit: usize, object_limit: usize) -> Self {
        Self {
            tables: BTreeMap::new(),
            changed: BTreeMap::new(),
            index: Index::default(),
            revision: 1,
            history: History::new(history_limit),
            object_limit,
            announcements: watch::Sender::new(1),
            evictions: VecDeque::new(),
            removals: VecDeque::new(),
        }
    }

    pub(crate) fn note_eviction(&mut self, evicted: Evicted) {
        self.evictions.push_back(evicted);
        if self.evictions.len() > MAX_EVICTIONS {
            self.evictions.pop_front();
        }
    }

    pub(crate) fn note_removal(&mut self, removal: Removal) {
        self.removals.push_back(removal);
        if self.removals.len() > MAX_EVICTIONS {
            self.removals.pop_front();
        }
    }

    pub(crate) fn take_removals(&mut self) -> Vec<Removal> {
        self.removals.drain(..).collect()
    }

    pub(crate) fn take_evictions(&mut self) -> Vec<Evicted> {
        self.evictions.drain(..).collect()
    }

    /// The revision of the last change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Wakes up whenever the revision grows.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.announcements.subscribe()
    }

    /// The revision of the last change of any of these kinds.
    pub(crate) fn changed(&self, resources: &[&'static Resource]) -> u64 {
        resources.iter().filter_map(|resource| self.changed.get(*resource)).copied().max().unwrap_or_default()
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn forget_history(&mut self) {
        self.history.forget(self.revision);
    }

    pub(crate) fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<&Object> {
        self.tables.get(resource)?.get(&Key::new(namespace, name))
    }

    /// All objects of a kind in the order of their keys.
    pub(crate) fn objects(&self, resource: &Resource) -> impl Iterator<Item = &Object> {
        self.tables.get(resource).into_iter().flat_map(BTreeMap::values)
    }

    /// The objects of a kind in one namespace.
    pub(crate) fn objects_in(&self, resource: &Resource, namespace: &str) -> impl Iterator<Item = &Object> {
        let first = Key::new(namespace, "");
        let from_first =
            self.tables.get(resource).into_iter().flat_map(move |table| table.range(first.clone()..));
        from_first.take_while(move |(key, _)| key.namespace == namespace).map(|(_, object)| object)
    }

    /// True if an object has this uid.
    pub(crate) fn has_uid(&self, uid: &str) -> bool {
        self.index.has_uid(uid)
    }

    /// The places of the objects that name `owner` (a uid) as an owner.
    pub(crate) fn dependents(&self, owner: &str) -> impl Iterator<Item = &Place> {
        self.index.dependents(owner)
    }

    /// The pods bound to a node; for the empty name, the pods bound to none.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Object> {
        self.index.pods(node).filter_map(|key| self.get(PODS, &key.namespace, &key.name))
    }

    /// Number of pods on a node that have not finished.
    pub(crate) fn load(&self, node: &str) -> usize {
        self.index.load(node)
    }

    /// The objects of a kind as they were at a revision.
    pub(crate) fn table_at(
        &self,
        resource: &'static Resource,
        revision: u64,
    ) -> Result<Cow<'_, Table>, TooOld> {
        static EMPTY: Table = Table::new();
        let current = self.tables.get(resource).unwrap_or(&EMPTY);
        let later = self.history.after(revision)?;
        if revision >= self.changed.get(resource).copied().unwrap_or_default() {
            return Ok(Cow::Borrowed(current));
        }
        let mut table = current.clone();
        for change in later.rev().filter(|change| change.resource == resource) {
            let key = Key { namespace: change.namespace.clone(), name: change.name.clone() };
            match &change.before {
                Some(before) => table.insert(key, Arc::clone(before)),
                None => table.remove(&key),
            };
        }
        Ok(Cow::Owned(table))
    }

    /// Stores an object under its namespace and name, with the next resource version.
    pub(crate) fn put(&mut self, resource: &'static Resource, mut object: Value) -> Result<Object, Refusal> {
        let key = Key::of(&object);
        let before = self.tables.get(resource).and_then(|table| table.get(&key)).cloned();
        if before.is_none() && self.index.len() >= self.object_limit {
            return Err(Refusal::full());
        }
        self.revision += 1;
        object::set(&mut object, &["metadata", "resourceVersion"], self.revision.to_string());
        let object = Arc::new(object);
        self.tables.entry(resource).or_default().insert(key.clone(), Arc::clone(&object));
        self.record(resource, key, before, Some(Arc::clone(&object)));
        Ok(object)
    }

    /// Removes an object finally.
    pub(crate) fn remove(
        &mut self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Option<Object> {
        let key = Key::new(namespace, name);
        let before = self.tables.get_mut(resource)?.remove(&key)?;
        self.revision += 1;
        self.record(resource, key, Some(Arc::clone(&before)), None);
        Some(before)
    }

    fn record(
        &mut self,
        resource: &'static Resource,
        key: Key,
        before: Option<Object>,
        after: Option<Object>,
    ) {
        if let Some(before) = &before {
            self.index.remove(resource, &key, before);
        }
        if let Some(after) = &after {
            self.index.add(resource, &key, after);
        }
        let Key { namespace, name } = key;
        self.changed.insert(resource, self.revision);
        self.history.push(Change { revision: self.revision, resource, namespace, name, before, after });
        self.announcements.send_replace(self.revision);
    }
}
