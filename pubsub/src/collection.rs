//! From two snapshots to the difference between them. Pure.

use std::collections::BTreeMap;

use crate::TopicKey;

/// One difference that a subscription yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// An item that was not there.
    Created(TopicKey, T),
    /// An item that means something else than before.
    Modified(TopicKey, T),
    /// An item that is gone, with its last value.
    Deleted(TopicKey, T),
    /// All that was there at the start has been yielded. Once per subscription.
    Synced,
    /// The publisher says that it has restarted so often; after `Synced`.
    Restarted(u64),
}

/// What a reader has been told so far.
#[derive(Debug, Clone)]
pub struct Collection<T> {
    items: BTreeMap<TopicKey, T>,
}

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new() }
    }
}

impl<T: Clone + PartialEq> Collection<T> {
    /// The items.
    pub const fn items(&self) -> &BTreeMap<TopicKey, T> {
        &self.items
    }

    /// Takes over a new snapshot and gives what is different, deletions first, each in the order of the keys.
    /// Values that are equal in meaning are not different.
    pub fn replace(&mut self, new: BTreeMap<TopicKey, T>) -> Vec<Change<T>> {
        let old = std::mem::replace(&mut self.items, new);
        let new = &self.items;
        let mut changes: Vec<Change<T>> = old
            .iter()
            .filter(|(key, _)| !new.contains_key(*key))
            .map(|(key, value)| Change::Deleted(key.clone(), value.clone()))
            .collect();
        for (key, value) in new {
            match old.get(key) {
                None => changes.push(Change::Created(key.clone(), value.clone())),
                Some(before) if before != value => changes.push(Change::Modified(key.clone(), value.clone())),
                Some(_) => {}
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests;
