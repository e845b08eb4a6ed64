//! One pod that has to leave the node: its stages, and what moves it from one stage to the next.
//!
//! Only this module changes a [`Stage`]. `docs/reference/states-drain.md` has the diagram; a test holds it to the code.

mod incoming;
mod outgoing;

use std::time::Duration;

use crate::budget::{Fingerprint, fingerprint};
use crate::plan::Planned;
use crate::time::Moment;
use crate::view::{BudgetView, Phase, PodId, PodView, Terminating};

/// From the third time on that an owner recreates its pods on this node they are evicted slowly.
pub(crate) const MOST_RETURNS: u32 = 3;

/// The pause before the eviction of a pod that came back [`MOST_RETURNS`] times.
pub(crate) const RETURN_PAUSE: Duration = Duration::from_mins(1);

/// A pod that is still there this long after its grace is over is called stuck. The kubelet itself needs some of this
/// time.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Where a pod is on its way off the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It may be told to go as soon as order, budgets, concurrency and turns allow it.
    Waiting,
    /// An eviction or deletion was sent and is not answered yet.
    Sent,
    /// The eviction was refused for now.
    Blocked {
        /// Who refused it.
        cause: Cause,
        /// The next try; earlier if a budget or the pod changes.
        next: Moment,
    },
    /// The server was busy, or the call failed.
    Paused {
        /// The error.
        text: String,
        /// The next try.
        next: Moment,
    },
    /// The server accepted the eviction or deletion; no snapshot shows the pod terminating yet.
    Accepted,
    /// The pod is terminating.
    Terminating,
    /// The pod ends by itself (label `ebb.dev/drain=wait-completed`).
    Awaiting,
    /// The policy does not allow to evict this pod.
    Refused,
    /// The server rejected the eviction for good: this attempt does not try again.
    Final {
        /// The error.
        text: String,
    },
}

impl Stage {
    /// One word, for lines and documents of the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Sent => "Sent",
            Self::Blocked { .. } => "Blocked",
            Self::Paused { .. } => "Paused",
            Self::Accepted => "Accepted",
            Self::Terminating => "Terminating",
            Self::Awaiting => "Awaiting",
            Self::Refused => "Refused",
            Self::Final { .. } => "Final",
        }
    }

    /// The API server was asked to let the pod go, whatever it has answered.
    pub const fn is_asked(&self) -> bool {
        match self {
            Self::Waiting | Self::Awaiting | Self::Refused => false,
            Self::Sent
            | Self::Blocked { .. }
            | Self::Paused { .. }
            | Self::Accepted
            | Self::Terminating
            | Self::Final { .. } => true,
        }
    }

    /// When the eviction is tried again, if that is known.
    pub fn next_try(&self) -> Option<Moment> {
        match self {
            Self::Blocked { next, .. } | Self::Paused { next, .. } if *next != Moment::NEVER => Some(*next),
            Self::Blocked { .. }
            | Self::Paused { .. }
            | Self::Waiting
            | Self::Sent
            | Self::Accepted
            | Self::Terminating
            | Self::Awaiting
            | Self::Refused
            | Self::Final { .. } => None,
        }
    }

    /// When a refused or failed eviction is tried again.
    fn next(&self) -> Option<Moment> {
        if let Self::Blocked { next, .. } | Self::Paused { next, .. } = self { Some(*next) } else { None }
    }

    /// A person may have to do something before this pod leaves.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Self::Blocked { .. } | Self::Refused | Self::Final { .. })
    }
}

/// Who blocks an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A PodDisruptionBudget; the server's words.
    Budget(String),
    /// More than one budget selects the pod, which the eviction API does not support.
    TwoBudgets,
    /// An admission webhook; its words.
    Webhook(String),
    /// The server does not refuse, but the pod's owner recreates it on this node each time, so it is evicted slowly.
    Returns {
        /// How often.
        times: u32,
    },
}

/// How a pod is told to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionMethod {
    /// By eviction.
    #[default]
    Eviction,
    /// By deletion: evictions do not work for this pod, or the policy does not want them.
    Deletion,
    /// By deletion, because its eviction was refused for too long.
    Escalation,
}

/// The controller of a pod, as far as a drain needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    kind: String,
    uid: String,
}

/// Answers 401 and 403 in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Denied {
    since: Moment,
    times: u32,
}

/// The state of a pod and its budgets when its last eviction was sent. As soon as one of them changes, the server may
/// answer otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentUnder {
    budgets: Fingerprint,
    phase: Phase,
    ready: bool,
}

