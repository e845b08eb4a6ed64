//! Follows a topic by its socket while its publisher runs, and by its folder while it does not.

use std::collections::BTreeMap;

use schemas::Topic;

use crate::TopicKey;
use crate::dialled::Dialled;
use crate::directory::Directory;
use crate::place::TopicPlace;
use crate::read::Refusal;

/// Both transports; one of them is shown to the reader.
#[derive(Debug)]
pub(crate) struct Either<T> {
    directory: Directory<T>,
    socket: Dialled<T>,
    /// Raised whenever the shown values have changed.
    version: u64,
}

impl<T: Topic> Either<T> {
    pub(crate) fn open(place: &TopicPlace) -> Self {
        let (directory, socket) = (Directory::open_beside_socket(place), Dialled::open(place));
        Self { directory, socket, version: 0 }
    }

    /// The publisher is connected and has sent all items.
    pub(crate) fn is_by_socket(&self) -> bool {
        self.socket.is_following()
    }

    pub(crate) fn items(&self) -> &BTreeMap<TopicKey, T> {
        if self.is_by_socket() { self.socket.items() } else { self.directory.items() }
    }

    pub(crate) fn refused(&self) -> Vec<Refusal> {
        if self.is_by_socket() { self.socket.refused() } else { self.directory.refused() }
    }

    /// The restart counter. A publisher does not send a counter of 0; then the folder's counter is shown.
    pub(crate) fn restarted(&self) -> u64 {
        self.socket.told_restarted().unwrap_or_else(|| self.directory.restarted())
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Returns after the folder or the socket was read; the version says whether anything changed. Cancel-safe: nothing
    /// is changed before the last wait.
    pub(crate) async fn looked(&mut self) {
        let before = self.shown();
        tokio::select! {
            biased;
            () = self.socket.looked() => self.look_when_lost(before.0),
            // The socket may have appeared.
            () = self.directory.looked() => self.socket.dial_now(),
        }
        self.version += u64::from(self.shown() != before);
    }

    /// Reads the folder when the connection was lost, because the last read may be older than the values that the
    /// socket sent.
    fn look_when_lost(&mut self, was_by_socket: bool) {
        if was_by_socket && !self.is_by_socket() {
            self.directory.look();
        }
    }

    fn shown(&self) -> (bool, u64, u64) {
        let is_by_socket = self.is_by_socket();
        let version = if is_by_socket { self.socket.version() } else { self.directory.version() };
        (is_by_socket, version, self.restarted())
    }
}
