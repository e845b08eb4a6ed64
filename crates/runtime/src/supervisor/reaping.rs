//! Reaps child processes that have ended, also those that are no agents.

use std::fmt;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitKind {
    /// The process exited with this code.
    Exit(i32),
    Signal(Signal),
}

/// The exit code of an agent for a mistake on its command line.
const BAD_FLAG: i32 = 2;

impl ExitKind {
    /// True if a restart with the same flags cannot succeed.
    pub(super) fn is_bad_flag(self) -> bool {
        self == Self::Exit(BAD_FLAG)
    }
}

impl fmt::Display for ExitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Reaps one child process that has ended, if there is one. Does not wait.
///
/// Any child is reaped, not only the agents: process 1 inherits orphans, which would stay zombies for ever.
pub(super) fn next_ended() -> Option<(Pid, ExitKind)> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => return Some((pid, ExitKind::Exit(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => return Some((pid, ExitKind::Signal(signal))),
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
            Err(Errno::EINTR) => {}
            // Without the flags for it, waitpid reports no stopped or traced child.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!("cannot reap child processes that have ended: {error}");
                return None;
            }
        }
    }
}
