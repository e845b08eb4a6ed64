//! Following the items of one topic, whatever way they come.

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
    told_restarted: u64,
    seen_version: u64,
}

/// How to follow a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// By its folder: a person with an editor is a publisher too.
    Files,
    /// By its socket, as EVE's agents do.
    Socket,
    /// By its socket while its publisher is there, by its folder while it is not.
    Either,
}

/// The ways in which items come.
#[derive(Debug)]
enum Transport<T> {
    Directory(Directory<T>),
    Socket(Box<Dialled<T>>),
    Either(Box<Either<T>>),
    Memory(memory::Reader<T>),
}

impl<T: Topic> Subscription<T> {
    /// Follows the topic's folder, as a person with an editor is a publisher too. The items that are there now can be
    /// read at once. A folder that does not exist yet is waited for.
    pub fn open(root: &Root, agent: &str, persistence: Persistence) -> Self {
        Self::of(&root.topic::<T>(agent, persistence), Via::Files)
    }

    /// Follows the topic's socket, as EVE's agents do. There are no items before the first wait; a publisher that is not
    /// there is dialled again, after 100 ms at first and at most 10 s later.
    pub fn dial(root: &Root, agent: &str) -> Self {
        Self::of(&root.topic::<T>(agent, Persistence::Volatile), Via::Socket)
    }

    /// Follows the topic's socket while its publisher is there, and its folder while it is not.
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

    /// Waits until items, refusals or the restart counter differ from what they were at the start or at the last return.
    pub async fn changed(&mut self) {
        while self.transport.version() == self.seen_version {
            self.transport.looked().await;
        }
        self.seen_version = self.transport.version();
    }

    /// The next difference: what is there at the start as `Created`, then `Synced`, then whatever happens. By socket the
    /// start is over once the publisher has told all.
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

    /// The items as of the last look. `changed` and `next` look.
    pub fn items(&self) -> &BTreeMap<TopicKey, T> {
        self.transport.items()
    }

    /// How often the publisher says that it has restarted; 0 for most, which never say.
    pub fn restarted(&self) -> u64 {
        self.transport.restarted()
    }

    /// One item as of the last look.
    pub fn get(&self, key: &TopicKey) -> Option<&T> {
        self.items().get(key)
    }

    /// The publisher is there, and the items are those of its socket. Then they are what it last told, which of EVE's
    /// publishers is not always what their files hold.
    pub fn is_by_socket(&self) -> bool {
        match &self.transport {
            Transport::Socket(socket) => socket.is_following(),
            Transport::Either(either) => either.is_by_socket(),
            Transport::Directory(_) | Transport::Memory(_) => false,
        }
    }

    /// The item's file is there and could not be taken, or not yet: nobody knows what it says.
    pub fn is_unread(&self, key: &TopicKey) -> bool {
        self.transport.directory().is_some_and(|directory| directory.is_unread(key))
    }

    /// The files, or items of a socket, that are refused now, and why; their last good values are still among the items.
    pub fn refused(&self) -> Vec<Refusal> {
        self.transport.refused()
    }
}

impl<T: Topic> Transport<T> {
    async fn looked(&mut self) {
        match self {
            Self::Directory(directory) => directory.looked().await,
            // Boxed, because an agent waits for many subscriptions at once and most are no sockets.
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

    /// What there was at the start is known.
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
