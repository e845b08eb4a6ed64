//! The send queue of one subscriber: computes the next message from the topic's present items and from what was sent
//! before. Pure.
//!
//! No message is stored: each one is made when it can be sent. A slow subscriber therefore gets the newest value of
//! each item and none in between, and costs no memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::TopicKey;
use crate::frame::Message;

/// The present content of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    items: BTreeMap<TopicKey, Item>,
    restarted: u64,
    /// Counts the changes: each new value gets the next number.
    version: u64,
}

/// One value of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    version: u64,
    json: Arc<[u8]>,
}

impl Snapshot {
    /// Sets the value of an item. Returns true if this is a change.
    pub(crate) fn set(&mut self, key: &TopicKey, json: &[u8]) -> bool {
        if self.items.get(key).is_some_and(|item| *item.json == *json) {
            return false;
        }
        self.version += 1;
        self.items.insert(key.clone(), Item { version: self.version, json: json.into() });
        true
    }

    /// Removes an item. Returns true if it was there.
    pub(crate) fn remove(&mut self, key: &TopicKey) -> bool {
        self.items.remove(key).is_some()
    }

    /// Sets the restart counter. Returns true if this is a change.
    pub(crate) fn set_restarted(&mut self, count: u64) -> bool {
        std::mem::replace(&mut self.restarted, count) != count
    }
}

/// The send queue of one subscriber: what it was sent so far.
#[derive(Debug, Clone)]
pub(crate) struct SendQueue {
    topic: String,
    is_persistent: bool,
    stage: Stage,
    /// For each item, the version that the subscriber has.
    told: BTreeMap<TopicKey, u64>,
    restarted: u64,
    /// The item that was sent last. Sending goes on after it, so that one item that keeps changing does not block the
    /// others.
    last: Option<TopicKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was sent yet.
    New,
    /// The items are being sent for the first time.
    Filling,
    /// The subscriber has had all items; now it gets changes.
    Following,
}

/// A message, and the state of the queue once it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Saying {
    pub(crate) message: Message,
    told: Told,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Hello,
    Gone(TopicKey),
    Item(TopicKey, u64),
    Complete,
    Restarted(u64),
}

impl SendQueue {
    pub(crate) fn new(topic: &str, is_persistent: bool) -> Self {
        Self {
            topic: topic.to_owned(),
            is_persistent,
            stage: Stage::New,
            told: BTreeMap::new(),
            restarted: 0,
            last: None,
        }
    }

    /// The next message; `None` if the subscriber has everything. Call [`Feed::sent`] after sending it. If it could not
    /// be sent, call this again later: by then there may be a newer value.
    ///
    /// The order is: `hello`, all items in the order of their keys, `complete`. Then, after each change, deletions
    /// before updates, and the restart counter after one round of those.
    pub(crate) fn next(&self, snapshot: &Snapshot) -> Option<Saying> {
        match self.stage {
            Stage::New => Some(self.say(Told::Hello, snapshot)),
            Stage::Filling => {
                let next = self.gone(snapshot).or_else(|| self.changed(snapshot, self.last.as_ref()));
                Some(self.say(next.unwrap_or(Told::Complete), snapshot))
            }
            Stage::Following => self
                .gone(snapshot)
                .or_else(|| self.changed(snapshot, self.last.as_ref()))
                .or_else(|| {
                    (self.restarted != snapshot.restarted).then_some(Told::Restarted(snapshot.restarted))
                })
                .or_else(|| self.changed(snapshot, None))
                .map(|told| self.say(told, snapshot)),
        }
    }

    /// Notes that the message was sent.
    pub(crate) fn sent(&mut self, saying: Saying) {
        match saying.told {
            Told::Hello => self.stage = Stage::Filling,
            Told::Gone(key) => {
                self.told.remove(&key);
            }
            Told::Item(key, version) => {
                self.last = Some(key.clone());
                self.told.insert(key, version);
            }
            Told::Complete => (self.stage, self.last) = (Stage::Following, None),
            Told::Restarted(count) => (self.restarted, self.last) = (count, None),
        }
    }

    fn gone(&self, snapshot: &Snapshot) -> Option<Told> {
        self.told.keys().find(|key| !snapshot.items.contains_key(*key)).cloned().map(Told::Gone)
    }

    /// The first item after `after` whose present version the subscriber does not have.
    fn changed(&self, snapshot: &Snapshot, after: Option<&TopicKey>) -> Option<Told> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = snapshot.items.range::<TopicKey, _>((start, Bound::Unbounded));
        let mut news = rest.filter(|(key, item)| self.told.get(*key) != Some(&item.version));
        news.next().map(|(key, item)| Told::Item(key.clone(), item.version))
    }

    fn say(&self, told: Told, snapshot: &Snapshot) -> Saying {
        let topic = self.topic.clone();
        let message = match &told {
            Told::Hello => Message::Hello { topic, is_persistent: Some(self.is_persistent) },
            Told::Gone(key) => Message::Delete { topic, key: bytes_of(key) },
            Told::Item(key, _) => {
                let json = snapshot.items.get(key).map(|item| item.json.to_vec()).unwrap_or_default();
                Message::Update { topic, key: bytes_of(key), json }
            }
            Told::Complete => Message::Complete { topic },
            Told::Restarted(count) => Message::Restarted { topic, count: *count },
        };
        Saying { message, told }
    }
}

fn bytes_of(key: &TopicKey) -> Vec<u8> {
    key.as_str().as_bytes().to_vec()
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
