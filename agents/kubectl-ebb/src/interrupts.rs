//! Ctrl-C and SIGTERM while a verb works.

use std::io;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that asks a verb to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// SIGINT: Ctrl-C.
    Int,
    /// SIGTERM.
    Term,
}

impl Interrupt {
    /// Exit code of the process: 130 after Ctrl-C, as shells expect; 1 after SIGTERM.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Int => ExitCode::from(130),
            Self::Term => ExitCode::FAILURE,
        }
    }
}

/// Catches the signals from its creation on.
#[derive(Debug)]
pub struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Interrupts {
    /// Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The process may not watch signals.
    pub fn watch() -> io::Result<Self> {
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal. May be dropped and called again.
    pub async fn next(&mut self) -> Interrupt {
        tokio::select! {
            Some(()) = self.int.recv() => Interrupt::Int,
            Some(()) = self.term.recv() => Interrupt::Term,
            else => std::future::pending().await,
        }
    }
}
