//! Serving a topic on its socket, beside its files.
//!
//! One task accepts; each subscriber has a task of its own, which takes what it says from the [`Feed`]. A peer that is
//! bad, silent, slow or many costs itself its connection and nobody else anything.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemas::Backoff;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use crate::feed::{Feed, Snapshot};
use crate::frame::{MAX_REQUEST_BYTES, Message};
use crate::moments::common_moment;
use crate::seqpacket::{self, Connection, ListenError, Listener, Peer, TopicSocket};

/// After a socket that could not be served, or a subscriber that could not be accepted.
const SERVE_AGAIN: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(10) };
/// A peer that says nothing for so long does not want anything.
const SILENCE: Duration = Duration::from_secs(10);
/// Connections of one process to one topic. EVE has all its agents in one process: about ten.
const MOST_OF_ONE: usize = 64;
/// Connections to one topic.
const MOST: usize = 512;
/// Somebody may remove the socket, or its folder: so often it is looked whether it is there.
const LOOK: Duration = Duration::from_secs(30);
/// The same about a peer is told again after so long.
const TELL_AGAIN: Duration = Duration::from_mins(1);

/// Why a topic cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{path:?} is served by {}; two publishers of one topic cannot be, stop the other one",
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
)]
pub struct AlreadyServed {
    path: PathBuf,
    pid: Option<u32>,
}

/// Whoever serves this socket now.
pub(crate) fn served_by_another(path: &Path) -> Option<AlreadyServed> {
    let TopicSocket::Served(peer) = seqpacket::look_at(path) else { return None };
    Some(AlreadyServed { path: path.to_owned(), pid: peer.and_then(|peer| peer.pid) })
}

/// The socket of a topic.
#[derive(Debug)]
pub(crate) struct Server {
    snapshot: watch::Sender<Snapshot>,
    task: AbortHandle,
    listener: SharedListener,
}

/// The task accepts on it; the publisher's end removes its file at once.
type SharedListener = Arc<Mutex<Option<Arc<Listener>>>>;

/// What is served.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) path: PathBuf,
    pub(crate) topic: String,
    pub(crate) is_persistent: bool,
}

impl Server {
    /// Serves the topic from now on, in the runtime that this is called in. A socket that cannot be made, for want of
    /// space or files, is tried again.
    pub(crate) fn start(served: Served, snapshot: Snapshot) -> Result<Self, AlreadyServed> {
        let (snapshot, items) = watch::channel(snapshot);
        let listener = SharedListener::default();
        let shared = Arc::clone(&listener);
        let mut door =
            Door { path: served.path.clone(), listener: shared, failures: 0, look: Instant::now() };
        door.open()?;
        let task = tokio::spawn(serve(served, door, items)).abort_handle();
        Ok(Self { snapshot, task, listener })
    }

    /// Changes what is served; `change` says whether it did.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Snapshot) -> bool) {
        self.snapshot.send_if_modified(change);
    }
}

/// Subscribers are hung up on once the task ends; nobody finds the socket from now on.
impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(listener) = lock(&self.listener).take() {
            listener.unlink();
        }
    }
}

/// The socket, kept open whatever becomes of its file.
#[derive(Debug)]
struct Door {
    path: PathBuf,
    listener: SharedListener,
    failures: u32,
    look: Instant,
}

impl Door {
    /// Makes the socket if it is not there.
    fn open(&mut self) -> Result<(), AlreadyServed> {
        if self.listener().is_some_and(|listener| listener.is_in_place()) {
            self.look = common_moment(LOOK);
            return Ok(());
        }
        match make(&self.path) {
            Ok(listener) => {
                *lock(&self.listener) = Some(Arc::new(listener));
                self.failures = 0;
                self.look = common_moment(LOOK);
                Ok(())
            }
            Err(ListenError::Live(pid)) => {
                self.look = common_moment(LOOK);
                Err(AlreadyServed { path: self.path.clone(), pid })
            }
            Err(ListenError::Io(error)) => {
                if self.failures == 0 {
                    tracing::error!("cannot serve {:?}: {error}; trying again", self.path);
                }
                self.failures = self.failures.saturating_add(1);
                self.look = common_moment(SERVE_AGAIN.after(self.failures));
                Ok(())
            }
        }
    }

    fn listener(&self) -> Option<Arc<Listener>> {
        lock(&self.listener).clone()
    }

    async fn accept(&self) -> io::Result<Connection> {
        match self.listener() {
            Some(listener) => listener.accept().await,
            None => pending().await,
        }
    }
}

fn lock(listener: &SharedListener) -> MutexGuard<'_, Option<Arc<Listener>>> {
    listener.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make(path: &Path) -> Result<Listener, ListenError> {
    if let Some(folder) = path.parent() {
        crate::store::create_folder(folder).map_err(|error| io::Error::from(error.io().kind()))?;
    }
    Listener::bind(path)
}

