//! One process per agent: a lock that is held from the first line to the exit.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use thiserror::Error;

use crate::Root;
use crate::store::{self, StoreError};

/// Proof that this process is the agent. Released by the kernel when the process ends, however it ends.
///
/// It is an open-file-description lock, so it also excludes a second agent in the same process, and asking
/// for it ([`lock_holder`]) takes nothing.
#[derive(Debug)]
pub struct AgentLock {
    root: Root,
    agent: String,
    // Locked as long as it is open.
    _file: File,
}

/// Why an agent cannot start.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process is this agent.
    #[error("{agent} is already running{}: {path:?} is locked; stop it first", pid_text(*pid))]
    Held {
        /// The agent.
        agent: String,
        /// The lock.
        path: PathBuf,
        /// The first's process id, unless it has not written it yet.
        pid: Option<u32>,
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

impl AgentLock {
    /// Becomes the agent, and writes `<agent>.pid`.
    pub fn acquire(root: &Root, agent: &str) -> Result<Self, LockError> {
        let path = root.lock(agent);
        let folder = root.join("/run");
        store::create_folder(&folder)?;
        let mut file = open(&path, true).map_err(|error| StoreError::new("open", &path, error))?;
        if !try_lock(&file).map_err(|error| StoreError::new("lock", &path, error))? {
            return Err(LockError::Held { agent: agent.to_owned(), pid: read_pid(&mut file), path });
        }
        let pid = std::process::id().to_string();
        write_pid(&mut file, &pid).map_err(|error| StoreError::new("write", &path, error))?;
        store::write_public(&folder, &format!("{agent}.pid"), pid.as_bytes())?;
        Ok(Self { root: root.clone(), agent: agent.to_owned(), _file: file })
    }

    /// The agent that this process is.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The root below which it is.
    pub const fn root(&self) -> &Root {
        &self.root
    }
}

/// Who is the agent now; nobody when its lock is free or was never made. Takes no lock.
pub fn lock_holder(root: &Root, agent: &str) -> Result<Option<Holder>, StoreError> {
    let path = root.lock(agent);
    let mut file = match open(&path, false) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::new("open", &path, error)),
    };
    let held = is_locked(&file).map_err(|error| StoreError::new("ask for the lock of", &path, error))?;
    Ok(held.then(|| Holder { pid: read_pid(&mut file) }))
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    OpenOptions::new().read(true).write(write).create(write).mode(0o644).custom_flags(flags.bits()).open(path)
}

fn try_lock(file: &File) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file_write_lock())) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn is_locked(file: &File) -> io::Result<bool> {
    let mut lock = whole_file_write_lock();
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

#[expect(clippy::cast_possible_truncation, reason = "the constants are small; the structure wants 16 bits")]
const fn whole_file_write_lock() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
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
