//! Writes the items of one topic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemas::{Topic, parse, to_bytes};
use thiserror::Error;

use crate::TopicKey;
use crate::directory::read_restarted;
use crate::frame::{MAX_MESSAGE_BYTES, update_bytes};
use crate::lock::AgentLock;
use crate::place::{Persistence, RESTARTED, Root, TopicPlace};
use crate::read::{MAX_FILE_BYTES, Owner, read_checked};
use crate::send_queue::Snapshot;
use crate::server::{AlreadyServed, Served, Server, served_by_another};
use crate::store::{self, BACKUP_SUFFIX, Backup, StoreError};

/// Publishes the items of topic `T`. A new publisher has the items that are in the folder.
///
/// Every call does blocking file work with fsync. On a runtime with one thread, call it from `spawn_blocking` if the
/// others must not wait.
#[derive(Debug)]
pub struct Publisher<T> {
    place: TopicPlace,
    folder: PathBuf,
    backup: Backup,
    items: BTreeMap<TopicKey, T>,
    /// Keys whose last write failed: their file may be new but not yet durable.
    unsure: BTreeSet<TopicKey>,
    restarted: u64,
    server: Option<Server>,
}

/// Result of [`Publisher::publish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The file has the new value.
    Written,
    /// The file had an equal value and was left alone; no reader wakes up.
    Unchanged,
}

/// Reasons why a value was not published. Readers still see the previous value.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The lock is that of another agent or another root.
    #[error("cannot publish {topic} of {agent}: the lock held is that of {held}")]
    WrongLock {
        /// Name of the topic.
        topic: String,
        /// The agent whose topic it is.
        agent: String,
        /// The agent whose lock is held.
        held: String,
    },
    /// The value cannot be written as JSON.
    #[error("cannot publish {topic} {key}: the value cannot be written as JSON")]
    NotJson {
        /// Name of the topic.
        topic: String,
        /// Key of the item.
        key: TopicKey,
    },
    /// The value is too long for its file, or, on a served topic, for a message of the socket protocol.
    #[error("cannot publish {topic} {key}: its {what} has {length} bytes; accepted: at most {limit}")]
    TooLong {
        /// Name of the topic.
        topic: String,
        /// Key of the item.
        key: TopicKey,
        /// The part that is too long: `file` or `message`.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The greatest length in bytes.
        limit: usize,
    },
    /// The file could not be written or removed.
    #[error("cannot publish {topic}")]
    Store {
        /// Name of the topic.
        topic: String,
        /// The failed file operation.
        source: StoreError,
    },
    /// Another process serves the topic's socket.
    #[error("cannot publish {topic}")]
    Served {
        /// Name of the topic.
        topic: String,
        /// The process that serves it, and the socket.
        source: AlreadyServed,
    },
}

impl PublishError {
    /// True if this value can never be published here, because it is too long or cannot be JSON. Any other failure may
    /// pass: a full disk, a read-only folder, a bad sector.
    pub const fn is_for_good(&self) -> bool {
        match self {
            Self::NotJson { .. } | Self::TooLong { .. } | Self::WrongLock { .. } => true,
            Self::Store { .. } | Self::Served { .. } => false,
        }
    }
}

impl<T: Topic> Publisher<T> {
    /// Takes over the topic of an agent: creates its folder, removes unfinished files, restores lost items of a
    /// persistent topic from their backups, and reads the items. `lock` proves that no other agent of ours publishes
    /// the topic; a served socket shows that another program does, and is an error.
    pub fn open(
        root: &Root,
        agent: &str,
        persistence: Persistence,
        lock: &AgentLock,
    ) -> Result<Self, PublishError> {
        let place = root.topic::<T>(agent, persistence);
        if lock.agent() != place.agent() || lock.root() != place.root() {
            let held = format!("{} below {}", lock.agent(), lock.root().path().display());
            let (topic, agent) = (place.topic().to_owned(), place.agent().to_owned());
            return Err(PublishError::WrongLock { topic, agent, held });
        }
        if let Some(source) = served_by_another(&place.socket()) {
            return Err(PublishError::Served { topic: place.topic().to_owned(), source });
        }
        let backup = match persistence {
            Persistence::Volatile => Backup::None,
            Persistence::Persistent => Backup::Keep,
        };
        let folder = place.folder();
        let items = load::<T>(&folder, backup).map_err(|source| failed(&place, source))?;
        let restarted = read_restarted(&folder).unwrap_or(1);
        Ok(Self { place, folder, backup, items, unsure: BTreeSet::new(), restarted, server: None })
    }

