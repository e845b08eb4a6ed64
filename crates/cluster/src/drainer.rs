//! A drain of one node, from the cordon to the proof.

use std::time::Duration;

use drain::diagnosis::{Blocked, blocked};
use drain::progress::{Line, Progress, VolumeLine, attempt, lines, progress, volume_lines};
use drain::{Effect, Event, Moment, Outcome, Policy, Record, State, step};
use futures::future::BoxFuture;

use crate::clock::{Clock, boot_time};
use crate::cordon::{CordonFailure, Cordoned, cordon};
use crate::driver::Driver;
use crate::failure::ApiFailure;
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
    policy: Policy,
    owner: String,
    reason: String,
    clock: Clock,
    record: Option<Record>,
}

impl Drainer {
    /// Drains by this policy. The cordon's owner is `ebb`, the clock `CLOCK_BOOTTIME`.
    pub fn new(cluster: Cluster, policy: Policy) -> Self {
        Self {
            cluster,
            policy,
            owner: "ebb".to_owned(),
            reason: "drain".to_owned(),
            clock: boot_time,
            record: None,
        }
    }

    /// Who owns the cordon, and why, as the node's annotations say.
    #[must_use]
    pub fn owned_by(mut self, owner: &str, reason: &str) -> Self {
        owner.clone_into(&mut self.owner);
        reason.clone_into(&mut self.reason);
        self
    }

    /// Goes on with an attempt that another process of this boot began: its deadline and its history stay.
    #[must_use]
    pub fn resuming(mut self, record: Record) -> Self {
        self.record = Some(record);
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Cordons the node, and nothing else: to cordon several nodes before the first one is drained.
    ///
    /// # Errors
    /// The node does not exist, or the call failed.
    pub async fn cordon(&self, node: &str) -> Result<Cordoned, CordonFailure> {
        cordon(&self.cluster, node, &self.owner, &self.reason).await
    }

    /// Cordons the node and evicts its pods until a fresh list proves that none is left that should leave, or until
    /// the attempt has failed.
    ///
    /// Nothing happens until [`Drain::next`] or [`Drain::outcome`] is awaited. Must be called in a tokio runtime.
    pub fn drain(&self, node: &str) -> Drain {
        let drainer = self.clone();
        let name = node.to_owned();
        let cordoning = Box::pin(async move { drainer.cordon(&name).await });
        self.begin(node, Stage::Cordoning(cordoning))
    }

    /// The same for a node that [`Drainer::cordon`] has cordoned already.
    pub fn drain_cordoned(&self, cordoned: Cordoned) -> Drain {
        let node = cordoned.name().to_owned();
        self.begin(&node, Stage::Cordoning(Box::pin(async { Ok(cordoned) })))
    }

    /// The watches list while the node is being cordoned.
    fn begin(&self, node: &str, stage: Stage) -> Drain {
        let mut driver = Driver::with_clock(self.clock);
        driver.watch(&self.cluster, node);
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

/// One drain under way.
///
/// The node stays cordoned whatever happens. Dropping this stops the drain at once: calls in flight are given up.
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
    /// Waits for the next change and tells how far the drain is; `None` once it is over. May be dropped and called
    /// again at any time.
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

    /// Waits until the drain is over. A node that is [`Outcome::Failed`] is no error: the reasons are in
    /// [`Drain::blocked`] until then.
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

    /// How it ended, once it is over.
    pub fn ended(&self) -> Option<&Result<Outcome, CordonFailure>> {
        match &self.stage {
            Stage::Over(result) => Some(result),
            Stage::Cordoning(_) | Stage::Running => None,
        }
    }

    /// What the drain waits for besides its pods and volumes: a watch that has failed since it last said something, a
    /// fresh look that keeps failing, a first picture that does not come. `None` if all is well or the drain is over.
    pub fn trouble(&self) -> Option<ApiFailure> {
        let of_looks = || match &self.state {
            State::Draining(attempt) | State::Proving(attempt, _) => attempt.trouble().map(ApiFailure::other),
            State::Idle | State::Ended(..) => None,
        };
        self.driver.last_error().or_else(of_looks)
    }

    /// The cordon, once it stands: tells whether somebody else had cordoned the node before.
    pub fn cordoned(&self) -> Option<&Cordoned> {
        self.cordoned.as_ref()
    }

    /// How far the drain is, in numbers.
    pub fn progress(&self) -> Progress {
        attempt(&self.state).map(progress).unwrap_or_default()
    }

    /// One line for each pod of the node.
    pub fn lines(&self) -> Vec<Line> {
        let now = (self.drainer.clock)();
        attempt(&self.state).map(|attempt| lines(attempt, now)).unwrap_or_default()
    }

    /// Every pod that does not leave, with the reason and what a person can do.
    pub fn blocked(&self) -> Vec<Blocked> {
        let now = (self.drainer.clock)();
        attempt(&self.state).map(|attempt| blocked(attempt, now)).unwrap_or_default()
    }

    /// One line for each volume that is being detached, or attached elsewhere.
    pub fn volumes(&self) -> Vec<VolumeLine> {
        attempt(&self.state).map(volume_lines).unwrap_or_default()
    }

    /// What another process would need to go on with this attempt; `None` before it has begun.
    pub fn record(&self) -> Option<Record> {
        attempt(&self.state).map(drain::state::Attempt::record)
    }

    /// All that is known, for what the other functions do not tell.
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

    /// Only waits.
    async fn event(&mut self) -> Event {
        let pause = (self.drainer.clock)().until(self.wake);
        tokio::select! {
            event = self.driver.next() => event,
            () = sleep(pause) => Event::Tick,
        }
    }

    /// Only changes.
    fn apply(&mut self, event: Event) {
        let now = (self.drainer.clock)();
        let (state, effects) = step(std::mem::take(&mut self.state), event, now, &self.drainer.policy);
        // What relists have found out before need not be asked for again.
        let known = attempt(&state).and_then(drain::state::Attempt::snapshot);
        for effect in effects {
            match effect {
                Effect::WakeAt(wake) => self.wake = wake,
                Effect::Evict { .. }
                | Effect::Delete { .. }
                | Effect::Prove { .. }
                | Effect::Inquire { .. }
                | Effect::Abort => self.driver.perform(effect, known),
            }
        }
        self.driver.await_picture(known.is_none());
        if let State::Ended(_, outcome) = &state {
            self.stage = Stage::Over(Ok(outcome.clone()));
        }
        self.state = state;
    }
}

/// Sleeps at most an hour, so that no far-off time overflows; who waits for longer wakes and looks again.
async fn sleep(pause: Duration) {
    tokio::time::sleep(pause.min(Duration::from_hours(1))).await;
}

#[cfg(test)]
#[path = "drainer_tests.rs"]
mod tests;
