//! Asking for a drain: the own request in, the gate's verdict out. device-op and baseos share it.
//!
//! The caller's loop is: wait for [`Requester::changed`], ask [`Requester::verdict`], act on it. The requester
//! acts on files alone and decides nothing; the verdict is `schemas::gate`'s.

mod own;
mod words;

use std::time::Duration;

use pubsub::{
    Persistence, PublishError, Published, Publisher, Refusal, Subscription, TopicKey, lock_holder, read_item,
};
use schemas::{
    Absence, DrainRequester, EdgeNodeClusterConfig, GateFacts, GoTime, NodeDrainReport, NodeDrainRequest,
    NodeDrainStatus, OnTimeout, Row, Topic, Verdict, agent, gate,
};
use thiserror::Error;

pub use own::OwnRequest;

use crate::agent::AgentContext;
use crate::clock;
use crate::error_chain;
use crate::settings::SettingsWatch;
use own::Seen;

/// zedkube's lock makes no event, and its absence is summed from look to look.
const LOOK: Duration = Duration::from_secs(2);

/// One agent's way to ask zedkube for a drain.
#[derive(Debug)]
pub struct Requester {
    context: AgentContext,
    asks_for: DrainRequester,
    settings: SettingsWatch,
    publisher: Publisher<NodeDrainRequest>,
    requests: Subscription<NodeDrainRequest>,
    status: Subscription<NodeDrainStatus>,
    report: Subscription<NodeDrainReport>,
    cluster: Subscription<EdgeNodeClusterConfig>,
    own: Option<OwnRequest>,
    seen: Seen,
    absence: Absence,
    latest: Option<NodeDrainReport>,
    told: Option<Verdict>,
    cannot_ask_lock: bool,
}

/// Why there is no requester.
#[derive(Debug, Error)]
pub enum RequesterError {
    /// zedkube refuses a request whose requester is not that of its folder.
    #[error("{agent} cannot ask for drains of requester {requester}")]
    WrongRequester {
        /// The agent.
        agent: String,
        /// Whom it wanted to ask for.
        requester: DrainRequester,
    },
    /// The agent's folder of requests cannot be used.
    #[error("cannot ask for drains")]
    Publisher(#[source] PublishError),
}

impl Requester {
    /// Takes over the requests of this agent. `recorded` is what its operation record holds, if anything: an item
    /// that stands and is not in there is somebody else's and is never deleted.
    pub fn open(
        context: &AgentContext,
        requester: DrainRequester,
        recorded: Option<OwnRequest>,
    ) -> Result<Self, RequesterError> {
        let name = context.name();
        if DrainRequester::of_publisher(name) != Some(requester) {
            return Err(RequesterError::WrongRequester { agent: name.to_owned(), requester });
        }
        let (root, volatile) = (context.root(), Persistence::Volatile);
        let publisher =
            Publisher::open(root, name, volatile, context.lock()).map_err(RequesterError::Publisher)?;
        Ok(Self {
            asks_for: requester,
            settings: context.settings(),
            publisher,
            requests: Subscription::open(root, name, volatile),
            status: Subscription::open(root, agent::ZEDKUBE, volatile),
            report: Subscription::open(root, agent::ZEDKUBE, volatile),
            cluster: Subscription::open(root, agent::ZEDAGENT, volatile),
            seen: recorded.as_ref().map_or_else(Seen::default, Seen::recorded),
            own: recorded,
            absence: Absence::default(),
            latest: None,
            told: None,
            cannot_ask_lock: false,
            context: context.clone(),
        })
    }

