//! Drains one node, from the cordon to the final check.

use std::time::Duration;

use drain::diagnosis::{Blocked, blocked};
use drain::progress::{Line, Progress, VolumeLine, attempt, lines, progress, volume_lines};
use drain::{Effect, Event, Moment, Outcome, Policy, Record, State, step};
use futures::future::BoxFuture;

use crate::clock::{Clock, boot_time};
use crate::cordon::{CordonFailure, Cordoned, Marks, cordon_marked};
use crate::driver::Driver;
use crate::eviction_limits::EvictionLimits;
use crate::failure::ApiFailure;
use crate::informer::SharedWatches;
use crate::wire::Cluster;

/// Drains nodes. All drains of one `Drainer` and its clones share the watches that are not about one node and
/// the limit of evictions in flight under one budget, and have to run in one tokio runtime.
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
/// let mut drain = drainer.drain("edge-a");
/// while let Some(progress) = drain.next().await {
///     println!("{} of {} pods are gone", progress.gone, progress.total);
///     for blocked in drain.blocked() {
///         println!("{} does not leave: {} ({})", blocked.pod, blocked.cause, blocked.hint);
///     }
/// }
/// assert_eq!(drain.outcome().await?, Outcome::Drained);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Drainer {
    cluster: Cluster,
    shared: SharedWatches,
    limits: EvictionLimits,
    policy: Policy,
    owner: String,
    reason: String,
    marks: Marks,
    clock: Clock,
    record: Option<Record>,
}

impl Drainer {
    /// Creates a drainer with this policy. The cordon's owner is `ebb`, the clock `CLOCK_BOOTTIME`.
    pub fn new(cluster: Cluster, policy: Policy) -> Self {
        Self {
            cluster,
            shared: SharedWatches::default(),
            limits: EvictionLimits::default(),
            policy,
            owner: "ebb".to_owned(),
            reason: "drain".to_owned(),
            marks: Marks::Required,
            clock: boot_time,
            record: None,
        }
    }

    /// Sets the owner of the cordon and the reason, for the node's annotations.
    #[must_use]
    pub fn owned_by(mut self, owner: &str, reason: &str) -> Self {
        owner.clone_into(&mut self.owner);
        reason.clone_into(&mut self.reason);
        self
    }

    /// Says whether the cordon needs the annotations; they are required otherwise.
    #[must_use]
    pub fn marked(self, marks: Marks) -> Self {
        Self { marks, ..self }
    }

    /// Continues an attempt that another process began in this boot, with its deadline and its history.
    #[must_use]
    pub fn resuming(mut self, record: Record) -> Self {
        self.record = Some(record);
        self
    }

    /// Uses another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Only cordons the node, so that several nodes can be cordoned before the first one is drained.
    ///
    /// # Errors
    /// The node does not exist, or the call failed.
    pub async fn cordon(&self, node: &str) -> Result<Cordoned, CordonFailure> {
        cordon_marked(&self.cluster, node, &self.owner, &self.reason, self.marks).await
    }

    /// Cordons the node and evicts its pods, until the final check finds no pod that should leave, or the attempt has
    /// failed.
    ///
    /// Nothing happens until [`Drain::next`] or [`Drain::outcome`] is awaited. Has to be called in a tokio runtime.
    pub fn drain(&self, node: &str) -> Drain {
        let drainer = self.clone();
        let name = node.to_owned();
        let cordoning = Box::pin(async move { drainer.cordon(&name).await });
        self.begin(node, Stage::Cordoning(cordoning))
    }

    /// Drains a node that [`Drainer::cordon`] has cordoned already.
    pub fn drain_cordoned(&self, cordoned: Cordoned) -> Drain {
        let node = cordoned.name().to_owned();
        self.begin(&node, Stage::Cordoning(Box::pin(async { Ok(cordoned) })))
    }

    /// Starts the watches at once, so that they list while the node is being cordoned.
    fn begin(&self, node: &str, stage: Stage) -> Drain {
        let mut driver = Driver::with_clock(self.clock, self.limits.clone());
        driver.watch_sharing(&self.shared, &self.cluster, node);
        Drain {
            drainer: self.clone(),
            driver,
            state: State::Idle,
            wake: Moment::NEVER,
            cordoned: None,
            stage,
        }
    }
}

/// A running drain.
///
/// The node stays cordoned in any case. Dropping this stops the drain at once and ends all calls in flight.
#[derive(Debug)]
pub struct Drain {
    drainer: Drainer,
    driver: Driver,
    state: State,
    wake: Moment,
    cordoned: Option<Cordoned>,
    stage: Stage,
}

enum Stage {
    Cordoning(BoxFuture<'static, Result<Cordoned, CordonFailure>>),
    Running,
    Over(Result<Outcome, CordonFailure>),
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cordoning(_) => f.write_str("Cordoning"),
            Self::Running => f.write_str("Running"),
            Self::Over(result) => write!(f, "Over({result:?})"),
        }
    }
}

