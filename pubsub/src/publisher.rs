//! Writing the items of one topic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use schemas::{Topic, parse, to_bytes};
use thiserror::Error;

use crate::TopicKey;
use crate::lock::AgentLock;
use crate::place::{Persistence, Root};
use crate::read::{MAX_FILE_BYTES, Owner, read_checked};
use crate::store::{self, BACKUP_SUFFIX, Backup, StoreError};

/// The longest message of EVE's socket protocol; its Go publisher dies of a longer one.
pub const MAX_MESSAGE_BYTES: usize = 65_533;

/// The items of topic `T` that this agent publishes. Starts with what the folder holds.
///
/// Every call does blocking file work with syncs; on a runtime with one thread, call it from
/// `spawn_blocking` if its stall matters.
#[derive(Debug)]
pub struct Publisher<T> {
    folder: PathBuf,
    backup: Backup,
    items: BTreeMap<TopicKey, T>,
    /// Keys whose last write failed: their file may be new but not yet durable.
    unsure: BTreeSet<TopicKey>,
}

/// What a call to [`Publisher::publish`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The file has the new value.
    Written,
    /// The file had an equal value and was left alone; nobody wakes.
    Unchanged,
}

/// Why a value was not published. The item that readers see is the one before.
#[derive(Debug, Error)]
pub enum PublishError {
    /// Another agent's or root's lock was shown.
    #[error("cannot publish {topic} of {agent}: the lock held is that of {held}")]
    WrongLock {
        /// Name of the topic.
        topic: &'static str,
        /// The agent that was asked for.
        agent: String,
        /// The agent whose lock is held.
        held: String,
    },
    /// A value that cannot be JSON.
    #[error("cannot publish {topic} {key}: the value cannot be written as JSON")]
    NotJson {
        /// Name of the topic.
        topic: &'static str,
        /// Key of the item.
        key: TopicKey,
    },
    /// A value that does not fit a message of the socket protocol.
    #[error(
        "cannot publish {topic} {key}: its message has {length} bytes; accepted: at most {MAX_MESSAGE_BYTES}"
    )]
    TooLong {
        /// Name of the topic.
        topic: &'static str,
        /// Key of the item.
        key: TopicKey,
        /// Bytes of the message.
        length: usize,
    },
    /// The file could not be written or removed.
    #[error("cannot publish {topic}")]
    Store {
        /// Name of the topic.
        topic: &'static str,
        /// What failed.
        source: StoreError,
    },
}

impl<T: Topic> Publisher<T> {
    /// Takes over the topic of an agent: makes its folder, removes unfinished files, restores lost items of a
    /// persistent topic from their backups, and reads what is there. `lock` proves that nobody else publishes.
    pub fn open(
        root: &Root,
        agent: &str,
        persistence: Persistence,
        lock: &AgentLock,
    ) -> Result<Self, PublishError> {
        if lock.agent() != agent || lock.root() != root {
            let held = format!("{} below {}", lock.agent(), lock.root().path().display());
            return Err(PublishError::WrongLock { topic: T::NAME, agent: agent.to_owned(), held });
        }
        let backup = match persistence {
            Persistence::Volatile => Backup::None,
            Persistence::Persistent => Backup::Keep,
        };
        let folder = root.folder::<T>(agent, persistence);
        let items = load::<T>(&folder, backup).map_err(failed::<T>)?;
        Ok(Self { folder, backup, items, unsure: BTreeSet::new() })
    }

    /// Publishes an item. On an error (full disk, read-only folder) readers keep the old value: report it and publish
    /// again, after 1 s at first and at most 30 s later.
    pub fn publish(&mut self, key: &TopicKey, value: &T) -> Result<Published, PublishError> {
        let bytes = to_bytes(value);
        check_size::<T>(key, &bytes)?;
        if !self.unsure.contains(key) && self.file_holds(key, value) {
            self.items.insert(key.clone(), value.clone());
            return Ok(Published::Unchanged);
        }
        self.unsure.insert(key.clone());
        store::create_folder(&self.folder)
            .and_then(|()| store::write_durably(&self.folder, &key.file_name(), &bytes, self.backup))
            .map_err(failed::<T>)?;
        self.unsure.remove(key);
        self.items.insert(key.clone(), value.clone());
        Ok(Published::Written)
    }

    /// Withdraws an item. Gives whether its file was there.
    pub fn unpublish(&mut self, key: &TopicKey) -> Result<bool, PublishError> {
        self.unsure.insert(key.clone());
        let removed = store::remove_durably(&self.folder, &key.file_name()).map_err(failed::<T>)?;
        self.unsure.remove(key);
        self.items.remove(key);
        Ok(removed)
    }

    /// An item as last published or loaded.
    pub fn get(&self, key: &TopicKey) -> Option<&T> {
        self.items.get(key)
    }

    /// All items as last published or loaded.
    pub const fn items(&self) -> &BTreeMap<TopicKey, T> {
        &self.items
    }

    /// The folder of the items.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the file, not our memory of it, holds an equal value: somebody may have edited or removed it.
    fn file_holds(&self, key: &TopicKey, value: &T) -> bool {
        read::<T>(&self.folder.join(key.file_name())).is_some_and(|held| held == *value)
    }
}

fn failed<T: Topic>(source: StoreError) -> PublishError {
    PublishError::Store { topic: T::NAME, source }
}

fn check_size<T: Topic>(key: &TopicKey, bytes: &[u8]) -> Result<(), PublishError> {
    if bytes.is_empty() {
        return Err(PublishError::NotJson { topic: T::NAME, key: key.clone() });
    }
    let length = message_bytes(T::NAME, key, bytes.len());
    if MAX_MESSAGE_BYTES < length {
        return Err(PublishError::TooLong { topic: T::NAME, key: key.clone(), length });
    }
    Ok(())
}

/// Bytes of `update <topic> <base64 key> <base64 json>`.
fn message_bytes(topic: &str, key: &TopicKey, json: usize) -> usize {
    "update ".len() + topic.len() + 1 + base64_bytes(key.as_str().len()) + 1 + base64_bytes(json)
}

const fn base64_bytes(plain: usize) -> usize {
    plain.div_ceil(3) * 4
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
    // What a killed predecessor renamed but did not sync becomes durable before we rely on it.
    store::sync_folder(folder)?;
    Ok(file_names(folder)?.iter().filter_map(|name| load_item(folder, name)).collect())
}

fn load_item<T: Topic>(folder: &Path, name: &str) -> Option<(TopicKey, T)> {
    let key = TopicKey::of_file(name.as_ref())?.ok()?;
    let path = folder.join(name);
    let value = read(&path);
    if value.is_none() {
        tracing::warn!("ignored {path:?}: it holds no {}", T::NAME);
    }
    Some((key, value?))
}

/// Puts the backup of an item back when the item itself is missing, empty or unreadable.
fn restore<T: Topic>(folder: &Path, name: &str) -> Result<(), StoreError> {
    let path = folder.join(name);
    let is_item = TopicKey::of_file(name.as_ref()).is_some_and(|key| key.is_ok());
    if !is_item || read::<T>(&path).is_some() {
        return Ok(());
    }
    let Some(value) = read::<T>(&folder.join(format!("{name}{BACKUP_SUFFIX}"))) else {
        return Ok(());
    };
    tracing::warn!("restored {path:?} from its backup: the file was missing or unreadable");
    store::write_durably(folder, name, &to_bytes(&value), Backup::None)
}

fn read<T: Topic>(path: &Path) -> Option<T> {
    let bytes = read_checked(path, MAX_FILE_BYTES, Owner::RootOrSelf).ok()??;
    parse(&bytes).ok()
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