/// One pod that has to leave.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any of them goes with any other"
)]
pub struct Track {
    id: PodId,
    stage: Stage,
    since: Moment,
    tries: u32,
    owner: Option<Owner>,
    order: i32,
    /// How long the pod may take to end: the grace that is sent, else its own.
    grace: Duration,
    /// The grace that is sent; `None` = the pod's own.
    grace_sent: Option<Duration>,
    by: DeletionMethod,
    /// The pod has volumes that are attached to the node, or may be.
    is_stateful: bool,
    /// Names of its volumes that can be attached to a node.
    volumes: Vec<String>,
    /// Since when it is not known what the pod's claims are bound to. The pod is not evicted before that is known.
    volumes_unknown: Option<Moment>,
    /// The pod's turn among the pods with attached volumes has begun.
    had_turn: bool,
    /// Since when every try was refused.
    refused_since: Option<Moment>,
    /// Who refused the last try; kept while the next one is on its way.
    refusal: Option<Cause>,
    denied: Option<Denied>,
    sent_under: Option<SentUnder>,
    /// When the pod was turned to deletion because its eviction had been refused for too long.
    escalated: Option<Moment>,
    /// When the pod was last deleted with grace 0.
    killed: Option<Moment>,
    /// The pod is terminating with a longer grace than the policy asks for.
    shortens: bool,
    /// When a shorter grace was last asked for.
    shortened: Option<Moment>,
    /// How often the pod's owner has recreated it on this node.
    returns: u32,
    /// A snapshot has shown that whoever made the pod has written `spec.nodeName`.
    names_node: bool,
    /// The server's last answer was 404 or "another pod has this name", and no fresh list that was asked for since then
    /// shows the pod. It is not asked again: an eviction with an old UID uses up a place of its budget, which stays used
    /// for 2 minutes.
    said_gone: bool,
}

/// Reading a pod.
impl Track {
    /// Which pod.
    pub fn id(&self) -> &PodId {
        &self.id
    }

    /// Where the pod is on its way.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Since when the pod is in its stage.
    pub fn since(&self) -> Moment {
        self.since
    }

    /// How often an eviction or deletion was sent.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How the pod is told to go.
    pub fn by(&self) -> DeletionMethod {
        self.by
    }

    /// The grace that is sent; `None` = the pod's own.
    pub fn grace_sent(&self) -> Option<Duration> {
        self.grace_sent
    }

    /// Pods of a higher order leave later.
    pub(crate) fn order(&self) -> i32 {
        self.order
    }

    /// UID of the pod's controller.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.uid.as_str())
    }

    /// Since when every try was refused.
    pub(crate) fn refused_since(&self) -> Option<Moment> {
        self.refused_since
    }

    /// Who refuses the pod; while it is asked about again just now, who refused it last.
    pub(crate) fn refusal(&self) -> Option<&Cause> {
        if let Stage::Blocked { cause, .. } = &self.stage {
            return Some(cause);
        }
        self.refusal.as_ref().filter(|_| matches!(self.stage, Stage::Waiting | Stage::Sent))
    }

    /// How often the pod's owner has recreated it on this node.
    pub(crate) fn returns(&self) -> u32 {
        self.returns
    }

    /// Whoever made the pod has written `spec.nodeName`.
    pub(crate) fn names_node(&self) -> bool {
        self.names_node
    }

    /// The pod has volumes that are attached to the node, or may be.
    pub(crate) fn is_stateful(&self) -> bool {
        self.is_stateful
    }

    /// Names of its volumes that can be attached to a node.
    pub(crate) fn volumes(&self) -> &[String] {
        &self.volumes
    }

    /// Since when it is not known what the pod's claims are bound to.
    pub(crate) fn volumes_unknown(&self) -> Option<Moment> {
        self.volumes_unknown
    }

    /// How long the pod may take to end.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    /// An eviction or deletion is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.stage == Stage::Sent
    }

    /// The pod was told to go, or is terminating.
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.is_in_flight() || self.is_leaving()
    }

    /// The server has accepted that the pod goes.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Accepted | Stage::Terminating)
    }

    /// Nothing that this attempt does makes the pod leave.
    pub(crate) fn is_immovable(&self) -> bool {
        matches!(self.stage, Stage::Refused | Stage::Final { .. })
    }

    /// When the pod was turned to deletion because its eviction had been refused for too long.
    pub(crate) fn escalated(&self) -> Option<Moment> {
        self.escalated
    }

    /// The pod is refused, and its next try would be an eviction again.
    pub(crate) fn may_escalate(&self) -> bool {
        let is_refused = matches!(
            self.stage,
            Stage::Blocked { cause: Cause::Budget(_) | Cause::TwoBudgets | Cause::Webhook(_), .. }
        );
        is_refused && self.by == DeletionMethod::Eviction
    }

    /// Names of the budgets that guarded the pod when its last eviction was sent.
    pub(crate) fn budgets(&self) -> impl Iterator<Item = &str> {
        self.sent_under.iter().flat_map(|sent| sent.budgets.names())
    }

    /// The pod's eviction is in flight, or accepted and not yet visible in the status of its budgets.
    pub(crate) fn uses_budgets(&self, pod: &PodView, budgets: &[BudgetView]) -> bool {
        let is_invisible = |sent: &SentUnder| sent.budgets == fingerprint(pod, budgets);
        self.is_in_flight() || (self.is_leaving() && self.sent_under.as_ref().is_some_and(is_invisible))
    }

    /// Since when the server says that the pod is gone, while the watches still show it.
    pub(crate) fn said_gone_since(&self) -> Option<Moment> {
        (self.stage == Stage::Accepted && self.said_gone).then_some(self.since)
    }

    /// When the pod is told to go again without any event.
    pub(crate) fn next_try(&self) -> Option<Moment> {
        self.stage.next()
    }

    /// For how long a terminating pod should have been gone: by the API server's clock when that is known, else counted
    /// from when it was first seen terminating. `None` for a live pod and while its grace lasts. `seen` is the time of
    /// the last snapshot.
    pub(crate) fn overdue(&self, pod: &PodView, seen: Moment, now: Moment) -> Option<Duration> {
        let Terminating { grace, overdue, left } = pod.terminating?;
        match (overdue.is_zero(), left.is_zero()) {
            (false, _) => Some(overdue + now.since(seen)),
            (true, false) => now.since(seen).checked_sub(left),
            (true, true) => now.since(self.since).checked_sub(grace),
        }
    }

    /// When a terminating pod will have been overdue for so long.
    pub(crate) fn overdue_at(&self, pod: &PodView, seen: Moment, limit: Duration) -> Option<Moment> {
        let Terminating { grace, overdue, left } = pod.terminating?;
        Some(match (overdue.is_zero(), left.is_zero()) {
            (false, _) => seen + limit.saturating_sub(overdue),
            (true, false) => seen + left + limit,
            (true, true) => self.since + grace + limit,
        })
    }
}

