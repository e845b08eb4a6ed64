//! Asking for a drain: the own request in, the gate's verdict out. device-op and baseos share it.
//!
//! The caller's loop is: wait for [`Requester::changed`], [`Requester::ask`], act on the verdict. The requester
//! acts on files alone and decides nothing; the verdict is `schemas::gate`'s.

mod gate;
mod own;
mod words;

use std::time::Duration;

use pubsub::{
    Persistence, Presence, PublishError, Published, Publisher, Refusal, Subscription, TopicKey, presence,
    read_item,
};
use schemas::{
    Absence, DrainRequester, EdgeNodeClusterConfig, GateFacts, GoTime, Member, NodeDrainReport,
    NodeDrainRequest, NodeDrainStatus, PassGate, RequestLine, Row, Topic, Verdict, ZedkubeSeen, agent,
};
use thiserror::Error;

pub use gate::{Gate, GateReading};
pub use own::OwnRequest;

use crate::agent::AgentContext;
use crate::clock;
use crate::error_chain;
use crate::liveness::silent_for;
use crate::refused::with_refused;
use crate::settings::SettingsWatch;
use own::Seen;

/// zedkube's end makes no event, and its absence is summed from look to look.
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
    passes: Subscription<PassGate>,
    own: Option<OwnRequest>,
    seen: Seen,
    absence: Absence,
    latest: Option<NodeDrainReport>,
    /// An operator's word for the standing request.
    pass: Option<PassGate>,
    told: Option<Verdict>,
    cannot_ask_lock: bool,
}

/// What a caller wants to be woken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// It asks the gate: everything that the verdict depends on.
    ToGate,
    /// It pauses after a failed drain: the report, for [`Requester::needs_no_pause`].
    ToReport,
    /// It wants nothing.
    ToNothing,
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

/// Why the own request still stands, for all that is known.
#[derive(Debug, Error)]
pub enum WithdrawError {
    /// The file cannot be removed.
    #[error("cannot withdraw the NodeDrainRequest")]
    Publisher(#[from] PublishError),
    /// Nobody knows whose request the file holds; zedkube may go on with the last good one.
    #[error("cannot withdraw the NodeDrainRequest: its file cannot be read; remove it")]
    Unreadable(#[source] Refusal),
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
            own: recorded,
            absence: Absence::default(),
            latest: None,
            pass: None,
            told: None,
            cannot_ask_lock: false,
            context: context.clone(),
        })
    }

    /// Returns when something has changed that the caller listens to; while it asks the gate also every 2 s, because
    /// zedkube's end makes no event. Can be dropped and called again.
    pub async fn changed(&mut self, listen: Listen) {
        match listen {
            Listen::ToGate => tokio::select! {
                () = self.input_changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            },
            Listen::ToReport => self.report.changed().await,
            Listen::ToNothing => std::future::pending().await,
        }
    }

    /// One look at all that the caller listens to.
    pub fn read(&mut self, listen: Listen) -> GateReading {
        // Whether the own request still stands is seen by asking.
        let gate = (listen == Listen::ToGate).then(|| self.ask());
        let needs_no_pause = listen == Listen::ToReport && self.needs_no_pause();
        GateReading { gate, needs_no_pause, own: self.own(), next: self.next_request() }
    }

    /// May the device go down? Reads everything anew.
    ///
    /// The caller acts on it: `Publish` with [`Requester::next_request`] and [`Requester::publish`], `Failed` with
    /// [`Requester::withdraw`]. A changed verdict is logged here.
    pub fn ask(&mut self) -> Gate {
        let verdict = self.verdict(clock::awake_millis());
        Gate { verdict, blocked_by: self.blocked_by(), release: self.release() }
    }

    /// After a failed drain the next try need not wait: an operator's override stands for our request, drains are
    /// switched off, or this device is in no cluster any more. Reads the report anew.
    pub fn needs_no_pause(&self) -> bool {
        let forces = |report: &NodeDrainReport| {
            let forced = report.forcing.as_ref().map(|forcing| forcing.requested_by);
            forced.is_some_and(|by| by == self.asks_for || by == DrainRequester::None)
        };
        let (report, _) = self.read_last_good(agent::ZEDKUBE, &self.report);
        report
            .is_some_and(|report| report.disabled.is_some() || report.member == Member::No || forces(&report))
    }

    /// At `now_ms` of [`clock::awake_millis`]: while the machine is suspended zedkube is not away.
    fn verdict(&mut self, now_ms: u64) -> Verdict {
        let look = self.look();
        self.observe(look.status);
        let mut facts = self.facts(&look);
        let is_away = facts.row() == Row::Away;
        facts.absent_ms = self.absence.observe(now_ms, is_away, look.report.as_ref());
        let verdict = schemas::gate(&facts);
        (self.latest, self.pass) = (look.report, look.pass);
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
        // Whoever waited for zedkube before waited for something else.
        self.absence = Absence::default();
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
    pub fn withdraw(&mut self) -> Result<bool, WithdrawError> {
        let Some(own) = self.own else {
            return Ok(false);
        };
        let is_withdrawn = match self.read_standing().map_err(WithdrawError::Unreadable)? {
            Some(request) if own.has_made(request.requested_at) => {
                tracing::info!("NodeDrainRequest withdrawn: {}, {}", request.context, request.requested_at);
                self.publisher.unpublish(&TopicKey::global())?
            }
            Some(request) => {
                tracing::warn!("NodeDrainRequest of {} is not ours and stays", request.requested_at);
                false
            }
            None => false,
        };
        self.own = None;
        self.seen = Seen::default();
        Ok(is_withdrawn)
    }

    /// The request made last and not taken back, for the operation record. It changes in [`Requester::publish`],
    /// [`Requester::withdraw`] and [`Requester::ask`].
    pub fn own(&self) -> Option<OwnRequest> {
        self.own
    }
}

