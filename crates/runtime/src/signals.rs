//! The request to stop, and the signals that make it.

use std::io;
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Time limit for an agent to end after the request. The project promises 2 s; the rest is for the process.
pub const STOP_LIMIT: Duration = Duration::from_millis(1800);

/// The request to stop, shared by all tasks. Once made, it cannot be undone.
#[derive(Clone, Debug, Default)]
pub struct Stop(CancellationToken);

/// A signal cannot be watched.
#[derive(Debug, Error)]
#[error("cannot watch for the signal {name}")]
pub struct SignalError {
    name: &'static str,
    source: io::Error,
}

impl SignalError {
    pub(crate) fn of(name: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { name, source }
    }
}

/// The agent did not end within [`STOP_LIMIT`] after the request to stop. All that it had written is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("requested to stop, but still busy after {} ms", STOP_LIMIT.as_millis())]
pub struct Overdue;

impl Stop {
    /// A stop that no signal requests: for tests, and for agents that share a process.
    pub fn new() -> Self {
        Self::default()
    }

    /// A stop that SIGTERM and SIGINT request from now on. Call it in a tokio runtime.
    pub fn on_signals() -> Result<Self, SignalError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(SignalError::of("SIGTERM"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(SignalError::of("SIGINT"))?;
        let stop = Self::new();
        let stopping = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
                _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
            }
            stopping.request();
        });
        Ok(stop)
    }

    /// Requests all clones to stop.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// True if a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Returns when a stop is requested, or at once if it was.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Runs `work`, but at most [`STOP_LIMIT`] beyond the request to stop; then `work` is dropped.
    pub async fn limit<F: Future>(&self, work: F) -> Result<F::Output, Overdue> {
        let overdue = async {
            self.requested().await;
            tokio::time::sleep(STOP_LIMIT).await;
        };
        tokio::select! {
            biased;
            output = work => Ok(output),
            () = overdue => Err(Overdue),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_is_limited_only_after_the_request() {
        let stop = Stop::new();
        assert!(!stop.is_requested());
        let hour = tokio::time::sleep(Duration::from_hours(1));
        assert_eq!(stop.limit(hour).await, Ok(()), "nobody asked");

        stop.request();
        assert!(stop.is_requested());
        let quick = tokio::time::sleep(Duration::from_millis(1799));
        assert_eq!(stop.limit(quick).await, Ok(()));
        let slow = tokio::time::sleep(Duration::from_millis(1801));
        assert_eq!(stop.limit(slow).await, Err(Overdue));
    }

    #[tokio::test]
    async fn signals_ask_to_stop() {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let stop = Stop::on_signals().unwrap();
            raise(signal).unwrap();
            stop.requested().await;
        }
    }
}
