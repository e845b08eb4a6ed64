//! The request for a drain: publishes an agent's own request, and reads the gate's verdict. Shared by device-op and
//! baseos.
//!
//! The caller's loop waits for [`Requester::changed`], calls [`Requester::ask`], and acts on the verdict. The
//! requester reads and writes files and decides nothing; the verdict is made by `schemas::gate`.

mod gate;
mod own;
mod words;

use std::time::Duration;

use pubsub::{
    Persistence, PublishError, Published, Publisher, Refusal, Subscription, TopicKey, presence, read_item,
};
use schemas::{
    Absence, DrainRequester, EdgeNodeClusterConfig, GateFacts, GoTime, NodeDrainReport, NodeDrainRequest,
    NodeDrainStatus, PassGate, RequestLine, Row, Topic, Verdict, ZedkubeSeen, agent,
};
use thiserror::Error;

pub use gate::{Gate, GateReading};
pub use own::{OwnRequest, new_request};

use crate::agent::AgentContext;
use crate::agent_state::zedkube_seen;
use crate::clock::{self, millis};
use crate::error_chain;
use crate::item::read_or_none;
use crate::liveness::{BEAT, HANGS_AFTER, silent_for};
use crate::refused::with_refused;
use crate::settings::SettingsWatch;
use own::Seen;

/// Poll interval: the end of zedkube causes no event, and the time of its absence is summed up at each snapshot.
const POLL: Duration = Duration::from_secs(2);

/// Requests drains of zedkube on behalf of one agent.
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
    passes: Subscription<PassGate>,
    own: Option<OwnRequest>,
    seen: Seen,
    absence: Absence,
    /// This agent was restarted while its request stood, and has not read the gate since.
    is_resumed: bool,
    latest: Option<NodeDrainReport>,
    /// An operator's pass for the pending request.
    pass: Option<PassGate>,
    last_verdict: Option<Verdict>,
    cannot_ask_lock: bool,
}

/// The files whose changes wake the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// The caller reads the gate: all files that the verdict depends on.
    ToGate,
    /// The caller pauses after a failed drain: the report, for [`Requester::needs_no_pause`].
    ToReport,
    /// The caller needs none of the files.
    ToNothing,
}