    /// Also serves the items on the topic's socket, until this publisher ends. Must be called in a tokio runtime.
    ///
    /// Each value is in its file before it is sent. An item that another program has put into the folder and that is
    /// too long for a message is not served.
    pub fn served(mut self) -> Result<Self, PublishError> {
        self.serve()?;
        Ok(self)
    }

    /// As [`Publisher::served`], but later: for a publisher whose first served item must be its own, not what its
    /// folder held.
    pub fn serve(&mut self) -> Result<(), PublishError> {
        if self.server.is_some() {
            return Ok(());
        }
        let mut snapshot = Snapshot::default();
        for (key, value) in &self.items {
            let bytes = to_bytes(value);
            match check_message(&self.place, key, &bytes) {
                Ok(()) => drop(snapshot.set(key, &bytes)),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        snapshot.set_restarted(self.restarted);
        let (path, topic) = (self.place.socket(), self.place.topic().to_owned());
        let served = Served { path, topic: topic.clone(), is_persistent: self.backup == Backup::Keep };
        let server =
            Server::start(served, snapshot).map_err(|source| PublishError::Served { topic, source })?;
        self.server = Some(server);
        Ok(())
    }

    /// Publishes an item. On an error (full disk, read-only folder) readers keep the old value: report the error and
    /// publish again, first after 1 s, at most every 30 s.
    pub fn publish(&mut self, key: &TopicKey, value: &T) -> Result<Published, PublishError> {
        let bytes = to_bytes(value);
        check_file::<T>(key, &bytes)?;
        if self.server.is_some() {
            check_message(&self.place, key, &bytes)?;
        }
        if !self.unsure.contains(key) && self.file_holds(key, value, &bytes) {
            self.took(key, value, &bytes);
            return Ok(Published::Unchanged);
        }
        self.unsure.insert(key.clone());
        store::create_folder(&self.folder)
            .and_then(|()| store::write_durably(&self.folder, &key.file_name(), &bytes, self.backup))
            .map_err(|source| failed(&self.place, source))?;
        self.unsure.remove(key);
        self.took(key, value, &bytes);
        Ok(Published::Written)
    }

    /// Sends a value to subscribers; its file has it already.
    fn took(&mut self, key: &TopicKey, value: &T, bytes: &[u8]) {
        self.items.insert(key.clone(), value.clone());
        if let Some(server) = &self.server {
            server.change(|snapshot| snapshot.set(key, bytes));
        }
    }

    /// Removes an item. Returns true if its file was there.
    pub fn unpublish(&mut self, key: &TopicKey) -> Result<bool, PublishError> {
        self.unsure.insert(key.clone());
        let removed = store::remove_durably(&self.folder, &key.file_name())
            .map_err(|source| failed(&self.place, source))?;
        self.unsure.remove(key);
        self.items.remove(key);
        if let Some(server) = &self.server {
            server.change(|snapshot| snapshot.remove(key));
        }
        Ok(removed)
    }

    /// Raises the restart counter by one: it says that this publisher has started again. The topics of drains never use
    /// it.
    pub fn signal_restarted(&mut self) -> Result<(), PublishError> {
        self.set_restarted(self.restarted.saturating_add(1))
    }

    /// Sets the restart counter back to 0.
    pub fn clear_restarted(&mut self) -> Result<(), PublishError> {
        self.set_restarted(0)
    }

    /// The restart counter.
    pub const fn restarted(&self) -> u64 {
        self.restarted
    }

    fn set_restarted(&mut self, count: u64) -> Result<(), PublishError> {
        let folder = &self.folder;
        let stored = if count == 0 {
            store::remove_durably(folder, RESTARTED).map(drop)
        } else {
            store::create_folder(folder).and_then(|()| {
                store::write_durably(folder, RESTARTED, count.to_string().as_bytes(), Backup::None)
            })
        };
        stored.map_err(|source| failed(&self.place, source))?;
        self.restarted = count;
        if let Some(server) = &self.server {
            server.change(|snapshot| snapshot.set_restarted(count));
        }
        Ok(())
    }

    /// An item as last published or loaded.
    pub fn get(&self, key: &TopicKey) -> Option<&T> {
        self.items.get(key)
    }

    /// True if another program has removed this item from its folder, with the backup.
    pub fn was_removed(&self, key: &TopicKey) -> bool {
        let name = key.file_name();
        let is_gone = |name: &str| {
            let found = self.folder.join(name).symlink_metadata();
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let is_known = self.items.contains_key(key) && !self.unsure.contains(key);
        is_known && self.folder.is_dir() && is_gone(&name) && is_gone(&format!("{name}{BACKUP_SUFFIX}"))
    }

    /// All items as last published or loaded.
    pub const fn items(&self) -> &BTreeMap<TopicKey, T> {
        &self.items
    }

    /// The folder of the items.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// True if the file itself holds an equal value; it may have been edited or removed since we wrote it.
    fn file_holds(&self, key: &TopicKey, value: &T, bytes: &[u8]) -> bool {
        let path = self.folder.join(key.file_name());
        let found = read_checked(&path, MAX_FILE_BYTES, Owner::RootOrSelf).unwrap_or_default();
        found.is_some_and(|found| found == bytes || parse(&found).is_ok_and(|held: T| held == *value))
    }
}

fn failed(place: &TopicPlace, source: StoreError) -> PublishError {
    PublishError::Store { topic: place.topic().to_owned(), source }
}

/// Refuses a value that is too long: no reader would read its file.
fn check_file<T: Topic>(key: &TopicKey, bytes: &[u8]) -> Result<(), PublishError> {
    let (topic, key) = (T::NAME.to_owned(), key.clone());
    let (length, limit) = (bytes.len(), T::MAX_BYTES);
    if bytes.is_empty() {
        Err(PublishError::NotJson { topic, key })
    } else if limit < length {
        Err(PublishError::TooLong { topic, key, what: "file", length, limit })
    } else {
        Ok(())
    }
}

/// Refuses a value that is too long for a message. Only for topics that are served.
fn check_message(place: &TopicPlace, key: &TopicKey, bytes: &[u8]) -> Result<(), PublishError> {
    let length = update_bytes(place.topic(), key.as_str(), bytes.len());
    if MAX_MESSAGE_BYTES < length {
        let (topic, key, limit) = (place.topic().to_owned(), key.clone(), MAX_MESSAGE_BYTES);
        return Err(PublishError::TooLong { topic, key, what: "message", length, limit });
    }
    Ok(())
}

fn load<T: Topic>(folder: &Path, backup: Backup) -> Result<BTreeMap<TopicKey, T>, StoreError> {
    store::create_folder(folder)?;
    let leftovers = store::remove_leftovers(folder)?;
    if leftovers != 0 {
        tracing::info!("removed {leftovers} unfinished files from {folder:?}");
    }
    let names = file_names(folder)?;
    if backup == Backup::Keep {
        for name in names.iter().filter_map(|name| name.strip_suffix(BACKUP_SUFFIX)) {
            restore::<T>(folder, name)?;
        }
    }
    // Makes the folder durable before we rely on it: a killed predecessor may have renamed a file without syncing the
    // folder.
    store::sync_folder(folder)?;
    file_names(folder)?.iter().filter_map(|name| load_item(folder, name).transpose()).collect()
}

fn load_item<T: Topic>(folder: &Path, name: &str) -> Result<Option<(TopicKey, T)>, StoreError> {
    let Some(Ok(key)) = TopicKey::of_file(name.as_ref()) else {
        return Ok(None);
    };
    let path = folder.join(name);
    let value = held(&path)?;
    if value.is_none() {
        tracing::warn!("ignored {path:?}: it holds no {}", T::NAME);
    }
    Ok(value.map(|value| (key, value)))
}

/// Replaces an item by its backup if the item is missing, empty or unreadable.
fn restore<T: Topic>(folder: &Path, name: &str) -> Result<(), StoreError> {
    let path = folder.join(name);
    let is_item = TopicKey::of_file(name.as_ref()).is_some_and(|key| key.is_ok());
    if !is_item || held::<T>(&path)?.is_some() {
        return Ok(());
    }
    let Some(value) = held::<T>(&folder.join(format!("{name}{BACKUP_SUFFIX}")))? else {
        return Ok(());
    };
    tracing::warn!("restored {path:?} from its backup: the file was missing or unreadable");
    store::write_durably(folder, name, &to_bytes(&value), Backup::None)
}

/// The item in a file; `None` if the file is missing or corrupt. An error means that the file could not be read at the
/// moment (EMFILE, EIO): it is not lost, and restoring the backup would put an older value in its place.
fn held<T: Topic>(path: &Path) -> Result<Option<T>, StoreError> {
    match read_checked(path, MAX_FILE_BYTES, Owner::RootOrSelf) {
        Ok(bytes) => Ok(bytes.and_then(|bytes| parse(&bytes).ok())),
        Err(refusal) if refusal.is_passing => {
            Err(StoreError::new("read", path, io::Error::other(refusal.reason)))
        }
        Err(_) => Ok(None),
    }
}

fn file_names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |error| StoreError::new("list folder", folder, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