/// What the files say at one moment.
struct FileState {
    standing: Option<NodeDrainRequest>,
    status: Option<NodeDrainStatus>,
    report: Option<NodeDrainReport>,
    /// There is a report, perhaps one that cannot be read.
    is_report_there: bool,
    zedkube: ZedkubeSeen,
    /// An operator's word for the request that stands.
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

    /// In this order, because zedkube takes its lock, then writes the report, then the status: of one of ours that
    /// starts meanwhile we never see a status without a report and a lock, which would look like EVE's.
    fn look(&mut self) -> FileState {
        let standing = self.standing();
        let status = self.read_status();
        let (report, is_report_there) = self.read_last_good(agent::ZEDKUBE, &self.report);
        let status = if is_report_there { status } else { eves_status(&self.status, status) };
        let zedkube = self.zedkube();
        let (cluster, _) = self.read_last_good(agent::ZEDAGENT, &self.cluster);
        let pass = standing.as_ref().and_then(|request| self.pass_for(request));
        FileState { standing, status, report, is_report_there, zedkube, pass, cluster }
    }

    fn facts(&self, look: &FileState) -> GateFacts {
        let settings = self.settings.current();
        let ours = self.own.map(|own| own.requested_at);
        let report = look.report.as_ref();
        let line = self.own_line(report);
        GateFacts {
            requester: self.asks_for,
            member: report.map(|report| report.member),
            disabled: report.is_some_and(|report| report.disabled.is_some()),
            own_request: look.standing.as_ref().map(|request| request.requested_at),
            ours,
            answer: line.map(|line| line.answer),
            // A zedkube from before requests had their own says it once for all.
            outcome: line.and_then(|line| line.outcome).or_else(|| report.and_then(|report| report.outcome)),
            is_passed: look.pass.is_some(),
            zedkube: look.zedkube,
            status: look.status,
            report_present: look.is_report_there,
            seen_other_status_since_publish: self.seen.other(),
            cluster_config_valid: look
                .cluster
                .as_ref()
                .filter(|config| config.initialized)
                .map(|config| config.valid),
            absent_ms: 0,
            start_timeout_ms: millis(settings.drain.start_timeout),
            on_timeout: settings.drain.start_on_timeout,
        }
    }

    /// What zedkube says of our request.
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

    /// Our request as zedkube reads it: refused, or of another requester, it does not stand.
    fn standing(&self) -> Option<NodeDrainRequest> {
        self.read_standing().ok().flatten().filter(|request| request.requested_by == self.asks_for)
    }