/// The reason why a requester cannot be opened.
#[derive(Debug, Error)]
pub enum RequesterError {
    /// The agent may not publish for this requester: zedkube refuses a request whose requester does not match its
    /// folder.
    #[error("{agent} cannot ask for drains of requester {requester}")]
    WrongRequester {
        /// The agent.
        agent: String,
        /// The requester.
        requester: DrainRequester,
    },
    /// The agent's folder of requests cannot be used.
    #[error("cannot ask for drains")]
    Publisher(#[source] PublishError),
}

/// The reason why the agent's own request may still be published.
#[derive(Debug, Error)]
pub enum WithdrawError {
    /// The file cannot be removed.
    #[error("cannot withdraw the NodeDrainRequest")]
    Publisher(#[from] PublishError),
    /// The file cannot be read, so it is not known whose request it holds; zedkube may go on with the last good one.
    #[error("cannot withdraw the NodeDrainRequest: its file cannot be read; remove it")]
    Unreadable(#[source] Refusal),
}

impl Requester {
    /// Opens the requests of this agent. `recorded` is the request in the agent's record, if any. A published request
    /// that is not in the record was made by another process and is never deleted.
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
        let publisher = Publisher::open(root, name, volatile, context.lock())
            .and_then(Publisher::served)
            .map_err(RequesterError::Publisher)?;
        Ok(Self {
            asks_for: requester,
            settings: context.settings(),
            publisher,
            requests: Subscription::open(root, name, volatile),
            status: Subscription::follow(root, agent::ZEDKUBE, volatile),
            report: Subscription::open(root, agent::ZEDKUBE, volatile),
            cluster: Subscription::open(root, agent::ZEDAGENT, volatile),
            passes: Subscription::open(root, agent::EBB, volatile),
            seen: recorded.as_ref().map_or_else(Seen::default, Seen::recorded),
            is_resumed: recorded.is_some(),
            own: recorded,
            absence: Absence::default(),
            latest: None,
            pass: None,
            last_verdict: None,
            cannot_ask_lock: false,
            context: context.clone(),
        })
    }

    /// Takes the request of a record that could not be read when this was opened. Does nothing if the agent has made
    /// one since.
    pub fn recall(&mut self, recorded: Option<OwnRequest>) {
        if self.own.is_none() {
            self.seen = recorded.as_ref().map_or_else(Seen::default, Seen::recorded);
            self.is_resumed = recorded.is_some();
            self.own = recorded;
        }
    }

    /// Returns when one of the files that `listen` names has changed. With [`Listen::ToGate`] it returns at least
    /// every 2 s, because the end of zedkube causes no event. Can be dropped and called again.
    pub async fn changed(&mut self, listen: Listen) {
        match listen {
            Listen::ToGate => tokio::select! {
                () = self.input_changed() => {}
                () = tokio::time::sleep(POLL) => {}
            },
            Listen::ToReport => self.report.changed().await,
            Listen::ToNothing => std::future::pending().await,
        }
    }

    /// Snapshot of the files that `listen` names.
    pub fn read(&mut self, listen: Listen) -> GateReading {
        // `ask` also reads whether the agent's own request is still published.
        let gate = (listen == Listen::ToGate).then(|| self.ask());
        let needs_no_pause = listen == Listen::ToReport && self.needs_no_pause();
        GateReading { gate, needs_no_pause, own: self.own(), next: self.next_request() }
    }

    /// Reads all files and returns the verdict: whether the device may go down.
    ///
    /// The caller acts on it: on `Publish` it calls [`Requester::next_request`] and [`Requester::publish`], on
    /// `Failed` it calls [`Requester::withdraw`]. A changed verdict is logged here.
    pub fn ask(&mut self) -> Gate {
        let verdict = self.verdict(clock::awake_millis());
        Gate { verdict, blocked_by: self.blocked_by(), release: self.release() }
    }

    /// True if the next attempt after a failed drain need not wait for the pause: an operator's override is in effect
    /// for this request, drains are switched off, or this device is no longer in a cluster. Reads the report.
    pub fn needs_no_pause(&self) -> bool {
        let forces = |report: &NodeDrainReport| {
            let forced = report.standing_order.as_ref().map(|standing_order| standing_order.requested_by);
            forced.is_some_and(|by| by == self.asks_for || by == DrainRequester::None)
        };
        let (report, _) = self.read_last_good(agent::ZEDKUBE, &self.report);
        report.is_some_and(|report| report.drains_nothing() || forces(&report))
    }

    /// The verdict at `now_ms` of [`clock::awake_millis`], so that zedkube does not count as absent while the machine
    /// is suspended.
    fn verdict(&mut self, now_ms: u64) -> Verdict {
        let files = self.snapshot();
        self.observe(files.status);
        let mut facts = self.facts(&files);
        // Its last sign of life was before it ended, or before it counted as hung.
        let unknown = match facts.row() {
            Row::Away => Some(BEAT),
            Row::Hung => Some(HANGS_AFTER),
            Row::NotNeeded | Row::NoRequest | Row::Answered | Row::Passed | Row::Eve | Row::AtWork => None,
        };
        let is_away = unknown.is_some();
        if std::mem::take(&mut self.is_resumed)
            && let Some(unknown) = unknown
        {
            self.absence = Absence::resumed(self.absent_before(now_ms, unknown), files.report.as_ref());
        }
        facts.absent_ms = self.absence.observe(now_ms, is_away, files.report.as_ref());
        let verdict = schemas::gate(&facts);
        (self.latest, self.pass) = (files.report, files.pass);
        self.log_if_new(verdict);
        verdict
    }

    /// For how many milliseconds at least zedkube has been away, or has hung, at the start of this agent: since its last
    /// sign of life, without the first `unknown` of that time, or since this agent's request was made.
    fn absent_before(&self, now_ms: u64, unknown: Duration) -> u64 {
        let since_request = self.own.map_or(0, |own| now_ms.saturating_sub(own.awake_ms));
        let silent = silent_for(self.context.root(), agent::ZEDKUBE);
        since_request.min(silent.map_or(u64::MAX, |silent| millis(silent.saturating_sub(unknown))))
    }

    /// A new request for the caller's record. Record it before [`Requester::publish`], so that it is recognised after
    /// a crash.
    #[must_use]
    pub fn next_request(&self) -> OwnRequest {
        OwnRequest::new(
            clock::wall(),
            clock::awake_millis(),
            self.own.as_ref(),
            self.published_request().map(|request| request.requested_at),
        )
    }

    /// Publishes the recorded request with its context (`reboot`, or the id of an image), and returns its time.
    ///
    /// After an error it is not certain whether the request is published; the next verdict tells whether to publish
    /// again.
    pub fn publish(&mut self, own: OwnRequest, context: &str) -> Result<GoTime, PublishError> {
        self.own = Some(own);
        // Waiting for zedkube counts from the publication of this request.
        (self.absence, self.is_resumed) = (Absence::default(), false);
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

    /// Withdraws the agent's own request. Returns true if it was published; a request of another process is left
    /// alone.
    ///
    /// After an error the request still counts as the agent's own: withdraw it again.
    pub fn withdraw(&mut self) -> Result<bool, WithdrawError> {
        let Some(own) = self.own else {
            return Ok(false);
        };
        let is_withdrawn = match self.read_request().map_err(WithdrawError::Unreadable)? {
            Some(request) if own.has_made(request.requested_at) => {
                tracing::info!("NodeDrainRequest withdrawn: {}, {}", request.context, request.requested_at);
                self.publisher.unpublish(&TopicKey::global())?
            }
            Some(request) => {
                tracing::warn!(
                    "NodeDrainRequest of {} was not made by this agent: it is not withdrawn",
                    request.requested_at
                );
                false
            }
            None => false,
        };
        self.own = None;
        self.seen = Seen::default();
        Ok(is_withdrawn)
    }

    /// The agent's own request, for its record: made last and not withdrawn. It changes in [`Requester::publish`],
    /// [`Requester::withdraw`] and [`Requester::ask`].
    pub fn own(&self) -> Option<OwnRequest> {
        self.own
    }
}

/// Snapshot of the files.
struct FileState {
    request: Option<NodeDrainRequest>,
    status: Option<NodeDrainStatus>,
    report: Option<NodeDrainReport>,
    /// The report exists, even if it cannot be read.
    is_report_there: bool,
    zedkube: ZedkubeSeen,
    /// An operator's pass for the pending request.
    pass: Option<PassGate>,
    cluster: Option<EdgeNodeClusterConfig>,
}

impl Requester {
    async fn input_changed(&mut self) {
        tokio::select! {
            () = self.requests.changed() => {}
            () = self.status.changed() => {}
            () = self.report.changed() => {}
            () = self.cluster.changed() => {}
            () = self.passes.changed() => {}
            () = self.settings.changed() => {}
        }
    }

    /// Reads the files in this order because zedkube takes its lock, then writes the report, then the status. So a
    /// zedkube of ours that starts meanwhile never shows a status without a report and a lock, which would look like
    /// EVE's zedkube.
    fn snapshot(&mut self) -> FileState {
        let request = self.published_request();
        let status = self.read_status();
        let (report, is_report_there) = self.read_last_good(agent::ZEDKUBE, &self.report);
        let status = if is_report_there { status } else { eves_status(&self.status, status) };
        let zedkube = self.zedkube();
        let (cluster, _) = self.read_last_good(agent::ZEDAGENT, &self.cluster);
        let pass = request.as_ref().and_then(|request| pass_for(&self.context, self.context.name(), request));
        FileState { request, status, report, is_report_there, zedkube, pass, cluster }
    }

    fn facts(&self, files: &FileState) -> GateFacts {
        let settings = self.settings.current();
        let ours = self.own.map(|own| own.requested_at);
        let report = files.report.as_ref();
        let line = self.own_line(report);
        GateFacts {
            requester: self.asks_for,
            member: report.map(|report| report.member),
            disabled: report.is_some_and(|report| report.disabled.is_some()),
            own_request: files.request.as_ref().map(|request| request.requested_at),
            ours,
            answer: line.map(|line| line.answer),
            // A zedkube from before outcomes were per request has one outcome for all.
            outcome: line.and_then(|line| line.outcome).or_else(|| report.and_then(|report| report.outcome)),
            is_passed: files.pass.is_some(),
            zedkube: files.zedkube,
            status: files.status,
            report_present: files.is_report_there,
            seen_other_status_since_publish: self.seen.other(),
            cluster_config_valid: files
                .cluster
                .as_ref()
                .filter(|config| config.initialized)
                .map(|config| config.valid),
            absent_ms: 0,
            start_timeout_ms: millis(settings.drain.start_timeout),
            on_timeout: settings.drain.start_on_timeout,
        }
    }

    /// The line of zedkube's report about the agent's own request.
    fn own_line<'a>(&self, report: Option<&'a NodeDrainReport>) -> Option<&'a RequestLine> {
        report?.line_of(self.context.name(), self.own?.requested_at)
    }