impl Drain {
    /// Waits for the next change and returns the progress; `None` once the drain is over. Cancel-safe.
    pub async fn next(&mut self) -> Option<Progress> {
        match &mut self.stage {
            Stage::Over(_) => return None,
            Stage::Cordoning(cordoning) => match cordoning.await {
                Ok(cordoned) => self.start(cordoned),
                Err(failure) => self.stage = Stage::Over(Err(failure)),
            },
            Stage::Running => {
                let event = self.event().await;
                self.apply(event);
            }
        }
        Some(self.progress())
    }

    /// Waits until the drain is over. [`Outcome::Failed`] is not an error: until then [`Drain::blocked`] has the
    /// reasons.
    ///
    /// # Errors
    /// The node could not be cordoned; nothing was evicted.
    pub async fn outcome(mut self) -> Result<Outcome, CordonFailure> {
        loop {
            match self.stage {
                Stage::Over(result) => return result,
                Stage::Cordoning(_) | Stage::Running => self.next().await,
            };
        }
    }

    /// The result, once the drain is over.
    pub fn ended(&self) -> Option<&Result<Outcome, CordonFailure>> {
        match &self.stage {
            Stage::Over(result) => Some(result),
            Stage::Cordoning(_) | Stage::Running => None,
        }
    }

    /// Reason for waiting other than pods and volumes: a watch that has failed and not come back, a relist that keeps
    /// failing, or a first snapshot that does not come. `None` if all is well or the drain is over.
    pub fn wait_reason(&self) -> Option<ApiFailure> {
        let of_looks = || match &self.state {
            State::Draining(attempt) | State::Verifying(attempt, _) => {
                attempt.wait_reason().map(ApiFailure::other)
            }
            State::Idle | State::Ended(..) => None,
        };
        self.driver.last_error().or_else(of_looks)
    }

    /// The cordon, once the node has it; it says whether another party had cordoned the node before.
    pub fn cordoned(&self) -> Option<&Cordoned> {
        self.cordoned.as_ref()
    }

    /// The progress in numbers.
    pub fn progress(&self) -> Progress {
        attempt(&self.state).map(progress).unwrap_or_default()
    }

    /// One line for each pod of the node.
    pub fn lines(&self) -> Vec<Line> {
        let now = (self.drainer.clock)();
        attempt(&self.state).map(|attempt| lines(attempt, now)).unwrap_or_default()
    }

    /// All pods that do not leave, each with the cause and a hint.
    pub fn blocked(&self) -> Vec<Blocked> {
        let now = (self.drainer.clock)();
        attempt(&self.state).map(|attempt| blocked(attempt, now)).unwrap_or_default()
    }

    /// One line for each volume that is being detached, or attached to another node.
    pub fn volumes(&self) -> Vec<VolumeLine> {
        attempt(&self.state).map(volume_lines).unwrap_or_default()
    }

    /// Record with which another process can continue this attempt; `None` before it has begun.
    pub fn record(&self) -> Option<Record> {
        attempt(&self.state).map(drain::state::Attempt::record)
    }

    /// The whole state, for facts that the other functions do not return.
    pub fn state(&self) -> &State {
        &self.state
    }

    fn start(&mut self, cordoned: Cordoned) {
        tracing::info!("{cordoned}");
        self.driver.permit(&cordoned);
        self.stage = Stage::Running;
        self.cordoned = Some(cordoned);
        let event = match self.drainer.record.take() {
            Some(record) => Event::Resume { attempt: 1, api_back: None, record: Box::new(record) },
            None => Event::Start { attempt: 1, api_back: None },
        };
        self.apply(event);
    }

    /// Waits for the next event and changes nothing.
    async fn event(&mut self) -> Event {
        let pause = (self.drainer.clock)().until(self.wake);
        tokio::select! {
            event = self.driver.next() => event,
            () = sleep(pause) => Event::Tick,
        }
    }

    /// Applies an event and waits for nothing.
    fn apply(&mut self, event: Event) {
        let now = (self.drainer.clock)();
        let (state, effects) = step(std::mem::take(&mut self.state), event, now, &self.drainer.policy);
        // Facts from earlier relists need not be asked for again.
        let known = attempt(&state).and_then(drain::state::Attempt::snapshot);
        for effect in effects {
            match effect {
                Effect::WakeAt(wake) => self.wake = wake,
                Effect::Evict { .. }
                | Effect::Delete { .. }
                | Effect::Relist { .. }
                | Effect::Inquire { .. }
                | Effect::Abort => self.driver.perform(effect, known),
            }
        }
        self.driver.await_snapshot(known.is_none());
        if let State::Ended(_, outcome) = &state {
            self.stage = Stage::Over(Ok(outcome.clone()));
        }
        self.state = state;
    }
}

/// Sleeps one hour at most, so that a far-off time cannot overflow; the caller loops.
async fn sleep(pause: Duration) {
    tokio::time::sleep(pause.min(Duration::from_hours(1))).await;
}

#[cfg(test)]
mod tests;
