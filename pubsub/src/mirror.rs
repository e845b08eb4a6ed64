//! What a subscriber knows of a topic, from the messages of its publisher. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemas::{Topic, parse};
use thiserror::Error;

use crate::TopicKey;
use crate::directory::MAX_ITEMS;
use crate::frame::{FrameError, MAX_MESSAGE_BYTES, MAX_READ_BYTES, Message};
use crate::read::Refusal;

/// The items of one topic as its publisher told them.
#[derive(Debug, Clone)]
pub(crate) struct Mirror<T> {
    topic: String,
    /// The socket, for refusals.
    path: PathBuf,
    items: BTreeMap<TopicKey, T>,
    refused: BTreeMap<Vec<u8>, Refusal>,
    restarted: u64,
    /// The counter was told on the present connection.
    is_restarted_told: bool,
    link: Link,
}

/// How far the present connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Link {
    /// There is none.
    Away,
    /// The items come. An item that was known before and has not come when they are complete went meanwhile.
    Filling { seen: BTreeSet<Vec<u8>>, is_greeted: bool },
    /// All have come.
    Following,
}

/// A publisher that cannot be believed. The connection has to end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PeerError {
    /// What it sent is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It tells of another topic.
    #[error("a message about topic `{}` on the socket of {expected}", found.escape_debug())]
    WrongTopic {
        /// The topic that it told of.
        found: String,
        /// The topic that was asked for.
        expected: String,
    },
    /// It asks.
    #[error("the publisher sent a request")]
    Request,
}

impl<T: Topic> Mirror<T> {
    pub(crate) fn new(topic: &str, path: &Path) -> Self {
        Self {
            topic: topic.to_owned(),
            path: path.to_owned(),
            items: BTreeMap::new(),
            refused: BTreeMap::new(),
            restarted: 0,
            is_restarted_told: false,
            link: Link::Away,
        }
    }

    pub(crate) const fn items(&self) -> &BTreeMap<TopicKey, T> {
        &self.items
    }

    pub(crate) const fn restarted(&self) -> u64 {
        self.restarted
    }

    /// The counter, if it was told on the present connection.
    pub(crate) fn told_restarted(&self) -> Option<u64> {
        self.is_restarted_told.then_some(self.restarted)
    }

    pub(crate) fn refused(&self) -> Vec<Refusal> {
        self.refused.values().cloned().collect()
    }

    /// All that the publisher has is known, and whatever changes comes.
    pub(crate) fn is_following(&self) -> bool {
        self.link == Link::Following
    }

    /// The publisher has said its first word on this connection.
    pub(crate) fn is_greeted(&self) -> bool {
        match &self.link {
            Link::Away => false,
            Link::Filling { is_greeted, .. } => *is_greeted,
            Link::Following => true,
        }
    }

    /// A connection was made. What is known stays until the publisher has told everything.
    pub(crate) fn connected(&mut self) {
        self.is_restarted_told = false;
        self.link = Link::Filling { seen: BTreeSet::new(), is_greeted: false };
    }

    /// The connection was lost. What is known stays.
    pub(crate) fn lost(&mut self) {
        self.is_restarted_told = false;
        self.link = Link::Away;
    }

    /// Takes a datagram in. Says whether items, refusals or the counter are different now.
    ///
    /// One as long as a reader's buffer was cut off: nothing but its key can be used.
    pub(crate) fn take(&mut self, datagram: &[u8]) -> Result<bool, PeerError> {
        if MAX_READ_BYTES < datagram.len() {
            return Ok(self.take_truncated(datagram));
        }
        let message = Message::decode(datagram)?;
        if message.topic() != self.topic {
            let (found, expected) = (message.topic().to_owned(), self.topic.clone());
            return Err(PeerError::WrongTopic { found, expected });
        }
        match message {
            Message::Request { .. } => Err(PeerError::Request),
            Message::Hello { .. } => {
                if let Link::Filling { is_greeted, .. } = &mut self.link {
                    *is_greeted = true;
                }
                Ok(false)
            }
            Message::Update { key, json, .. } => Ok(self.update(key, &json)),
            Message::Delete { key, .. } => Ok(self.delete(&key)),
            Message::Complete { .. } => Ok(self.complete()),
            Message::Restarted { count, .. } => {
                self.is_restarted_told = true;
                Ok(std::mem::replace(&mut self.restarted, count) != count)
            }
        }
    }