    fn observe(&mut self, status: Option<NodeDrainStatus>) {
        if let Some(status) = status {
            self.seen.observe(status.status);
        }
        if let Some(own) = &mut self.own {
            own.seen_other_status = self.seen.other() == Some(true);
        }
    }

    /// The published request, as zedkube reads it: one that is refused or names another requester does not count.
    fn published_request(&self) -> Option<NodeDrainRequest> {
        self.read_request().ok().flatten().filter(|request| request.requested_by == self.asks_for)
    }

    fn read_request(&self) -> Result<Option<NodeDrainRequest>, Refusal> {
        read_item(self.context.root(), self.context.name(), Persistence::Volatile, &TopicKey::global())
    }

    /// The status. An unreadable file counts as UNKNOWN, because some zedkube wrote it.
    fn read_status(&self) -> Option<NodeDrainStatus> {
        match self.read_last_good(agent::ZEDKUBE, &self.status) {
            (None, true) => Some(NodeDrainStatus::default()),
            (status, _) => status,
        }
    }

    /// The item in the file, or the last good value if the file is refused; and whether there is a file.
    fn read_last_good<T: Topic>(&self, publisher: &str, last: &Subscription<T>) -> (Option<T>, bool) {
        let key = TopicKey::global();
        match read_item(self.context.root(), publisher, Persistence::Volatile, &key) {
            Ok(item) => {
                let is_there = item.is_some();
                (item, is_there)
            }
            Err(_) => (last.get(&key).cloned(), true),
        }
    }

