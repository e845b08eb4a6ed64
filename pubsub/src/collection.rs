//! Computes the difference between two snapshots. Pure.

use std::collections::BTreeMap;

use crate::TopicKey;

/// One difference that a subscription yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// An item that was not there before.
    Created(TopicKey, T),
    /// An item whose value has another meaning than before.
    Modified(TopicKey, T),
    /// An item that was removed, with its last value.
    Deleted(TopicKey, T),
    /// Everything that was there at the start has been yielded. Comes once per subscription.
    Synced,
    /// The publisher's restart counter has this value. Comes after `Synced`.
    Restarted(u64),
}

/// The items as the reader knows them from the changes so far.
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
    /// The items of the last snapshot.
    pub const fn items(&self) -> &BTreeMap<TopicKey, T> {
        &self.items
    }

    /// Replaces the items by a new snapshot and returns the changes: deletions first, each kind in the order of the
    /// keys. Values with equal meaning are no change.
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
