//! One process per agent: a lock that is held from the first line to the exit.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use schemas::agent::shown;
use thiserror::Error;

use crate::Root;
use crate::file_lock::{Access, Found, MODE, ask, open, try_lock};
use crate::place::PID;
use crate::store::{self, StoreError};

/// So often a lock file that is removed or replaced while it is being locked is opened again.
const MOST_TRIES: u32 = 8;

/// Proof that this process is the agent. Released by the kernel when the process ends, however it ends.
///
/// It is an open-file-description lock, so it also excludes a second agent in the same process, and asking
/// for it ([`lock_holder`]) takes nothing.
#[derive(Debug)]
pub struct AgentLock {
    root: Root,
    agent: String,
    // Locked as long as it is open. Replaced when the file was removed from its place.
    file: Mutex<File>,
}

/// Why an agent cannot start, or not go on.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process is this agent.
    #[error("{} is already running{}: {path:?} is locked; stop it first", shown(agent), pid_text(*pid))]
    Held {
        /// The agent.
        agent: String,
        /// The lock.
        path: PathBuf,
        /// The first's process id, unless it has not written it yet.
        pid: Option<u32>,
    },
    /// A program that is no agent has a read lock on the file.
    #[error(
        "a program that is no agent holds a read lock on {path:?}, so {} cannot lock it: remove that file, the agent \
         makes a new one",
        shown(agent)
    )]
    Reader {
        /// The agent.
        agent: String,
        /// The lock.
        path: PathBuf,
    },
    /// The lock cannot be made or asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The process that is an agent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its id, unless it has not written it yet.
    pub pid: Option<u32>,
}

/// What [`AgentLock::keep`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The lock file is in its place.
    InPlace,
    /// It was removed or replaced, and has been made and locked again.
    MadeAgain,
}

impl AgentLock {
    /// Becomes the agent, and writes its pid file.
    pub fn acquire(root: &Root, agent: &str) -> Result<Self, LockError> {
        let file = lock_file(root, agent)?;
        Ok(Self { root: root.clone(), agent: agent.to_owned(), file: Mutex::new(file) })
    }

    /// The agent that this process is.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The root below which it is.
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Writes the process id also where EVE's watchdog looks for it: for an agent beside EVE's zedbox.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_eves_pid(&self) -> Result<(), StoreError> {
        store::write_public(&self.root.join("/run"), &format!("{}.pid", self.agent), own_pid().as_bytes())
    }

    /// Looks whether the lock file is still in its place, and makes it again if it is not. Call it every few seconds:
    /// without its file a running agent looks as if it did not run, and a second one could start.
    ///
    /// # Errors
    /// Another process has become the agent meanwhile ([`LockError::Held`]): this one has to end. Anything else is worth
    /// another try.
    pub fn keep(&self) -> Result<Kept, LockError> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if is_in_place(&held, &self.root.lock(&self.agent)) {
            if !self.root.pid(&self.agent).exists() {
                write_pid_file(&self.root, &self.agent)?;
            }
            return Ok(Kept::InPlace);
        }
        *held = lock_file(&self.root, &self.agent)?;
        Ok(Kept::MadeAgain)
    }
}

/// An agent that has ended in good order leaves no pid file: its number may soon be another program's.
impl Drop for AgentLock {
    fn drop(&mut self) {
        let held = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        if is_in_place(held, &self.root.lock(&self.agent)) {
            // Not durable, and nothing depends on it: who is killed leaves it, too.
            fs::remove_file(self.root.pid(&self.agent)).unwrap_or_default();
        }
    }
}

/// Who is the agent now; nobody when its lock is free or was never made. Takes no lock.
///
/// A read lock is nobody's agent. See [`crate::presence()`] for whether an agent runs.
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

/// Makes, locks and fills the files of an agent.
fn lock_file(root: &Root, agent: &str) -> Result<File, LockError> {
    let path = root.lock(agent);
    store::create_public_folder(&root.lock_folder_of(agent))?;
    let mut file = locked(&path, agent)?;
    write_pid(&mut file, &own_pid()).map_err(|error| StoreError::new("write", &path, error))?;
    write_pid_file(root, agent)?;
    Ok(file)
}

fn write_pid_file(root: &Root, agent: &str) -> Result<(), StoreError> {
    store::write_public(&root.lock_folder_of(agent), PID, own_pid().as_bytes())
}

fn own_pid() -> String {
    std::process::id().to_string()
}

/// The file at `path`, locked. One that is removed between opening and locking is not the lock any more.
fn locked(path: &Path, agent: &str) -> Result<File, LockError> {
    let failed = |operation| move |error| LockError::from(StoreError::new(operation, path, error));
    for _ in 0..MOST_TRIES {
        let mut file = open(path, Access::Lock).map_err(failed("open"))?;
        // Older versions made it readable by everybody.
        file.set_permissions(Permissions::from_mode(MODE)).map_err(failed("change the mode of"))?;
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

/// Whether the path still leads to the opened file.
fn is_in_place(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(placed)) => identity(opened) == identity(placed),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

fn write_pid(file: &mut File, pid: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(pid.as_bytes())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_PID_TEXT).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Bytes that are read of a lock file: a process id has at most 7 digits.
const MAX_PID_TEXT: u64 = 32;

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" as process {pid}"))
}

#[cfg(test)]
mod tests;
