//! The main loop of an agent: read a snapshot, decide, carry out the effects, wait.
//!
//! After a failed effect the loop pauses, and no event shortens the pause, because a full disk is not helped by more
//! attempts.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::agent::AgentContext;
use crate::retry::pause_after;
use crate::signals::Stop;

/// A failure that repeats is logged again after this time.
const LOG_AGAIN: Duration = Duration::from_mins(1);

/// The main loop of one agent: its pauses, its log of failures, its liveness.
#[derive(Debug)]
pub struct AgentLoop {
    context: AgentContext,
    stop: Stop,
    /// Number of failed steps in a row.
    failures: u32,
    /// The failure that was logged last, and when.
    logged: Option<(String, Instant)>,
    /// The end of the wait; None: until an event comes.
    until: Option<Instant>,
}

impl AgentLoop {
    /// Begins the loop, and reports to the service manager that the agent is ready.
    pub fn begin(context: &AgentContext, stop: Stop) -> Self {
        context.liveness().ready();
        Self { context: context.clone(), stop, failures: 0, logged: None, until: None }
    }

    /// True once the agent was requested to stop.
    pub fn is_over(&self) -> bool {
        self.stop.is_requested()
    }

    /// True if the last step failed.
    pub const fn has_failed(&self) -> bool {
        self.failures != 0
    }

    /// Notes that all effects of this step are carried out. The next step follows after `look_again`, or, if that is
    /// None, after an event.
    pub fn succeeded(&mut self, look_again: Option<Duration>) {
        if self.has_failed() {
            tracing::info!("recovered: this step has succeeded after {} failed attempts", self.failures);
        }
        (self.failures, self.logged) = (0, None);
        self.until = look_again.and_then(|pause| Instant::now().checked_add(pause));
    }

    /// Notes that an effect of this step failed, for the reason in `error`. A failure that repeats is logged at most
    /// once a minute.
    pub fn failed(&mut self, error: &str) {
        self.failures = self.failures.saturating_add(1);
        let now = Instant::now();
        let is_logged =
            self.logged.as_ref().is_some_and(|(logged, at)| logged == error && now < *at + LOG_AGAIN);
        if !is_logged {
            tracing::error!("{error}");
            self.logged = Some((error.to_owned(), now));
        }
        self.until = Some(now + pause_after(self.failures));
    }

    /// Waits until the agent is requested to stop, the next step is due, or `changed` returns; returns the result of
    /// `changed`. Shows meanwhile that the loop makes progress.
    pub async fn wait<T>(&self, changed: impl Future<Output = T>) -> Option<T> {
        self.context.liveness().progress();
        let paused = async {
            match self.until {
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        };
        let changed = async { if self.has_failed() { pending().await } else { changed.await } };
        tokio::select! {
            biased;
            () = self.stop.requested() => None,
            changed = changed => Some(changed),
            () = paused => None,
            () = self.show_progress() => None,
        }
    }

    /// Returns when a step is due to show liveness. During a pause after a failure it only notes progress and goes on
    /// waiting.
    async fn show_progress(&self) {
        loop {
            self.context.liveness().due().await;
            if !self.has_failed() {
                return;
            }
            self.context.liveness().progress();
        }
    }
}

/// The time until the next step, from the effects of this step. An effect with `None` changes a file, so the next
/// step follows at once. A number is a time of the boot clock at which to wake up.
pub fn until_next_look(effects: impl IntoIterator<Item = Option<u64>>, now_ms: u64) -> Option<Duration> {
    let wait = |at: Option<u64>| at.map_or(0, |at_ms| at_ms.saturating_sub(now_ms));
    effects.into_iter().map(wait).min().map(Duration::from_millis)
}

#[cfg(test)]
mod tests;
