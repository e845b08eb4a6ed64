//! Serves a topic on its socket, beside its files.
//!
//! One task accepts connections. Each subscriber has a task of its own, which sends the messages of its [`Feed`]. A
//! peer that is bad, silent or slow, or opens too many connections, loses its own connection and disturbs no other.

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

use crate::frame::{MAX_REQUEST_BYTES, Message};
use crate::moments::common_moment;
use crate::send_queue::{SendQueue, Snapshot};
use crate::seqpacket::{self, Connection, ListenError, Listener, Peer, TopicSocket};

/// After a socket that could not be served, or a subscriber that could not be accepted.
const SERVE_AGAIN: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(10) };
/// A peer that says nothing for so long does not want anything.
const SILENCE: Duration = Duration::from_secs(10);
/// The greatest number of connections from one process to one topic. EVE has all its agents in one process: about ten.
const MOST_OF_ONE: usize = 64;
/// The greatest number of connections to one topic.
const MOST: usize = 512;
/// Interval at which we check that the socket's file is still there: it, or its folder, may be removed.
const LOOK: Duration = Duration::from_secs(30);
/// The same message about a peer is logged again after this time.
const TELL_AGAIN: Duration = Duration::from_mins(1);

/// The error when a topic cannot be served because another process serves it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{path:?} is served by {}; two publishers of one topic cannot be, stop the other one",
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
)]
pub struct AlreadyServed {
    path: PathBuf,
    pid: Option<u32>,
}

/// The process that serves this socket now, if there is one.
pub(crate) fn served_by_another(path: &Path) -> Option<AlreadyServed> {
    let TopicSocket::Served(peer) = seqpacket::look_at(path) else { return None };
    Some(AlreadyServed { path: path.to_owned(), pid: peer.and_then(|peer| peer.pid) })
}

/// Serves the socket of a topic as long as it lives.
#[derive(Debug)]
pub(crate) struct Server {
    snapshot: watch::Sender<Snapshot>,
    task: AbortHandle,
    listener: SharedListener,
}

/// Shared by the task, which accepts on the listener, and by the publisher, which removes the socket's file when it
/// ends.
type SharedListener = Arc<Mutex<Option<Arc<Listener>>>>;

/// The topic that is served, and where.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) path: PathBuf,
    pub(crate) topic: String,
    pub(crate) is_persistent: bool,
}

impl Server {
    /// Serves the topic from now on; must be called in a runtime. If the socket cannot be created because of missing
    /// disk space or too many open files, the task tries again.
    pub(crate) fn start(served: Served, snapshot: Snapshot) -> Result<Self, AlreadyServed> {
        let (snapshot, items) = watch::channel(snapshot);
        let listener = SharedListener::default();
        let shared = Arc::clone(&listener);
        let mut socket = ListeningSocket {
            path: served.path.clone(),
            listener: shared,
            failures: 0,
            look: Instant::now(),
        };
        socket.open()?;
        let task = tokio::spawn(serve(served, socket, items)).abort_handle();
        Ok(Self { snapshot, task, listener })
    }

    /// Changes the served content; `change` returns whether it changed anything.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Snapshot) -> bool) {
        self.snapshot.send_if_modified(change);
    }
}

/// When the publisher ends, no new subscriber finds the socket, and connections are closed when the task ends.
impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(listener) = lock(&self.listener).take() {
            listener.unlink();
        }
    }
}

/// Keeps the socket open, and its file in place.
#[derive(Debug)]
struct ListeningSocket {
    path: PathBuf,
    listener: SharedListener,
    failures: u32,
    look: Instant,
}

impl ListeningSocket {
    /// Creates the socket if it is not in its place.
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

/// Accepts connections without end.
async fn serve(served: Served, mut socket: ListeningSocket, items: watch::Receiver<Snapshot>) {
    let mut subscribers = Subscribers::default();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok(connection) => subscribers.admit(connection, &served, &items),
                Err(error) => {
                    subscribers.tell(&format!("cannot accept on `{}`: {error}; trying again", served.path.display()));
                    // Most likely there are too many open files: others have to end first.
                    tokio::time::sleep(SERVE_AGAIN.first).await;
                }
            },
            Some(ended) = subscribers.tasks.join_next_with_id() => subscribers.ended(ended),
            () = sleep_until(socket.look) => {
                if let Err(error) = socket.open() {
                    subscribers.tell(&error.to_string());
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Subscribers {
    tasks: JoinSet<()>,
    /// The process that each task serves.
    peers: BTreeMap<Id, Option<u32>>,
    told: Option<Instant>,
}

impl Subscribers {
    /// Accepts a peer, or hangs up.
    fn admit(&mut self, connection: Connection, served: &Served, items: &watch::Receiver<Snapshot>) {
        let peer = match connection.peer() {
            Ok(peer) => peer,
            Err(error) => return self.tell(&format!("hung up on `{}`: {error}", served.path.display())),
        };
        if let Some(reason) = self.refusal(peer) {
            return self.tell(&format!("hung up on {peer} at `{}`: {reason}", served.path.display()));
        }
        let task = self.tasks.spawn(attend(connection, peer, served.clone(), items.clone()));
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

    /// Logs a text, but at most one line a minute, whatever peers do.
    fn tell(&mut self, text: &str) {
        let now = Instant::now();
        if self.told.is_none_or(|told| TELL_AGAIN <= now - told) {
            self.told = Some(now);
            tracing::warn!("{text}");
        }
    }
}

/// Serves one subscriber until it hangs up or violates the protocol.
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

/// Waits for the request. Returns false if there was none: a peer that only wants to know whether the topic is served
/// hangs up without sending anything.
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

/// Sends all messages of the subscriber's send queue until the peer hangs up.
async fn tell_all(
    connection: &Connection,
    served: &Served,
    items: &mut watch::Receiver<Snapshot>,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let mut queue = SendQueue::new(&served.topic, served.is_persistent);
    loop {
        tokio::select! {
            biased;
            hung_up = hang_up(connection) => return hung_up,
            writable = connection.writable() => writable.map_err(failed)?,
        }
        let saying = queue.next(&items.borrow_and_update());
        let Some(saying) = saying else {
            tokio::select! {
                biased;
                hung_up = hang_up(connection) => return hung_up,
                changed = items.changed() => if changed.is_err() { return Ok(()) },
            }
            continue;
        };
        match connection.try_write(&saying.message.encode()) {
            Ok(()) => queue.sent(saying),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Returns when the peer hangs up, or with an error if it sends a second message, which the protocol does not have.
async fn hang_up(connection: &Connection) -> Result<(), String> {
    match read(connection, &mut [0]).await {
        Ok(0) => Ok(()),
        Ok(_) => Err("it said more than its request".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a message. Cancel-safe: it waits first.
async fn read(connection: &Connection, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        connection.readable().await?;
        match connection.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}
