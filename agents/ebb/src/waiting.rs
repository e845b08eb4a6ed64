//! Waits for an agent's reaction to a file, and for Ctrl-C and SIGTERM while a verb works.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use pubsub::PathWatch;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

/// Limit for the reaction of a running agent, which normally takes milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(3);

/// Calls `look` now and after each change in the folders until it returns a value; `None` after `limit`.
pub(crate) async fn until<T, P: AsRef<Path>>(
    folders: impl IntoIterator<Item = P>,
    limit: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    let mut watch = PathWatch::new(folders);
    let looking = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            watch.changed().await;
        }
    };
    timeout(limit, looking).await.ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// SIGINT: Ctrl-C.
    Int,
    /// SIGTERM.
    Term,
}

impl Interrupt {
    /// Exit code of the process: 130 after Ctrl-C, as shells expect; 1 after SIGTERM.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Int => ExitCode::from(130),
            Self::Term => ExitCode::FAILURE,
        }
    }
}

/// Catches the signals from its creation on.
#[derive(Debug)]
pub(crate) struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Interrupts {
    /// Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The process may not watch signals.
    pub(crate) fn watch() -> io::Result<Self> {
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            Some(()) = self.int.recv() => Interrupt::Int,
            Some(()) = self.term.recv() => Interrupt::Term,
            else => std::future::pending().await,
        }
    }
}
