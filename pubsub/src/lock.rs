//! One process per agent: a lock that is held from the agent's start to its exit.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use schemas::agent::shown;
use thiserror::Error;

use crate::Root;
use crate::file_lock::{Access, Found, ask, open, try_lock};
use crate::place::PID;
use crate::store::{self, StoreError};

/// How often the lock file is opened again when it is removed or replaced while it is being locked.
const MOST_TRIES: u32 = 8;

/// Proof that this process is the agent. The kernel releases the lock when the process ends, however it ends.
///
/// The lock is an open-file-description lock: it also excludes a second agent in the same process, and asking for its
/// holder ([`lock_holder`]) locks nothing.
#[derive(Debug)]
pub struct AgentLock {
    root: Root,
    agent: String,
    // The file is locked as long as it is open. It is replaced when it was removed from its place.
    file: Mutex<File>,
}

/// Reasons why an agent cannot start, or must end.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process is this agent.
    #[error("{} is already running{}: {path:?} is locked; stop it first", shown(agent), pid_text(*pid))]
    Held {
        /// Wire name of the agent.
        agent: String,
        /// Path of the lock file.
        path: PathBuf,
        /// Id of the process that holds the lock; `None` if it has not written it yet.
        pid: Option<u32>,
    },
    /// A program that is no agent has a read lock on the file.
    #[error(
        "a program that is no agent holds a read lock on {path:?}, so {} cannot lock it: remove that file, the agent \
         makes a new one",
        shown(agent)
    )]
    Reader {
        /// Wire name of the agent.
        agent: String,
        /// Path of the lock file.
        path: PathBuf,
    },
    /// The lock file cannot be created or asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The process that holds an agent's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Id of the process; `None` if it has not written it yet.
    pub pid: Option<u32>,
}

/// Result of [`AgentLock::keep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The lock file is in its place.
    InPlace,
    /// The lock file was removed or replaced; it has been created and locked again.
    MadeAgain,
}

impl AgentLock {
    /// Takes the agent's lock and writes its pid file.
    pub fn acquire(root: &Root, agent: &str) -> Result<Self, LockError> {
        let file = lock_file(root, agent)?;
        Ok(Self { root: root.clone(), agent: agent.to_owned(), file: Mutex::new(file) })
    }

    /// Name of the agent that this process is.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The root below which the agent runs.
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Also writes the process id where EVE's watchdog expects it: for an agent beside EVE's zedbox.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_eves_pid(&self) -> Result<(), StoreError> {
        store::write_public(&self.root.join("/run"), &format!("{}.pid", self.agent), own_pid().as_bytes())
    }

    /// Checks that the lock file is still in its place, and creates it again if it is not. Call this every few seconds:
    /// without its file a running agent looks as if it did not run, and a second one could start.
    ///
    /// # Errors
    /// [`LockError::Held`]: another process has become the agent meanwhile, so this one has to end. After any other
    /// error try again.
    pub fn keep(&self) -> Result<Kept, LockError> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if is_in_place(&held, &self.root.lock(&self.agent)) {
            if !self.root.pid(&self.agent).exists() {
                // The disk was full when the agent started, or somebody has removed the pid file.
                write_pid(&held, &own_pid())
                    .map_err(|error| StoreError::new("write", &self.root.lock(&self.agent), error))?;
                write_pid_file(&self.root, &self.agent)?;
            }
            return Ok(Kept::InPlace);
        }
        *held = lock_file(&self.root, &self.agent)?;
        Ok(Kept::MadeAgain)
    }
}

/// An agent that ends in good order removes its pid file, because its process id may soon belong to another program.
impl Drop for AgentLock {
    fn drop(&mut self) {
        let held = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        if is_in_place(held, &self.root.lock(&self.agent)) {
            // The removal is not durable, and nothing depends on it: a killed agent leaves its pid file too.
            fs::remove_file(self.root.pid(&self.agent)).unwrap_or_default();
        }
    }
}

/// The process that holds the agent's lock; `None` if the lock is free or was never created. The call locks nothing.
///
/// A read lock does not count: an agent never has one. [`crate::presence()`] says whether an agent runs.
pub fn lock_holder(root: &Root, agent: &str) -> Result<Option<Holder>, StoreError> {
    let path = root.lock(agent);
    let mut file = match open(&path, Access::Ask) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::new("open", &path, error)),
    };
    let found = ask(&file).map_err(|error| StoreError::new("ask for the lock of", &path, error))?;
    Ok((found == Found::WriteLock).then(|| Holder { pid: read_pid(&mut file) }))
}

/// Creates, locks and fills the files of an agent.
fn lock_file(root: &Root, agent: &str) -> Result<File, LockError> {
    let path = root.lock(agent);
    store::create_public_folder(&root.lock_folder_of(agent))?;
    let file = locked(&path, agent)?;
    let wrote = write_pid(&file, &own_pid()).map_err(|error| StoreError::new("write", &path, error));
    // The lock needs no room, and [`AgentLock::keep`] writes the process id later.
    wrote.or_else(unless_full)?;
    write_pid_file(root, agent).or_else(unless_full)?;
    Ok(file)
}

/// No error if there is no room: an agent starts also while the disk is full.
fn unless_full(error: StoreError) -> Result<(), StoreError> {
    let is_full = matches!(error.io().kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if is_full { Ok(()) } else { Err(error) }
}

fn write_pid_file(root: &Root, agent: &str) -> Result<(), StoreError> {
    store::write_public(&root.lock_folder_of(agent), PID, own_pid().as_bytes())
}

fn own_pid() -> String {
    std::process::id().to_string()
}

/// The file at `path`, locked. If the file is removed between opening and locking, it is not the agent's lock any more,
/// and the new one is opened.
fn locked(path: &Path, agent: &str) -> Result<File, LockError> {
    let failed = |operation| move |error| LockError::from(StoreError::new(operation, path, error));
    for _ in 0..MOST_TRIES {
        let mut file = open(path, Access::Lock).map_err(failed("open"))?;
        if !try_lock(&file).map_err(failed("lock"))? {
            let (agent, path) = (agent.to_owned(), path.to_owned());
            return Err(match ask(&file) {
                Ok(Found::ReadLock) => LockError::Reader { agent, path },
                Ok(Found::WriteLock | Found::Nothing) | Err(_) => {
                    LockError::Held { agent, pid: read_pid(&mut file), path }
                }
            });
        }
        if is_in_place(&file, path) {
            return Ok(file);
        }
    }
    Err(failed("lock")(io::Error::other("somebody removes it again and again")))
}

/// True if the path still leads to the opened file.
fn is_in_place(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(placed)) => identity(opened) == identity(placed),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

fn write_pid(file: &File, pid: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(pid.as_bytes(), 0)
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_PID_TEXT).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Number of bytes that are read of a lock file: a process id has at most 7 digits.
const MAX_PID_TEXT: u64 = 32;

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" as process {pid}"))
}

#[cfg(test)]
mod tests;