    /// Returns when a file that the verdict depends on has changed, and every 2 s: zedkube's lock makes no event.
    /// Can be dropped and called again.
    pub async fn changed(&mut self) {
        tokio::select! {
            () = self.input_changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }

    /// May the device go down? Reads everything anew; `now_ms` is [`clock::boot_millis`].
    ///
    /// The caller acts on it: `Publish` with [`Requester::next_request`] and [`Requester::publish`], `Failed` with
    /// [`Requester::withdraw`]. A changed verdict is logged here.
    pub fn verdict(&mut self, now_ms: u64) -> Verdict {
        let look = self.look();
        self.observe(look.status);
        let mut facts = self.facts(&look);
        let is_away = facts.row() == Row::Away;
        facts.absent_ms = self.absence.observe(now_ms, is_away, look.report.as_ref());
        let verdict = gate(&facts);
        self.latest = look.report;
        self.tell(verdict);
        verdict
    }

    /// A new request for the caller's record. It stands only once [`Requester::publish`] has it; record it first,
    /// so that it is recognised after a crash.
    #[must_use]
    pub fn next_request(&self) -> OwnRequest {
        OwnRequest::new(clock::wall(), self.own.as_ref(), self.standing().map(|request| request.requested_at))
    }

    /// Publishes the recorded request with its context (`reboot`, an image's id) and gives its time.
    ///
    /// On an error nothing stands for certain; the next verdict says whether to publish again.
    pub fn publish(&mut self, own: OwnRequest, context: &str) -> Result<GoTime, PublishError> {
        self.own = Some(own);
        let requested_at = own.requested_at;
        let request =
            NodeDrainRequest { requested_at, requested_by: self.asks_for, context: context.to_owned() };
        if self.publisher.publish(&TopicKey::global(), &request)? == Published::Written {
            tracing::info!("NodeDrainRequest published: {context} for {}, {requested_at}", self.asks_for);
        }
        self.seen = Seen::since_publication();
        if let Some(status) = self.read_status() {
            self.seen.observe(status.status);
        }
        Ok(requested_at)
    }

    /// Takes the own request back. Gives whether one stood; an item that is not ours is left alone.
    ///
    /// After an error the request is still held for ours: withdraw again.
    pub fn withdraw(&mut self) -> Result<bool, PublishError> {
        let is_withdrawn = match self.read_standing() {
            Ok(Some(request)) if self.own.is_some_and(|own| own.has_made(request.requested_at)) => {
                tracing::info!("NodeDrainRequest withdrawn: {}, {}", request.context, request.requested_at);
                self.publisher.unpublish(&TopicKey::global())?
            }
            Ok(Some(request)) => {
                tracing::warn!("NodeDrainRequest of {} is not ours and stays", request.requested_at);
                false
            }
            Ok(None) => false,
            Err(refusal) => {
                tracing::warn!("NodeDrainRequest cannot be read and stays; remove it: {refusal}");
                false
            }
        };
        self.own = None;
        self.seen = Seen::default();
        Ok(is_withdrawn)
    }

    /// The request made last and not taken back, for the operation record. It changes in [`Requester::publish`],
    /// [`Requester::withdraw`] and [`Requester::verdict`].
    pub fn own(&self) -> Option<OwnRequest> {
        self.own
    }

    /// What holds the operation back, for a status; empty when nothing does.
    pub fn blocked_by(&self) -> String {
        self.told.map_or_else(String::new, |verdict| words::blocked_by(verdict, self.report()))
    }

    /// What an operator can do about it, for a status; empty when nothing is needed.
    pub fn release(&self) -> String {
        self.told.map_or_else(String::new, |verdict| words::release(verdict, self.report()))
    }

    /// zedkube's report as the last verdict saw it.
    pub fn report(&self) -> Option<&NodeDrainReport> {
        self.latest.as_ref()
    }
}

/// What the files say at one moment.
struct Look {
    standing: Option<NodeDrainRequest>,
    status: Option<NodeDrainStatus>,
    report: Option<NodeDrainReport>,
    is_lock_free: bool,
    cluster: Option<EdgeNodeClusterConfig>,
}

impl Requester {
    async fn input_changed(&mut self) {
        tokio::select! {
            () = self.requests.changed() => {}
            () = self.status.changed() => {}
            () = self.report.changed() => {}
            () = self.cluster.changed() => {}
            () = self.settings.changed() => {}
        }
    }

