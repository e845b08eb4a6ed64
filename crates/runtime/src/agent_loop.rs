//! The rhythm of an agent whose state one loop owns: look, decide, act, wait.
//!
//! When an effect fails the loop pauses, and no file cuts the pause short: a disk that is full is not helped by being
//! asked more often.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::agent::AgentContext;
use crate::retry::pause_after;
use crate::signals::Stop;

/// A failure that stays the same is told again after so long.
const TELL_AGAIN: Duration = Duration::from_mins(1);

/// The rhythm of one agent.
#[derive(Debug)]
pub struct AgentLoop {
    context: AgentContext,
    stop: Stop,
    /// Turns in a row that failed.
    failures: u32,
    /// The failure in the log, and since when it stands there.
    told: Option<(String, Instant)>,
    /// Until when to wait; nothing: until something happens.
    until: Option<Instant>,
}

impl AgentLoop {
    /// The agent has what it needs: it says that it is ready, and begins.
    pub fn begin(context: &AgentContext, stop: Stop) -> Self {
        context.liveness().ready();
        Self { context: context.clone(), stop, failures: 0, told: None, until: None }
    }

    /// Somebody asked the agent to end.
    pub fn is_over(&self) -> bool {
        self.stop.is_requested()
    }

    /// The last turn failed.
    pub const fn has_failed(&self) -> bool {
        self.failures != 0
    }

    /// All effects of this turn are done. `look_again` is how long until the next look; without one, something has to
    /// happen first.
    pub fn succeeded(&mut self, look_again: Option<Duration>) {
        if self.has_failed() {
            tracing::info!("going on: what failed {} times has been done", self.failures);
        }
        (self.failures, self.told) = (0, None);
        self.until = look_again.and_then(|pause| Instant::now().checked_add(pause));
    }

    /// An effect of this turn failed, for the reason in `error`: told at most once a minute while it stays the same.
    pub fn failed(&mut self, error: &str) {
        self.failures = self.failures.saturating_add(1);
        let now = Instant::now();
        let is_told = self.told.as_ref().is_some_and(|(told, at)| told == error && now < *at + TELL_AGAIN);
        if !is_told {
            tracing::error!("{error}");
            self.told = Some((error.to_owned(), now));
        }
        self.until = Some(now + pause_after(self.failures));
    }

    /// Waits for whatever comes first: being told to stop, the moment of the next look, `changed`. Gives what
    /// `changed` gave. Shows meanwhile that the loop turns.
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

    /// Ends when a look is due for the sake of liveness; a pause after a failure only shows that the loop is alive.
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

/// How long until the next look, from the effects of a turn: `None` among them is one that changes something, and then
/// the next decision wants the files as they are now. A number is a moment of the boot clock to wake up at.
pub fn until_next_look(effects: impl IntoIterator<Item = Option<u64>>, now_ms: u64) -> Option<Duration> {
    let wait = |at: Option<u64>| at.map_or(0, |at_ms| at_ms.saturating_sub(now_ms));
    effects.into_iter().map(wait).min().map(Duration::from_millis)
}

#[cfg(test)]
#[path = "agent_loop_tests.rs"]
mod tests;