/// Accepts, for ever.
async fn serve(served: Served, mut door: Door, items: watch::Receiver<Snapshot>) {
    let mut room = Room::default();
    loop {
        tokio::select! {
            accepted = door.accept() => match accepted {
                Ok(connection) => room.admit(connection, &served, &items),
                Err(error) => {
                    room.tell(&format!("cannot accept on `{}`: {error}; trying again", served.path.display()));
                    // Most likely there are too many open files: others have to end first.
                    tokio::time::sleep(SERVE_AGAIN.first).await;
                }
            },
            Some(ended) = room.subscribers.join_next_with_id() => room.ended(ended),
            () = sleep_until(door.look) => {
                if let Err(error) = door.open() {
                    room.tell(&error.to_string());
                }
            }
        }
    }
}

/// All subscribers.
#[derive(Debug, Default)]
struct Room {
    subscribers: JoinSet<()>,
    /// Whose task each is.
    peers: BTreeMap<Id, Option<u32>>,
    told: Option<Instant>,
}

impl Room {
    /// Lets a peer in, or hangs up.
    fn admit(&mut self, connection: Connection, served: &Served, items: &watch::Receiver<Snapshot>) {
        let peer = match connection.peer() {
            Ok(peer) => peer,
            Err(error) => return self.tell(&format!("hung up on `{}`: {error}", served.path.display())),
        };
        if let Some(reason) = self.refusal(peer) {
            return self.tell(&format!("hung up on {peer} at `{}`: {reason}", served.path.display()));
        }
        let task = self.subscribers.spawn(attend(connection, peer, served.clone(), items.clone()));
        self.peers.insert(task.id(), peer.pid);
    }

    fn refusal(&self, peer: Peer) -> Option<String> {
        if !peer.is_trusted() {
            return Some("only root and our own user are served".to_owned());
        }
        let of_this_one = self.peers.values().filter(|pid| **pid == peer.pid).count();
        if MOST_OF_ONE <= of_this_one {
            return Some(format!("it has {of_this_one} connections; accepted: {MOST_OF_ONE}"));
        }
        (MOST <= self.peers.len()).then(|| format!("there are {MOST} connections; accepted: {MOST}"))
    }

    fn ended(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.peers.remove(&id);
    }

    /// At most one line a minute, whatever peers do.
    fn tell(&mut self, text: &str) {
        let now = Instant::now();
        if self.told.is_none_or(|told| TELL_AGAIN <= now - told) {
            self.told = Some(now);
            tracing::warn!("{text}");
        }
    }
}

/// One subscriber, until it hangs up or is bad.
async fn attend(connection: Connection, peer: Peer, served: Served, mut items: watch::Receiver<Snapshot>) {
    let result = match timeout(SILENCE, request(&connection, &served.topic)).await {
        Ok(Ok(false)) => Ok(()),
        Ok(Ok(true)) => tell_all(&connection, &served, &mut items).await,
        Ok(Err(reason)) => Err(reason),
        Err(_) => Err(format!("it said nothing for {} s", SILENCE.as_secs())),
    };
    match result {
        Ok(()) => tracing::debug!("{peer} hung up at {:?}", served.path),
        Err(reason) => tracing::info!("hung up on {peer} at {:?}: {reason}", served.path),
    }
}

/// Waits for the request. Says whether there was one: whoever only wants to know whether the topic is served hangs up
/// without a word.
async fn request(connection: &Connection, topic: &str) -> Result<bool, String> {
    let mut buffer = [0; MAX_REQUEST_BYTES + 1];
    let length = read(connection, &mut buffer).await.map_err(|error| error.to_string())?;
    let Some(datagram) = buffer.get(..length).filter(|_| length <= MAX_REQUEST_BYTES) else {
        return Err(format!("a request of over {MAX_REQUEST_BYTES} bytes"));
    };
    if datagram.is_empty() {
        return Ok(false);
    }
    let message = Message::decode(datagram).map_err(|error| error.to_string())?;
    if message == (Message::Request { topic: topic.to_owned() }) {
        Ok(true)
    } else {
        Err(format!("its first word was about `{}`; here is {topic}", message.topic().escape_debug()))
    }
}

/// Says whatever there is to say, until the peer hangs up.
async fn tell_all(
    connection: &Connection,
    served: &Served,
    items: &mut watch::Receiver<Snapshot>,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let mut feed = Feed::new(&served.topic, served.is_persistent);
    loop {
        tokio::select! {
            biased;
            hung_up = hang_up(connection) => return hung_up,
            writable = connection.writable() => writable.map_err(failed)?,
        }
        let saying = feed.next(&items.borrow_and_update());
        let Some(saying) = saying else {
            tokio::select! {
                biased;
                hung_up = hang_up(connection) => return hung_up,
                changed = items.changed() => if changed.is_err() { return Ok(()) },
            }
            continue;
        };
        match connection.try_write(&saying.message.encode()) {
            Ok(()) => feed.sent(saying),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Ends when the peer does, or says a second thing: there is none to say.
async fn hang_up(connection: &Connection) -> Result<(), String> {
    match read(connection, &mut [0]).await {
        Ok(0) => Ok(()),
        Ok(_) => Err("it said more than its request".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Cancel-safe: it waits first.
async fn read(connection: &Connection, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        connection.readable().await?;
        match connection.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