/// Changing a pod. Snapshots and answers are in `incoming`, evictions and deletions in `outgoing`.
impl Track {
    /// The pod is seen for the first time. `returns`: how often its owner has recreated it on this node.
    pub(crate) fn new(
        planned: &Planned,
        pod: &PodView,
        returns: u32,
        refused_since: Option<Moment>,
        now: Moment,
    ) -> Self {
        let stage = if returns < MOST_RETURNS {
            Stage::Waiting
        } else {
            Stage::Blocked { cause: Cause::Returns { times: returns }, next: now + RETURN_PAUSE }
        };
        #[cfg(test)]
        crate::tests::states::note(None, &stage);
        let owner = pod.controller.as_ref();
        Self {
            id: planned.id.clone(),
            stage,
            since: now,
            tries: 0,
            owner: owner.map(|owner| Owner { kind: owner.kind.clone(), uid: owner.uid.clone() }),
            order: planned.order,
            grace: pod.grace,
            grace_sent: planned.grace,
            by: DeletionMethod::Eviction,
            is_stateful: false,
            volumes: Vec::new(),
            volumes_unknown: None,
            had_turn: false,
            refused_since,
            refusal: None,
            denied: None,
            sent_under: None,
            escalated: None,
            killed: None,
            shortens: false,
            shortened: None,
            returns,
            names_node: false,
            said_gone: false,
        }
    }

    /// A fresh list that was asked for at `asked` was taken in: it knows better than an earlier "gone" of the server.
    pub(crate) fn relisted(&mut self, asked: Moment) {
        self.said_gone &= self.since > asked;
    }

    /// Which volumes the pod has. `is_known`: what its claims are bound to was found out.
    pub(crate) fn learn_volumes(
        &mut self,
        is_known: bool,
        is_attached: bool,
        names: Vec<String>,
        now: Moment,
    ) {
        self.volumes_unknown = (!is_known).then(|| self.volumes_unknown.unwrap_or(now));
        self.is_stateful = is_attached;
        self.volumes = names;
    }

    /// Begins the pod's turn among the pods with attached volumes; false if it needs none or has it.
    pub(crate) fn begin_turn(&mut self) -> bool {
        let begins = !self.needs_no_turn();
        self.had_turn |= begins;
        begins
    }

    /// The pod's eviction was refused, so its turn is over and another one may begin.
    pub(crate) fn end_turn(&mut self) {
        self.had_turn = false;
    }

    /// The pod's turn has begun, or it needs none.
    pub(crate) fn needs_no_turn(&self) -> bool {
        !self.is_stateful || self.had_turn
    }

    /// The pod's owner recreates it somewhere when it is gone.
    pub(crate) fn is_made_anew(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.kind != "Job")
    }

    /// Sets the stage that a dry run was told.
    pub(crate) fn assume(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// The clocks stood still for so long.
    pub(crate) fn delay(&mut self, away: Duration) {
        self.refused_since = self.refused_since.map(|since| since + away);
        self.escalated = self.escalated.map(|since| since + away);
        self.denied = self.denied.map(|denied| Denied { since: denied.since + away, ..denied });
    }

    fn enter(&mut self, stage: Stage, now: Moment) {
        #[cfg(test)]
        crate::tests::states::note(Some(&self.stage), &stage);
        if std::mem::discriminant(&self.stage) != std::mem::discriminant(&stage) {
            self.since = now;
        }
        self.stage = stage;
    }
}
