//! Following the items of one topic, whatever way they come.

use std::collections::{BTreeMap, VecDeque};

use schemas::Topic;

use crate::TopicKey;
use crate::collection::{Change, Collection};
use crate::directory::Directory;
use crate::memory;
use crate::place::{Persistence, Root};
use crate::read::Refusal;

/// Follows the items of topic `T`. Level-triggered: what counts is the difference between what the reader knows
/// and what is there now; values in between may never be seen.
///
/// Use [`Subscription::next`] to be told each difference, or [`Subscription::changed`] and
/// [`Subscription::items`] to look at the whole. Both can be dropped while they wait (`tokio::select!`) and called
/// again; nothing is lost.
#[derive(Debug)]
pub struct Subscription<T> {
    transport: Transport<T>,
    told: Collection<T>,
    pending: VecDeque<Change<T>>,
    is_synced: bool,
    seen_version: u64,
}

/// The ways in which items come.
#[derive(Debug)]
enum Transport<T> {
    Directory(Directory<T>),
    Memory(memory::Reader<T>),
}

impl<T: Topic> Subscription<T> {
    /// Follows the topic's folder. The items that are there now can be read at once. A folder that does not exist
    /// yet is waited for.
    pub fn open(root: &Root, agent: &str, persistence: Persistence) -> Self {
        Self::new(Transport::Directory(Directory::open(root, agent, persistence)))
    }

    pub(crate) fn in_memory(reader: memory::Reader<T>) -> Self {
        Self::new(Transport::Memory(reader))
    }

    fn new(transport: Transport<T>) -> Self {
        let seen_version = transport.version();
        Self {
            transport,
            told: Collection::default(),
            pending: VecDeque::new(),
            is_synced: false,
            seen_version,
        }
    }

    /// Waits until items or refusals differ from what they were at the start or at the last return.
    pub async fn changed(&mut self) {
        while self.transport.version() == self.seen_version {
            self.transport.looked().await;
        }
        self.seen_version = self.transport.version();
    }

    /// The next difference: what is there at the start as `Created`, then `Synced`, then whatever happens.
    pub async fn next(&mut self) -> Change<T> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return change;
            }
            if self.told.items() != self.transport.items() {
                self.pending.extend(self.told.replace(self.transport.items().clone()));
            } else if self.is_synced {
                self.transport.looked().await;
            } else {
                self.is_synced = true;
                return Change::Synced;
            }
        }
    }

    /// The items as of the last look. `changed` and `next` look.
    pub const fn items(&self) -> &BTreeMap<TopicKey, T> {
        self.transport.items()
    }

    /// One item as of the last look.
    pub fn get(&self, key: &TopicKey) -> Option<&T> {
        self.items().get(key)
    }

    /// The files that are refused now, and why; their last good values are still among the items.
    pub fn refused(&self) -> Vec<Refusal> {
        self.transport.refused()
    }
}

impl<T: Topic> Transport<T> {
    async fn looked(&mut self) {
        match self {
            Self::Directory(directory) => directory.looked().await,
            Self::Memory(reader) => reader.looked().await,
        }
    }

    const fn items(&self) -> &BTreeMap<TopicKey, T> {
        match self {
            Self::Directory(directory) => directory.items(),
            Self::Memory(reader) => reader.items(),
        }
    }

    const fn version(&self) -> u64 {
        match self {
            Self::Directory(directory) => directory.version(),
            Self::Memory(reader) => reader.version(),
        }
    }

    fn refused(&self) -> Vec<Refusal> {
        match self {
            Self::Directory(directory) => directory.refused(),
            Self::Memory(_) => Vec::new(),
        }
    }
}
