//! Reads a topic from its publisher's socket.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use schemas::{Backoff, Topic};
use tokio::time::{Instant, sleep_until};

use crate::TopicKey;
use crate::frame::{MAX_READ_BYTES, Message};
use crate::mirror::{Mirror, PeerError};
use crate::moments::common_moment;
use crate::place::TopicPlace;
use crate::read::Refusal;
use crate::seqpacket::Connection;

/// After a dial that led to nothing.
const DIAL_AGAIN: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(10) };
/// A publisher that says nothing for so long after a request does not serve.
const SILENCE: Duration = Duration::from_secs(10);
/// Messages that are read in one go, before other tasks get their turn.
const MOST_AT_ONCE: usize = 64;

/// The socket transport of a subscription.
#[derive(Debug)]
pub(crate) struct Dialled<T> {
    topic: String,
    path: PathBuf,
    mirror: Mirror<T>,
    link: Link,
    /// Number of failed connections in a row.
    failures: u32,
    /// Raised whenever items, refusals or the restart counter have changed, and when all items have arrived.
    version: u64,
    /// All items have arrived once.
    was_complete: bool,
    buffer: Vec<u8>,
    told: Option<String>,
}

#[derive(Debug)]
enum Link {
    /// There is no connection. The next try is at `until`.
    Down { until: Instant },
    /// There is a connection. The publisher's `hello` must arrive before `greeting_by`.
    Up { connection: Connection, greeting_by: Instant },
}

impl<T: Topic> Dialled<T> {
    /// Prepares to follow the socket; the first call of [`Dialled::looked`] connects.
    pub(crate) fn open(place: &TopicPlace) -> Self {
        let (topic, path) = (place.topic().to_owned(), place.socket());
        Self {
            mirror: Mirror::new(&topic, &path),
            topic,
            path,
            link: Link::Down { until: Instant::now() },
            failures: 0,
            version: 0,
            was_complete: false,
            // One byte more than the longest message, so that a message that was cut off can be recognised.
            buffer: vec![0; MAX_READ_BYTES + 1],
            told: None,
        }
    }

    pub(crate) const fn items(&self) -> &BTreeMap<TopicKey, T> {
        self.mirror.items()
    }

    pub(crate) fn refused(&self) -> Vec<Refusal> {
        self.mirror.refused()
    }

    pub(crate) const fn restarted(&self) -> u64 {
        self.mirror.restarted()
    }

    /// The restart counter, if the present publisher has sent it.
    pub(crate) fn told_restarted(&self) -> Option<u64> {
        self.mirror.told_restarted()
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// The publisher is connected and has sent all items.
    pub(crate) fn is_following(&self) -> bool {
        self.mirror.is_following()
    }

    /// A publisher has sent all items once.
    pub(crate) const fn was_complete(&self) -> bool {
        self.was_complete
    }

    /// Connects at once, without waiting for the end of the pause, because the socket may have appeared.
    pub(crate) fn dial_now(&mut self) {
        if let Link::Down { until } = &mut self.link {
            *until = Instant::now();
        }
    }

    /// Returns after a connection was tried or messages were read; the version says whether anything changed.
    /// Cancel-safe: nothing is changed before the last wait.
    pub(crate) async fn looked(&mut self) {
        match &self.link {
            Link::Down { until } => {
                sleep_until(*until).await;
                self.dial();
            }
            Link::Up { connection, greeting_by } => {
                let is_silent = async {
                    sleep_until(*greeting_by).await;
                    if self.mirror.is_greeted() {
                        std::future::pending::<()>().await;
                    }
                };
                let result = tokio::select! {
                    biased;
                    readable = connection.readable() => readable,
                    () = is_silent => Err(io::Error::other("it said nothing for 10 s")),
                };
                match result {
                    Ok(()) => self.take_all(),
                    Err(error) => self.lose(&error.to_string()),
                }
            }
        }
    }

    fn dial(&mut self) {
        let request = Message::Request { topic: self.topic.clone() };
        match Connection::dial(&self.path, &request.encode()) {
            Ok(connection) => {
                self.mirror.connected();
                self.link = Link::Up { connection, greeting_by: Instant::now() + SILENCE };
            }
            Err(error) => self.lose(&error.to_string()),
        }
    }

    /// Reads the messages that have arrived.
    fn take_all(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Link::Up { connection, .. } = &self.link else { return };
            match connection.try_read(&mut self.buffer) {
                Ok(0) => return self.lose("the publisher hung up"),
                Ok(length) => {
                    if let Err(error) = self.take(length) {
                        return self.lose(&error.to_string());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.lose(&error.to_string()),
            }
        }
    }

    /// Handles the message in the buffer.
    fn take(&mut self, length: usize) -> Result<(), PeerError> {
        let was_following = self.mirror.is_following();
        let has_changed = self.mirror.take(self.buffer.get(..length).unwrap_or_default())?;
        let is_complete = !was_following && self.mirror.is_following();
        if is_complete {
            tracing::debug!("following {:?}", self.path);
            (self.failures, self.told, self.was_complete) = (0, None, true);
        }
        self.version += u64::from(has_changed || is_complete);
        Ok(())
    }

    /// Ends the connection, or notes that there was none. If a publisher hangs up again and again, the pauses before
    /// the next connection get longer.
    fn lose(&mut self, reason: &str) {
        if self.told.as_deref() != Some(reason) {
            tracing::debug!("not connected to {:?}: {reason}", self.path);
            self.told = Some(reason.to_owned());
        }
        self.version += u64::from(self.mirror.is_following());
        self.mirror.lost();
        self.failures = self.failures.saturating_add(1);
        self.link = Link::Down { until: common_moment(DIAL_AGAIN.after(self.failures)) };
    }
}
