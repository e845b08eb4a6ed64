//! A drain of one node, from the cordon to the proof.

use std::time::Duration;

use drain::{Answer, Effect, Event, Moment, Outcome, Policy, State, step};

use crate::calls::Calls;
use crate::clock::{Clock, boot_time};
use crate::cordon::{CordonFailure, Cordoned, cordon};
use crate::feed::{Failures, Feed};
use crate::probe::Probe;
use crate::wire::Cluster;

/// Drains nodes.
///
/// ```no_run
/// use cluster::kubeconfig::Search;
/// use cluster::{Drainer, connect};
/// use drain::{Outcome, Policy};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let search = Search::with_environment(None, vec!["/etc/rancher/k3s/k3s.yaml".into()]);
/// let connection = connect(&search, "drain").await?;
/// let drainer = Drainer::new(connection.cluster, Policy::kubectl()).owned_by("ebb:alice", "new disk");
/// let outcome = drainer.drain("edge-a", |_state| {}).await?;
/// assert_eq!(outcome, Outcome::Drained);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Drainer {
    cluster: Cluster,
    policy: Policy,
    owner: String,
    reason: String,
    clock: Clock,
}

impl Drainer {
    /// Drains by this policy. The cordon's owner is `ebb`, the clock `CLOCK_BOOTTIME`.
    pub fn new(cluster: Cluster, policy: Policy) -> Self {
        Self { cluster, policy, owner: "ebb".to_owned(), reason: "drain".to_owned(), clock: boot_time }
    }

    /// Who owns the cordon, and why, as the node's annotations say.
    #[must_use]
    pub fn owned_by(mut self, owner: &str, reason: &str) -> Self {
        owner.clone_into(&mut self.owner);
        reason.clone_into(&mut self.reason);
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Cordons the node and evicts its pods until a fresh list proves that none is left that should leave, or until
    /// the attempt has failed. `progress` sees every new state (`drain::progress` makes numbers and lines of it).
    ///
    /// The node stays cordoned whatever happens. Dropping the future stops the drain at once.
    ///
    /// # Errors
    /// The node could not be cordoned; nothing was evicted.
    pub async fn drain(&self, node: &str, progress: impl FnMut(&State)) -> Result<Outcome, CordonFailure> {
        // The watches list while the node is being cordoned.
        let feed = Feed::start(&self.cluster, node);
        let cordoned = cordon(&self.cluster, node, &self.owner, &self.reason).await?;
        tracing::info!("{cordoned}");
        let mut run = Run::new(self, feed, cordoned, progress);
        let mut event = Event::Start { attempt: 1, api_back: None };
        loop {
            if let Some(outcome) = run.apply(event) {
                return Ok(outcome);
            }
            event = run.next().await;
        }
    }
}

/// One drain under way.
struct Run<'a, P> {
    state: State,
    wake: Moment,
    calls: Calls,
    probe: Probe,
    feed: Feed,
    failures: Failures,
    drainer: &'a Drainer,
    progress: P,
}

impl<'a, P: FnMut(&State)> Run<'a, P> {
    fn new(drainer: &'a Drainer, feed: Feed, cordoned: Cordoned, progress: P) -> Self {
        Self {
            state: State::Idle,
            wake: Moment::NEVER,
            probe: Probe::new(drainer.cluster.clone(), cordoned.name()),
            calls: Calls::new(drainer.cluster.clone(), cordoned),
            failures: feed.failures(),
            feed,
            drainer,
            progress,
        }
    }

    /// Only waits.
    async fn next(&mut self) -> Event {
        loop {
            let pause = (self.drainer.clock)().until(self.wake);
            tokio::select! {
                picture = self.feed.changed() => return Event::Picture(picture),
                event = self.calls.next() => return event,
                event = self.probe.changed() => return event,
                failure = self.failures.next() => {
                    if failure.is_unreachable() {
                        self.probe.doubt();
                    }
                }
                () = sleep(pause) => return Event::Tick,
            }
        }
    }

    /// Only changes. The outcome, once there is one.
    fn apply(&mut self, event: Event) -> Option<Outcome> {
        if let Event::Answer { answer: Answer::Throttled { .. }, .. } | Event::Proof { look: Err(_), .. } =
            &event
        {
            self.probe.doubt();
        }
        let now = (self.drainer.clock)();
        let state = std::mem::take(&mut self.state);
        let (state, effects) = step(state, event, now, &self.drainer.policy);
        self.state = state;
        for effect in effects {
            match effect {
                Effect::WakeAt(wake) => self.wake = wake,
                Effect::Evict { .. } | Effect::Delete { .. } | Effect::Prove { .. } | Effect::Abort => {
                    self.calls.perform(effect, self.feed.latest().as_ref());
                }
            }
        }
        (self.progress)(&self.state);
        match &self.state {
            State::Ended(_, outcome) => Some(outcome.clone()),
            State::Idle | State::Draining(_) | State::Proving(..) => None,
        }
    }
}

/// Sleeps at most an hour, so that no far-off time overflows; who waits for longer wakes and looks again.
async fn sleep(pause: Duration) {
    tokio::time::sleep(pause.min(Duration::from_hours(1))).await;
}

#[cfg(test)]
#[path = "drainer_tests.rs"]
mod tests;
