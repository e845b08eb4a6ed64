//! Whether an agent runs. An agent counts as not running only if its lock is free, its process is gone, and no process
//! listens on its sockets: each of the three may be missing while the agent runs. A lock file is found by its path:
//! after an `rm` a device went down undrained beside a living zedkube. So an agent also creates its lock file again at
//! each beat ([`crate::AgentLock::keep`]).

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

/// The evidence that an agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The agent holds its lock.
    Locked(Holder),
    /// The lock is free, for example because its file was removed, but the process in the agent's pid file lives and is
    /// ours.
    Process(u32),
    /// Lock and process are gone, but this process serves a topic of the agent: it is EVE's agent of that name, or ours
    /// after its files were removed.
    Served(Option<u32>),
    /// There is no evidence: the agent does not run.
    Away,
}

impl Presence {
    /// True if there is any evidence that the agent runs.
    pub const fn is_running(self) -> bool {
        !matches!(self, Self::Away)
    }

    /// Id of the agent's process, if it lives.
    pub fn pid(self) -> Option<u32> {
        match self {
            Self::Locked(holder) => holder.pid.filter(|pid| is_alive(*pid)),
            Self::Process(pid) => Some(pid),
            Self::Served(pid) => pid,
            Self::Away => None,
        }
    }
}

/// Looks for an agent: by its lock, its process, its sockets. The call locks nothing, and connects to a socket only if
/// lock and process are gone.
///
/// # Errors
/// The lock cannot be asked. A caller that must be on the safe side counts that as running.
pub fn presence(root: &Root, agent: &str) -> Result<Presence, StoreError> {
    if let Some(holder) = lock_holder(root, agent)? {
        return Ok(Presence::Locked(holder));
    }
    if let Some(pid) = own_process(&root.pid(agent), agent) {
        return Ok(Presence::Process(pid));
    }
    Ok(served(&root.agent_folder(agent, Persistence::Volatile)).unwrap_or(Presence::Away))
}

/// Number of bytes that are read of a pid file: at most 7 digits and a line break are expected.
const MAX_PID_TEXT: u64 = 32;

/// The number in a pid file, which any user may own. If a pipe or a device is in its place, the call does not wait for
/// it.
pub fn pid_in(path: &Path) -> Option<u32> {
    let bytes = read_checked(path, MAX_PID_TEXT, Owner::Anybody).ok().flatten()?;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok().filter(|pid| *pid > 0)
}

/// True if a process with this id exists, of whatever user.
pub fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    // `kill` takes 0 and negative numbers for process groups.
    0 < pid && matches!(kill(Pid::from_raw(pid), None), Ok(()) | Err(Errno::EPERM))
}

/// The name of a running process: the first 15 bytes of its program's name. `None` if the process has ended and only
/// waits to be collected by its parent, or if it is not visible from here.
pub fn process_name(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The line is `1234 (name) S …`; the name may contain anything, also a bracket.
    let text = String::from_utf8_lossy(&bytes);
    let (head, tail) = text.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    let has_ended = tail.starts_with(['Z', 'X', 'x']);
    (!has_ended).then(|| name.to_owned())
}

/// The living process of a pid file, if it is the agent's: the kernel uses process ids again. A process that lives but
/// is not visible (the hardened units hide processes of other users) counts as the agent's.
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

/// The process that listens on a socket of one of these topics, if there is one.
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