    fn read_standing(&self) -> Result<Option<NodeDrainRequest>, Refusal> {
        read_item(self.context.root(), self.context.name(), Persistence::Volatile, &TopicKey::global())
    }

    /// One that cannot be read is one all the same: somebody's zedkube is there.
    fn read_status(&self) -> Option<NodeDrainStatus> {
        match self.read_last_good(agent::ZEDKUBE, &self.status) {
            (None, true) => Some(NodeDrainStatus::default()),
            (status, _) => status,
        }
    }

    /// The item as the file has it now, of a file that is refused the last good value; and whether there is a file.
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

    /// A lock that cannot be asked counts as held: then the device waits.
    fn zedkube(&mut self) -> ZedkubeSeen {
        let root = self.context.root();
        let seen = presence(root, agent::ZEDKUBE);
        if let Err(error) = &seen
            && !self.cannot_ask_lock
        {
            tracing::warn!("{}; zedkube counts as running", error_chain(error));
        }
        self.cannot_ask_lock = seen.is_err();
        match seen {
            Ok(Presence::Away) => ZedkubeSeen::Away,
            Ok(Presence::Served(_)) => ZedkubeSeen::Served,
            Ok(Presence::Locked(_) | Presence::Process(_)) | Err(_) => {
                let limit = self.settings.current().drain.start_timeout;
                let silent = silent_for(root, agent::ZEDKUBE).filter(|silent| limit <= *silent);
                silent.map_or(ZedkubeSeen::Running, |silent| ZedkubeSeen::Hung { silent_ms: millis(silent) })
            }
        }
    }

    /// An operator's word for this request. One that cannot be read lets nobody pass.
    fn pass_for(&self, request: &NodeDrainRequest) -> Option<PassGate> {
        pass_for(&self.context, self.context.name(), request)
    }

    /// What holds the operation back, and files that are refused; empty when nothing does.
    fn blocked_by(&self) -> String {
        let Some(verdict) = self.told else {
            return String::new();
        };
        let words = words::blocked_by(verdict, self.latest.as_ref());
        if words.is_empty() { words } else { with_refused(words, &self.refused()) }
    }

    fn release(&self) -> String {
        let report = self.latest.as_ref();
        let pass = self.pass.as_ref().map(|pass| format!("{}: {}", pass.by, pass.reason));
        let by = pass.or_else(|| self.own_line(report).map(|line| line.by.clone())).unwrap_or_default();
        self.told.map_or_else(String::new, |verdict| words::release(verdict, report, &by))
    }

    /// The files that are refused now, and why.
    fn refused(&self) -> Vec<Refusal> {
        let all =
            [self.requests.refused(), self.status.refused(), self.report.refused(), self.cluster.refused()];
        all.concat()
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
                tracing::warn!("nodedrain-step: proceed: {}", self.release());
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

/// An operator's word for the request that an agent makes now: nodeagent has to know it, too.
pub fn standing_pass(context: &AgentContext, requester: &str) -> Option<PassGate> {
    let key = TopicKey::global();
    let request = read_item(context.root(), requester, Persistence::Volatile, &key).ok().flatten()?;
    pass_for(context, requester, &request)
}

/// One that cannot be read lets nobody pass.
fn pass_for(context: &AgentContext, requester: &str, request: &NodeDrainRequest) -> Option<PassGate> {
    let key = TopicKey::parse(requester).ok()?;
    let item = read_item::<PassGate>(context.root(), agent::EBB, Persistence::Volatile, &key);
    let pass = item.unwrap_or_else(|refusal| {
        tracing::debug!("{refusal}");
        None
    });
    pass.filter(|pass| pass.covers(request.requested_by, request.requested_at, context.boot_id()))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The status where no zedkube of ours is: EVE's publishes from two threads, and may leave an older value in its file than
/// it has told.
fn eves_status(
    told: &Subscription<NodeDrainStatus>,
    filed: Option<NodeDrainStatus>,
) -> Option<NodeDrainStatus> {
    if told.is_by_socket() { told.get(&TopicKey::global()).copied() } else { filed }
}

#[cfg(test)]
#[path = "requester/tests.rs"]
mod tests;
