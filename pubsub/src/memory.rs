//! A topic in memory, for tests: no files and no time, but the same subscription.

use std::collections::BTreeMap;

use schemas::Topic;
use tokio::sync::watch;

use crate::{Subscription, TopicKey};

/// The items of one topic, held in memory.
#[derive(Debug)]
pub struct Board<T> {
    items: watch::Sender<BTreeMap<TopicKey, T>>,
}

impl<T: Topic> Default for Board<T> {
    fn default() -> Self {
        Self { items: watch::Sender::new(BTreeMap::new()) }
    }
}

impl<T: Topic> Board<T> {
    /// Sets an item. If the value is equal to the present one, no subscription wakes up.
    pub fn publish(&self, key: &TopicKey, value: T) {
        self.items.send_if_modified(|items| {
            let is_new = items.get(key) != Some(&value);
            items.insert(key.clone(), value);
            is_new
        });
    }

    /// Removes an item.
    pub fn unpublish(&self, key: &TopicKey) {
        self.items.send_if_modified(|items| items.remove(key).is_some());
    }

    /// Follows the items.
    pub fn subscribe(&self) -> Subscription<T> {
        let mut source = self.items.subscribe();
        let items = source.borrow_and_update().clone();
        Subscription::in_memory(Reader { source, items, version: 0 })
    }
}

/// Follows the items of a [`Board`].
#[derive(Debug)]
pub(crate) struct Reader<T> {
    source: watch::Receiver<BTreeMap<TopicKey, T>>,
    items: BTreeMap<TopicKey, T>,
    version: u64,
}

impl<T: Topic> Reader<T> {
    pub(crate) const fn items(&self) -> &BTreeMap<TopicKey, T> {
        &self.items
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    pub(crate) async fn looked(&mut self) {
        if self.source.changed().await.is_err() {
            // The board is gone: nothing will change any more.
            std::future::pending::<()>().await;
        }
        self.items = self.source.borrow_and_update().clone();
        self.version += 1;
    }
}

#[cfg(test)]
mod tests;