    /// In this order, because zedkube takes its lock, then writes the report, then the status: of one of ours that
    /// starts meanwhile we never see a status without a report and a lock, which would look like EVE's.
    fn look(&mut self) -> Look {
        let standing = self.standing();
        let status = self.read_status();
        let report = self.read(agent::ZEDKUBE, &self.report);
        let is_lock_free = self.is_lock_free();
        Look { standing, status, report, is_lock_free, cluster: self.read(agent::ZEDAGENT, &self.cluster) }
    }

    fn facts(&self, look: &Look) -> GateFacts {
        let settings = self.settings.current();
        let ours = self.own.map(|own| own.requested_at);
        let report = look.report.as_ref();
        let answer = |time| report.and_then(|report| report.answer_to(self.context.name(), time));
        GateFacts {
            requester: self.asks_for,
            member: report.map(|report| report.member),
            disabled: report.is_some_and(|report| report.disabled.is_some()),
            own_request: look.standing.as_ref().map(|request| request.requested_at),
            ours,
            answer: ours.and_then(answer),
            zedkube_lock_free: look.is_lock_free,
            status: look.status,
            report_present: report.is_some(),
            seen_other_status_since_publish: self.seen.other(),
            cluster_config_valid: look
                .cluster
                .as_ref()
                .filter(|config| config.initialized)
                .map(|config| config.valid),
            absent_ms: 0,
            start_timeout_ms: u64::try_from(settings.drain.start_timeout.as_millis()).unwrap_or(u64::MAX),
            on_timeout: OnTimeout::from(settings.drain.start_on_timeout),
        }
    }

    fn observe(&mut self, status: Option<NodeDrainStatus>) {
        if let Some(status) = status {
            self.seen.observe(status.status);
        }
        if let Some(own) = &mut self.own {
            own.seen_other_status = self.seen.other() == Some(true);
        }
    }

    /// Our request as zedkube reads it: refused, or of another requester, it does not stand.
    fn standing(&self) -> Option<NodeDrainRequest> {
        self.read_standing().ok().flatten().filter(|request| request.requested_by == self.asks_for)
    }

    fn read_standing(&self) -> Result<Option<NodeDrainRequest>, Refusal> {
        read_item(self.context.root(), self.context.name(), Persistence::Volatile, &TopicKey::global())
    }

    fn read_status(&self) -> Option<NodeDrainStatus> {
        self.read(agent::ZEDKUBE, &self.status)
    }

    /// The item as the file has it now; of a file that is refused, the last good value.
    fn read<T: Topic>(&self, publisher: &str, last: &Subscription<T>) -> Option<T> {
        let key = TopicKey::global();
        read_item(self.context.root(), publisher, Persistence::Volatile, &key)
            .unwrap_or_else(|_| last.get(&key).cloned())
    }

    /// A lock that cannot be asked counts as held: then the device waits.
    fn is_lock_free(&mut self) -> bool {
        let holder = lock_holder(self.context.root(), agent::ZEDKUBE);
        if let Err(error) = &holder
            && !self.cannot_ask_lock
        {
            tracing::warn!("{}; zedkube counts as running", error_chain(error));
        }
        self.cannot_ask_lock = holder.is_err();
        holder.is_ok_and(|holder| holder.is_none())
    }

    /// Logs a verdict that is new.
    fn tell(&mut self, verdict: Verdict) {
        let is_new = self.told.is_none_or(|told| !words::is_same(told, verdict));
        self.told = Some(verdict);
        if !is_new {
            return;
        }
        match verdict {
            Verdict::Proceed(reason) if reason.is_undrained() => {
                tracing::error!("nodedrain-step: proceed: {reason}");
            }
            Verdict::Proceed(reason) => tracing::info!("nodedrain-step: proceed: {reason}"),
            Verdict::Publish => {
                tracing::info!("nodedrain-step: no request of ours stands: asking for a drain");
            }
            Verdict::Defer(reason) => tracing::info!("nodedrain-step: deferred: {reason}"),
            Verdict::Failed(status) => tracing::warn!("nodedrain-step: {status}: {}", self.blocked_by()),
        }
    }
}

#[cfg(test)]
#[path = "requester/tests.rs"]
mod tests;