    /// The presence of zedkube. If its lock cannot be read, it counts as running, so that the device waits.
    fn zedkube(&mut self) -> ZedkubeSeen {
        let root = self.context.root();
        let seen = presence(root, agent::ZEDKUBE);
        if let Err(error) = &seen
            && !self.cannot_ask_lock
        {
            tracing::warn!("{}; zedkube counts as running", error_chain(error));
        }
        self.cannot_ask_lock = seen.is_err();
        zedkube_seen(root, seen.ok())
    }

    /// The reason why the operation is held, with refused files; empty if it is not held.
    fn blocked_by(&self) -> String {
        let Some(verdict) = self.last_verdict else {
            return String::new();
        };
        let words = words::blocked_by(verdict, self.latest.as_ref());
        if words.is_empty() { words } else { with_refused(words, &self.refused()) }
    }

    fn release(&self) -> String {
        let report = self.latest.as_ref();
        let pass = self.pass.as_ref().map(|pass| format!("{}: {}", pass.by, pass.reason));
        let by = pass.or_else(|| self.own_line(report).map(|line| line.by.clone())).unwrap_or_default();
        self.last_verdict.map_or_else(String::new, |verdict| words::release(verdict, report, &by))
    }

    /// The files that are refused now, with the reason.
    fn refused(&self) -> Vec<Refusal> {
        let all =
            [self.requests.refused(), self.status.refused(), self.report.refused(), self.cluster.refused()];
        all.concat()
    }

    /// Logs a verdict that differs from the last one.
    fn log_if_new(&mut self, verdict: Verdict) {
        let is_new = self.last_verdict.is_none_or(|last| !words::is_same(last, verdict));
        self.last_verdict = Some(verdict);
        if !is_new {
            return;
        }
        match verdict {
            Verdict::Proceed(reason) if reason.is_undrained() => {
                tracing::warn!("nodedrain-step: proceed: {}", self.release());
            }
            Verdict::Proceed(reason) => tracing::info!("nodedrain-step: proceed: {reason}"),
            Verdict::Publish => {
                tracing::info!("nodedrain-step: no request of this agent is published: requesting a drain");
            }
            Verdict::Defer(reason) => tracing::info!("nodedrain-step: deferred: {reason}"),
            Verdict::Failed(status) => tracing::warn!("nodedrain-step: {status}: {}", self.blocked_by()),
        }
    }
}

/// An operator's pass for the request that an agent has published; nodeagent checks it, too.
pub fn standing_pass(context: &AgentContext, requester: &str) -> Option<PassGate> {
    let key = TopicKey::global();
    let request = read_item(context.root(), requester, Persistence::Volatile, &key).ok().flatten()?;
    pass_for(context, requester, &request)
}

/// A file that cannot be read lets no request pass.
fn pass_for(context: &AgentContext, requester: &str, request: &NodeDrainRequest) -> Option<PassGate> {
    let key = TopicKey::parse(requester).ok()?;
    let pass = read_or_none::<PassGate>(context.root(), agent::EBB, Persistence::Volatile, &key);
    pass.filter(|pass| pass.covers(request.requested_by, request.requested_at, context.boot_id()))
}

/// The status if no zedkube of ours is running. EVE's zedkube publishes from two threads, so its file may hold an
/// older value than its socket.
fn eves_status(
    sent: &Subscription<NodeDrainStatus>,
    in_file: Option<NodeDrainStatus>,
) -> Option<NodeDrainStatus> {
    if sent.is_by_socket() { sent.get(&TopicKey::global()).copied() } else { in_file }
}

#[cfg(test)]
mod tests;
