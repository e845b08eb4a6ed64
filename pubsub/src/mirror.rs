//! The items of a topic as a subscriber knows them from the publisher's messages. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemas::{Topic, parse};
use thiserror::Error;

use crate::TopicKey;
use crate::directory::MAX_ITEMS;
use crate::frame::{FrameError, MAX_MESSAGE_BYTES, MAX_READ_BYTES, Message};
use crate::read::Refusal;

/// The items of one topic as its publisher sent them.
#[derive(Debug, Clone)]
pub(crate) struct Mirror<T> {
    topic: String,
    /// Path of the socket, for refusals.
    path: PathBuf,
    items: BTreeMap<TopicKey, T>,
    refused: BTreeMap<Vec<u8>, Refusal>,
    restarted: u64,
    /// The counter was sent on the present connection.
    is_restarted_told: bool,
    link: Phase,
}

/// State of the present connection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// There is no connection.
    Away,
    /// The publisher sends its items for the first time. Known items that were not sent when `complete` comes were
    /// deleted while we were disconnected.
    Filling { seen: BTreeSet<Vec<u8>>, is_greeted: bool },
    /// All items were sent; now changes arrive.
    Following,
}

/// A violation of the protocol by the publisher. The connection has to end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PeerError {
    /// A datagram is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message is about another topic.
    #[error("a message about topic `{}` on the socket of {expected}", found.escape_debug())]
    WrongTopic {
        /// The topic of the message.
        found: String,
        /// The topic that we asked for.
        expected: String,
    },
    /// The publisher sent a request.
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
            link: Phase::Away,
        }
    }

    pub(crate) const fn items(&self) -> &BTreeMap<TopicKey, T> {
        &self.items
    }

    pub(crate) const fn restarted(&self) -> u64 {
        self.restarted
    }

    /// The counter, if it was sent on the present connection.
    pub(crate) fn told_restarted(&self) -> Option<u64> {
        self.is_restarted_told.then_some(self.restarted)
    }

    pub(crate) fn refused(&self) -> Vec<Refusal> {
        self.refused.values().cloned().collect()
    }

    /// All items of the publisher are known, and changes arrive.
    pub(crate) fn is_following(&self) -> bool {
        self.link == Phase::Following
    }

    /// The publisher has sent its `hello` on this connection.
    pub(crate) fn is_greeted(&self) -> bool {
        match &self.link {
            Phase::Away => false,
            Phase::Filling { is_greeted, .. } => *is_greeted,
            Phase::Following => true,
        }
    }

    /// Notes that a connection was made. The known items stay until the publisher has sent all of its own.
    pub(crate) fn connected(&mut self) {
        self.is_restarted_told = false;
        self.link = Phase::Filling { seen: BTreeSet::new(), is_greeted: false };
    }

    /// Notes that the connection was lost. The known items stay.
    pub(crate) fn lost(&mut self) {
        self.is_restarted_told = false;
        self.link = Phase::Away;
    }

    /// Handles a datagram. Returns true if items, refusals or the counter have changed.
    ///
    /// A datagram as long as the reader's buffer was cut off: only its key can be used.
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
                if let Phase::Filling { is_greeted, .. } = &mut self.link {
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

    /// Refuses an item; its last good value stays. Returns true if the refusal is new.
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

    /// Ends the first round: known items that were not sent again were deleted while we were disconnected. (EVE's
    /// subscriber keeps them.)
    fn complete(&mut self) -> bool {
        let Phase::Filling { seen, .. } = std::mem::replace(&mut self.link, Phase::Following) else {
            return false;
        };
        let before = (self.items.len(), self.refused.len());
        self.items.retain(|key, _| seen.contains(key.as_str().as_bytes()));
        self.refused.retain(|key, _| seen.contains(key));
        before != (self.items.len(), self.refused.len())
    }

    /// Notes that an item was sent. Only known items are noted, because only they can be removed by `complete`.
    fn saw(&mut self, key: Vec<u8>) {
        let Phase::Filling { seen, .. } = &mut self.link else { return };
        let is_item = || name_of(&key).is_some_and(|name| self.items.contains_key(&name));
        if self.refused.contains_key(&key) || is_item() {
            seen.insert(key);
        }
    }
}

/// The key, if it can be the name of a file.
fn name_of(key: &[u8]) -> Option<TopicKey> {
    TopicKey::parse(std::str::from_utf8(key).ok()?).ok()
}

#[cfg(test)]
mod tests;
