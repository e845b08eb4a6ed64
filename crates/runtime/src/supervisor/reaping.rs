//! Collecting children that have ended, also those that are no agents.

use std::fmt;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// ExitKind a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitKind {
    /// By itself.
    Exit(i32),
    /// By a signal.
    Signal(Signal),
}

/// What an agent exits with for a mistake on its command line.
const BAD_FLAG: i32 = 2;

impl ExitKind {
    /// Starting it again with the same flags will not do.
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

/// A child that has ended, of those that were not collected yet. Does not wait.
///
/// It asks for any child, not for the agents one by one: who is process 1 inherits orphans, and they would stay as
/// zombies for ever.
pub(super) fn next_ended() -> Option<(Pid, ExitKind)> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => return Some((pid, ExitKind::Exit(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => return Some((pid, ExitKind::Signal(signal))),
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
            Err(Errno::EINTR) => {}
            // Without the flags that ask for it no child is shown as stopped or traced.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!("cannot collect children that have ended: {error}");
                return None;
            }
        }
    }
}
