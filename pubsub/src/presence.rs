//! Whether an agent runs. It does not only when its lock is free, no process of ours is left of it, and nobody listens
//! to its sockets: each of the three can be lost while the agent lives.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::lock::{Holder, lock_holder};
use crate::read::{Owner, read_checked};
use crate::seqpacket::{TopicSocket, look_at};
use crate::store::StoreError;
use crate::{Persistence, Root};

/// What shows that an agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It holds its lock.
    Locked(Holder),
    /// Its lock is free, as when somebody removed the file, but the process that its pid file names lives and is ours.
    Process(u32),
    /// Lock and process are gone, but this process serves a topic of the agent: EVE's agent of that name, or ours after
    /// its files were removed.
    Served(Option<u32>),
    /// Nothing: it does not run.
    Away,
}

impl Presence {
    /// The agent runs, as far as anything shows it.
    pub const fn is_running(self) -> bool {
        !matches!(self, Self::Away)
    }

    /// Its process. Only one that lives is named.
    pub fn pid(self) -> Option<u32> {
        match self {
            Self::Locked(holder) => holder.pid.filter(|pid| is_alive(*pid)),
            Self::Process(pid) => Some(pid),
            Self::Served(pid) => pid,
            Self::Away => None,
        }
    }
}

/// Looks for an agent: its lock, its process, its sockets. Takes nothing; dials a socket only when the first two are gone.
///
/// # Errors
/// The lock cannot be asked. Whoever must not err counts that as running.
pub fn presence(root: &Root, agent: &str) -> Result<Presence, StoreError> {
    if let Some(holder) = lock_holder(root, agent)? {
        return Ok(Presence::Locked(holder));
    }
    if let Some(pid) = own_process(&root.pid(agent), agent) {
        return Ok(Presence::Process(pid));
    }
    Ok(served(&root.agent_folder(agent, Persistence::Volatile)).unwrap_or(Presence::Away))
}

/// Text of a pid file: at most 7 digits and a line break.
const MAX_PID_TEXT: u64 = 32;

/// The number in a pid file, which may be anybody's: a pipe or a device in its place is not waited for.
pub fn pid_in(path: &Path) -> Option<u32> {
    let bytes = read_checked(path, MAX_PID_TEXT, Owner::Anybody).ok().flatten()?;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok().filter(|pid| *pid > 0)
}

/// Whether there is a process of this number, whoever's it is.
pub fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    // To `kill` 0 and negative numbers are groups.
    0 < pid && matches!(kill(Pid::from_raw(pid), None), Ok(()) | Err(Errno::EPERM))
}

/// The name of a process that runs: the first 15 bytes of its program's. Nothing when it has ended and only waits to be
/// collected by its parent, or when it cannot be seen from here.
pub fn process_name(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // `1234 (name) S …`, and the name may hold anything, also a bracket.
    let text = String::from_utf8_lossy(&bytes);
    let (head, tail) = text.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    let has_ended = tail.starts_with(['Z', 'X', 'x']);
    (!has_ended).then(|| name.to_owned())
}

/// The living process that a pid file names, if it is the agent's: numbers are given again. One that lives and cannot be
/// seen (the hardened units hide others' processes) counts as the agent's.
fn own_process(path: &Path, agent: &str) -> Option<u32> {
    let pid = pid_in(path).filter(|pid| is_alive(*pid))?;
    let is_hidden = !Path::new("/proc").join(pid.to_string()).exists();
    let is_ours = |name: String| {
        let own = process_name(std::process::id());
        // An agent is started under its own name or as `ebb AGENT`.
        name == agent || name == "ebb" || Some(name) == own
    };
    (is_hidden || process_name(pid).is_some_and(is_ours)).then_some(pid)
}

/// Somebody listens to a socket of these topics.
fn served(folder: &Path) -> Option<Presence> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut sockets = entries.filter(|path| path.extension().is_some_and(|end| end == "sock"));
    sockets.find_map(|path| match look_at(&path) {
        TopicSocket::Served(peer) => Some(Presence::Served(peer.and_then(|peer| peer.pid))),
        TopicSocket::Absent | TopicSocket::Stale | TopicSocket::Foreign | TopicSocket::Unreachable(_) => None,
    })
}

#[cfg(test)]
mod tests;