    fn update(&mut self, key: Vec<u8>, json: &[u8]) -> bool {
        let is_new = match self.read(&key, json) {
            Ok((name, value)) => {
                let was_refused = self.refused.remove(&key).is_some();
                // EVE's publisher sends all items again whenever one has changed.
                let is_new = self.items.get(&name) != Some(&value);
                if is_new {
                    self.items.insert(name, value);
                }
                was_refused || is_new
            }
            Err(refusal) => self.refuse(&key, refusal),
        };
        self.saw(key);
        is_new
    }

    fn read(&self, key: &[u8], json: &[u8]) -> Result<(TopicKey, T), Refusal> {
        let refusal = |reason: String, accepted: &str| Refusal::new(&self.path, reason, accepted);
        let text = String::from_utf8_lossy(key);
        let name =
            name_of(key).ok_or_else(|| refusal(format!("item {text:?}: its key names no file"), "a key"))?;
        if !self.items.contains_key(&name) && MAX_ITEMS <= self.items.len() {
            return Err(refusal(format!("item {text:?}: too many items"), &format!("{MAX_ITEMS} items")));
        }
        let value = parse(json).map_err(|error| {
            refusal(format!("item {text:?}: cannot read {}", error.reason()), error.accepted())
        })?;
        Ok((name, value))
    }

    /// The last good value stays. Says whether that is new.
    fn refuse(&mut self, key: &[u8], refusal: Refusal) -> bool {
        let known = self.refused.get(key);
        let is_told = known.map_or(MAX_ITEMS <= self.refused.len(), |known| *known == refusal);
        if is_told {
            return false;
        }
        tracing::warn!("{refusal}");
        self.refused.insert(key.to_vec(), refusal);
        true
    }

    fn take_truncated(&mut self, datagram: &[u8]) -> bool {
        let Some(key) = Message::key_of_truncated_update(datagram) else {
            return false;
        };
        let text = String::from_utf8_lossy(&key);
        let accepted = format!("a message of at most {MAX_MESSAGE_BYTES} bytes");
        let refusal = Refusal::new(&self.path, format!("item {text:?}: its message was cut off"), accepted);
        let is_new = self.refuse(&key, refusal);
        self.saw(key);
        is_new
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let was_refused = self.refused.remove(key).is_some();
        let was_there = name_of(key).is_some_and(|name| self.items.remove(&name).is_some());
        was_refused || was_there
    }

    /// Whatever was known before and did not come again went while nobody was connected (EVE's subscriber keeps it).
    fn complete(&mut self) -> bool {
        let Link::Filling { seen, .. } = std::mem::replace(&mut self.link, Link::Following) else {
            return false;
        };
        let before = (self.items.len(), self.refused.len());
        self.items.retain(|key, _| seen.contains(key.as_str().as_bytes()));
        self.refused.retain(|key, _| seen.contains(key));
        before != (self.items.len(), self.refused.len())
    }

    /// Only what is known can be swept, so nothing else is kept in mind.
    fn saw(&mut self, key: Vec<u8>) {
        let Link::Filling { seen, .. } = &mut self.link else { return };
        let is_item = || name_of(&key).is_some_and(|name| self.items.contains_key(&name));
        if self.refused.contains_key(&key) || is_item() {
            seen.insert(key);
        }
    }
}

/// The key, if it names a file.
fn name_of(key: &[u8]) -> Option<TopicKey> {
    TopicKey::parse(std::str::from_utf8(key).ok()?).ok()
}

#[cfg(test)]
mod tests;
