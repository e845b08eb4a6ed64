//! Follows the items of one topic, by folder or by socket.

use std::collections::{BTreeMap, VecDeque};

use schemas::Topic;

use crate::TopicKey;
use crate::collection::{Change, Collection};
use crate::dialled::Dialled;
use crate::directory::Directory;
use crate::either::Either;
use crate::memory;
use crate::place::{Persistence, Root, TopicPlace};
use crate::read::Refusal;

/// Follows the items of topic `T`. It is level-triggered: it yields the difference between the items that the reader
/// knows and the present ones; values in between may never be seen.
///
/// Use [`Subscription::next`] to get each difference, or [`Subscription::changed`] and [`Subscription::items`] to read
/// the whole. Both can be dropped while they wait (`tokio::select!`) and called again; nothing is lost.
/// again; nothing is lost.
#[derive(Debug)]
pub struct Subscription<T> {
    transport: Transport<T>,
    told: Collection<T>,
    pending: VecDeque<Change<T>>,
    is_synced: bool,
    told_restarted: u64,
    seen_version: u64,
}

/// The way in which a topic is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// By its folder: a person with an editor can publish too.
    Files,
    /// By its socket, as EVE's agents do.
    Socket,
    /// By its socket while its publisher runs, by its folder while it does not.
    Either,
}

#[derive(Debug)]
enum Transport<T> {
    Directory(Directory<T>),
    Socket(Box<Dialled<T>>),
    Either(Box<Either<T>>),
    Memory(memory::Reader<T>),
}

impl<T: Topic> Subscription<T> {
    /// Follows the topic's folder. The present items can be read at once. If the folder does not exist yet, the
    /// subscription waits for it.
    pub fn open(root: &Root, agent: &str, persistence: Persistence) -> Self {
        Self::of(&root.topic::<T>(agent, persistence), Via::Files)
    }

    /// Follows the topic's socket, as EVE's agents do. There are no items before the first wait. If the publisher does
    /// not run, the connection is tried again, first after 100 ms, at most every 10 s.
    pub fn dial(root: &Root, agent: &str) -> Self {
        Self::of(&root.topic::<T>(agent, Persistence::Volatile), Via::Socket)
    }

    /// Follows the topic's socket while its publisher runs, and its folder while it does not.
    pub fn follow(root: &Root, agent: &str, persistence: Persistence) -> Self {
        Self::of(&root.topic::<T>(agent, persistence), Via::Either)
    }

    /// Follows the topic at this place.
    pub fn of(place: &TopicPlace, via: Via) -> Self {
        Self::new(match via {
            Via::Files => Transport::Directory(Directory::open(place)),
            Via::Socket => Transport::Socket(Box::new(Dialled::open(place))),
            Via::Either => Transport::Either(Box::new(Either::open(place))),
        })
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
            told_restarted: 0,
            seen_version,
        }
    }

    /// Waits until items, refusals or the restart counter differ from their state at the start or at the last return.
    pub async fn changed(&mut self) {
        while self.transport.version() == self.seen_version {
            self.transport.looked().await;
        }
        self.seen_version = self.transport.version();
    }

    /// The next difference: the present items as `Created`, then `Synced`, then each change. By socket, `Synced` comes
    /// once the publisher has sent all items.
    pub async fn next(&mut self) -> Change<T> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return change;
            }
            if self.told.items() != self.transport.items() {
                self.pending.extend(self.told.replace(self.transport.items().clone()));
            } else if !self.is_synced && self.transport.is_complete() {
                self.is_synced = true;
                return Change::Synced;
            } else if self.is_synced && self.told_restarted != self.restarted() {
                self.told_restarted = self.restarted();
                return Change::Restarted(self.told_restarted);
            } else {
                self.transport.looked().await;
            }
        }
    }

    /// The items as last read. `changed` and `next` read them.
    pub fn items(&self) -> &BTreeMap<TopicKey, T> {
        self.transport.items()
    }

    /// The publisher's restart counter; 0 for most publishers, which have none.
    pub fn restarted(&self) -> u64 {
        self.transport.restarted()
    }

    /// One item as last read.
    pub fn get(&self, key: &TopicKey) -> Option<&T> {
        self.items().get(key)
    }

    /// True if the publisher is connected and the items are those of its socket: the values that it sent last. With
    /// EVE's publishers these may differ from their files.
    pub fn is_by_socket(&self) -> bool {
        match &self.transport {
            Transport::Socket(socket) => socket.is_following(),
            Transport::Either(either) => either.is_by_socket(),
            Transport::Directory(_) | Transport::Memory(_) => false,
        }
    }

    /// True if the item's file exists but was refused or is not complete yet: its value is unknown.
    pub fn is_unread(&self, key: &TopicKey) -> bool {
        self.transport.directory().is_some_and(|directory| directory.is_unread(key))
    }

    /// The files, or items of a socket, that are refused now, with the reason; their last good values are still among
    /// the items.
    pub fn refused(&self) -> Vec<Refusal> {
        self.transport.refused()
    }
}

impl<T: Topic> Transport<T> {
    async fn looked(&mut self) {
        match self {
            Self::Directory(directory) => directory.looked().await,
            // Boxed to keep the future small: an agent waits for many subscriptions at once, and most of them use no
            // socket.
            Self::Socket(socket) => Box::pin(socket.looked()).await,
            Self::Either(either) => Box::pin(either.looked()).await,
            Self::Memory(reader) => reader.looked().await,
        }
    }

    fn items(&self) -> &BTreeMap<TopicKey, T> {
        match self {
            Self::Directory(directory) => directory.items(),
            Self::Socket(socket) => socket.items(),
            Self::Either(either) => either.items(),
            Self::Memory(reader) => reader.items(),
        }
    }

    fn restarted(&self) -> u64 {
        match self {
            Self::Directory(directory) => directory.restarted(),
            Self::Socket(socket) => socket.restarted(),
            Self::Either(either) => either.restarted(),
            Self::Memory(_) => 0,
        }
    }

    /// All items of the start are known.
    const fn is_complete(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.was_complete(),
            Self::Directory(_) | Self::Either(_) | Self::Memory(_) => true,
        }
    }

    const fn version(&self) -> u64 {
        match self {
            Self::Directory(directory) => directory.version(),
            Self::Socket(socket) => socket.version(),
            Self::Either(either) => either.version(),
            Self::Memory(reader) => reader.version(),
        }
    }

    fn directory(&self) -> Option<&Directory<T>> {
        match self {
            Self::Directory(directory) => Some(directory),
            Self::Socket(_) | Self::Either(_) | Self::Memory(_) => None,
        }
    }

    fn refused(&self) -> Vec<Refusal> {
        match self {
            Self::Directory(directory) => directory.refused(),
            Self::Socket(socket) => socket.refused(),
            Self::Either(either) => either.refused(),
            Self::Memory(_) => Vec::new(),
        }
    }
}
