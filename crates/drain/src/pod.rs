//! One pod that has to leave the node: its stages, and the changes between them.
//!
//! Only this module changes a [`Stage`]. `docs/reference/states-drain.md` has the diagram; a test compares it with the
//! code.

mod incoming;
mod outgoing;

use std::time::Duration;

use crate::budget::{Fingerprint, fingerprint};
use crate::plan::Planned;
use crate::time::Moment;
use crate::view::{BudgetView, Phase, PodId, PodView, Terminating};

/// Number of returns from which on a pod that its owner puts on this node is left alone for the rest of the attempt.
const LAST_RETURN: u32 = 2;

/// Number of returns from which on an owner's pods are evicted slowly.
pub(crate) const MOST_RETURNS: u32 = 3;

/// Pause before the eviction of a pod that came back [`MOST_RETURNS`] times.
pub(crate) const RETURN_PAUSE: Duration = Duration::from_mins(1);

/// Time after the grace period from which on a pod counts as stuck. The kubelet itself needs some of this time.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Stage of a pod that has to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The pod may be evicted as soon as order, budgets, concurrency and turns allow it.
    Waiting,
    /// An eviction or deletion was sent and is not answered yet.
    Evicting,
    /// The eviction was refused for now.
    Blocked {
        /// Reason of the refusal.
        cause: Cause,
        /// Time of the next try; it is tried earlier if a budget or the pod changes.
        next: Moment,
    },
    /// The server was busy, or the call failed.
    Paused {
        /// The error.
        text: String,
        /// Time of the next try.
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
    Failed {
        /// The error.
        text: String,
    },
}

impl Stage {
    /// Word for the stage in NodeDrainReport, in the documents of `ebb drain` and in the state diagram.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Evicting => "Evicting",
            Self::Blocked { .. } => "Blocked",
            Self::Paused { .. } => "Paused",
            Self::Accepted => "Accepted",
            Self::Terminating => "Terminating",
            Self::Awaiting => "Awaiting",
            Self::Refused => "Refused",
            Self::Failed { .. } => "Failed",
        }
    }

    /// The stage as words in a sentence about the pod, for logs. Two stages have the same words if the difference is over
    /// within a second.
    pub const fn phrase(&self) -> &'static str {
        match self {
            Self::Waiting | Self::Evicting => "to be evicted",
            Self::Blocked { .. } => "blocked",
            Self::Paused { .. } => "to be tried again",
            Self::Accepted | Self::Terminating => "terminating",
            Self::Awaiting => "awaited",
            Self::Refused => "refused",
            Self::Failed { .. } => "failed",
        }
    }

    /// True if an eviction or deletion was sent, whatever the answer.
    pub const fn is_asked(&self) -> bool {
        match self {
            Self::Waiting | Self::Awaiting | Self::Refused => false,
            Self::Evicting
            | Self::Blocked { .. }
            | Self::Paused { .. }
            | Self::Accepted
            | Self::Terminating
            | Self::Failed { .. } => true,
        }
    }

    /// Time of the next try, if it is known.
    pub fn next_try(&self) -> Option<Moment> {
        match self {
            Self::Blocked { next, .. } | Self::Paused { next, .. } if *next != Moment::NEVER => Some(*next),
            Self::Blocked { .. }
            | Self::Paused { .. }
            | Self::Waiting
            | Self::Evicting
            | Self::Accepted
            | Self::Terminating
            | Self::Awaiting
            | Self::Refused
            | Self::Failed { .. } => None,
        }
    }

    /// Time of the next try of a refused or failed eviction.
    fn next(&self) -> Option<Moment> {
        if let Self::Blocked { next, .. } | Self::Paused { next, .. } = self { Some(*next) } else { None }
    }

    /// True if a person may have to act before this pod leaves.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Self::Blocked { .. } | Self::Refused | Self::Failed { .. })
    }
}

/// Cause of a refused eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A PodDisruptionBudget, with the server's message.
    Budget(String),
    /// More than one budget selects the pod, which the eviction API does not support.
    TwoBudgets,
    /// An admission webhook, with its message.
    Webhook(String),
    /// The server accepts the evictions, but does not delete the pod.
    NotDeleted,
    /// The server does not refuse, but the pod's owner creates it again on this node each time, so it is evicted
    /// slowly, or not any more.
    Returns {
        /// Number of returns.
        times: u32,
    },
}

/// How a pod is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionMethod {
    /// By eviction.
    #[default]
    Eviction,
    /// By deletion, because evictions do not work for this pod, or the policy does not want them.
    Deletion,
    /// By deletion, because its eviction was refused for too long.
    Escalation,
}

/// Controller of a pod, with the fields that a drain needs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    kind: String,
    uid: String,
}

/// Answers of one kind in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InARow {
    since: Moment,
    times: u32,
}

impl InARow {
    /// One more answer after these.
    fn after(before: Option<Self>, now: Moment) -> Self {
        let before = before.unwrap_or(Self { since: now, times: 0 });
        Self { times: before.times.saturating_add(1), ..before }
    }
}

/// Shown of a pod whose evictions are accepted and which is not deleted.
static NOT_DELETED: Stage = Stage::Blocked { cause: Cause::NotDeleted, next: Moment::NEVER };

/// State of a pod and its budgets when its last eviction was sent. As soon as one of them changes, the server may
/// answer differently.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LastSent {
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
    /// Time that the pod has to terminate: the grace period that is sent, else its own.
    grace: Duration,
    /// Grace period to send; `None` = the pod's own.
    grace_sent: Option<Duration>,
    by: DeletionMethod,
    /// True if the pod has volumes that are attached to the node, or may be.
    is_stateful: bool,
    /// Names of its volumes that can be attached to a node.
    volumes: Vec<String>,
    /// Start of the time during which the volumes of the pod's claims are not known. The pod is not evicted before they
    /// are.
    volumes_unknown: Option<Moment>,
    /// True once the pod's turn among the pods with attached volumes has begun.
    had_turn: bool,
    /// Time of the first refusal in a row.
    refused_since: Option<Moment>,
    /// Cause of the last refusal; kept while the next try is in flight.
    refusal: Option<Cause>,
    /// Answers 401 and 403.
    denied: Option<InARow>,
    /// Number of answers in a row that say nothing about the pod: of a busy server, a broken connection, bad credentials.
    failures: u32,
    /// Accepted evictions after which no snapshot has shown the pod terminating.
    accepted: Option<InARow>,
    last_sent: Option<LastSent>,
    /// Time when the pod changed to deletion because its eviction was refused for too long, or when the server took that
    /// deletion.
    escalated: Option<Moment>,
    /// The server has taken that deletion.
    is_escalation_taken: bool,
    /// Time when the pod was last deleted with grace period 0.
    killed: Option<Moment>,
    /// True if the pod is terminating with a longer grace period than the policy wants.
    shortens: bool,
    /// Time when a shorter grace period was last sent.
    shortened: Option<Moment>,
    /// Number of times that the pod's owner has created it again on this node.
    returns: u32,
    /// True if a snapshot has shown that the creator of the pod has written `spec.nodeName`.
    names_node: bool,
    /// True if the server's last answer was 404 or "another pod has this name", and no later relist shows the pod. It
    /// is not evicted again: an eviction with an old UID uses up a place of its budget for 2 minutes.
    reported_gone: bool,
}

/// Reading a pod.
impl Track {
    /// Namespace, name and UID.
    pub fn id(&self) -> &PodId {
        &self.id
    }

    /// Stage of the pod.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The stage for people: an eviction that is accepted again and again without effect blocks the pod.
    pub(crate) fn shown_stage(&self) -> &Stage {
        if self.refusal() == Some(&Cause::NotDeleted) { &NOT_DELETED } else { &self.stage }
    }

    /// Start of the present stage.
    pub fn since(&self) -> Moment {
        self.since
    }

    /// Number of evictions and deletions that were sent.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How the pod is removed.
    pub fn by(&self) -> DeletionMethod {
        self.by
    }

    /// Grace period to send; `None` = the pod's own.
    pub fn grace_sent(&self) -> Option<Duration> {
        self.grace_sent
    }

    /// Pods with a higher order leave later.
    pub(crate) fn order(&self) -> i32 {
        self.order
    }

    /// UID of the pod's controller.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.uid.as_str())
    }

    /// Time of the first refusal in a row.
    pub(crate) fn refused_since(&self) -> Option<Moment> {
        self.refused_since
    }

    /// Time of the first refusal, or of the first accepted eviction without effect.
    pub(crate) fn blocked_since(&self) -> Option<Moment> {
        self.refused_since.or_else(|| self.accepted.map(|accepted| accepted.since))
    }

    /// Cause of the refusal. While the next try is in flight, the cause of the last one.
    pub(crate) fn refusal(&self) -> Option<&Cause> {
        if let Stage::Blocked { cause, .. } = &self.stage {
            return Some(cause);
        }
        self.refusal
            .as_ref()
            .filter(|_| matches!(self.stage, Stage::Waiting | Stage::Evicting | Stage::Accepted))
    }

    /// Number of times that the pod's owner has created it again on this node.
    pub(crate) fn returns(&self) -> u32 {
        self.returns
    }

    /// True if its owner has put the pod on this node again so often that this attempt evicts it no more.
    pub(crate) fn is_left_alone(&self) -> bool {
        matches!(self.stage, Stage::Blocked { cause: Cause::Returns { .. }, next: Moment::NEVER })
    }

    /// True if the creator of the pod has written `spec.nodeName`.
    pub(crate) fn names_node(&self) -> bool {
        self.names_node
    }

    /// True if the pod has volumes that are attached to the node, or may be.
    pub(crate) fn is_stateful(&self) -> bool {
        self.is_stateful
    }

    /// Names of its volumes that can be attached to a node.
    pub(crate) fn volumes(&self) -> &[String] {
        &self.volumes
    }

    /// Start of the time during which the volumes of the pod's claims are not known.
    pub(crate) fn volumes_unknown(&self) -> Option<Moment> {
        self.volumes_unknown
    }

    /// Time that the pod has to terminate.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    /// True while an eviction or deletion is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.stage == Stage::Evicting
    }

    /// True if an eviction or deletion is in flight or accepted, or the pod is terminating.
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.is_in_flight() || self.is_leaving()
    }

    /// True if the server has accepted the eviction or deletion, or the pod is terminating.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Accepted | Stage::Terminating)
    }

    /// True if no action of this attempt can make the pod leave.
    pub(crate) fn is_immovable(&self) -> bool {
        matches!(self.stage, Stage::Refused | Stage::Failed { .. })
    }

    /// Time when the pod changed to deletion because its eviction was refused for too long.
    pub(crate) fn escalated(&self) -> Option<Moment> {
        self.escalated
    }

    /// True if the pod is refused, and its next try would be an eviction again.
    pub(crate) fn may_escalate(&self) -> bool {
        let is_refused = matches!(
            self.stage,
            Stage::Blocked { cause: Cause::Budget(_) | Cause::TwoBudgets | Cause::Webhook(_), .. }
        );
        is_refused && self.by == DeletionMethod::Eviction
    }

    /// Names of the pod's budgets when its last eviction was sent.
    pub(crate) fn budgets(&self) -> impl Iterator<Item = &str> {
        self.last_sent.iter().flat_map(|sent| sent.budgets.names())
    }

    /// True if the pod's eviction is in flight, or accepted and not yet visible in the status of its budgets; or if it is to
    /// be deleted next in the budgets' spite.
    pub(crate) fn uses_budgets(&self, pod: &PodView, budgets: &[BudgetView]) -> bool {
        let is_invisible = |sent: &LastSent| sent.budgets == fingerprint(pod, budgets);
        let is_next = self.by == DeletionMethod::Escalation && self.stage == Stage::Waiting;
        self.is_in_flight()
            || is_next
            || (self.is_leaving() && self.last_sent.as_ref().is_some_and(is_invisible))
    }

    /// If the server has said that the pod is gone (true), or accepted its eviction (false), and the watches do not show it:
    /// since when.
    pub(crate) fn unseen_since(&self) -> Option<(bool, Moment)> {
        (self.stage == Stage::Accepted).then_some((self.reported_gone, self.since))
    }

    /// Time of the next try without an event.
    pub(crate) fn next_try(&self) -> Option<Moment> {
        self.stage.next()
    }

    /// Time since a terminating pod should have been gone: by the API server's clock if that is known, else counted
    /// from when it was first seen terminating. `None` for a live pod and during its grace period. `seen` is the time
    /// of the last snapshot.
    pub(crate) fn overdue(&self, pod: &PodView, seen: Moment, now: Moment) -> Option<Duration> {
        let Terminating { grace, overdue, left } = pod.terminating?;
        match (overdue.is_zero(), left.is_zero()) {
            (false, _) => Some(overdue + now.since(seen)),
            (true, false) => now.since(seen).checked_sub(left),
            (true, true) => now.since(self.since).checked_sub(grace),
        }
    }

    /// Time when a terminating pod will have been overdue for `limit`.
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
    /// A pod that is new in a snapshot. `returns`: number of times that its owner has created it again on this node.
    pub(crate) fn new(
        planned: &Planned,
        pod: &PodView,
        returns: u32,
        refused_since: Option<Moment>,
        now: Moment,
    ) -> Self {
        let blocked = |next| Stage::Blocked { cause: Cause::Returns { times: returns }, next };
        let stage = if pod.is_placed_here() && returns >= LAST_RETURN {
            blocked(Moment::NEVER)
        } else if returns >= MOST_RETURNS {
            blocked(now + RETURN_PAUSE)
        } else {
            Stage::Waiting
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
            failures: 0,
            accepted: None,
            last_sent: None,
            escalated: None,
            is_escalation_taken: false,
            killed: None,
            shortens: false,
            shortened: None,
            returns,
            names_node: false,
            reported_gone: false,
        }
    }

    /// Notes that a relist was applied which was asked for at `asked`: it is newer than an earlier "gone" of the
    /// server.
    pub(crate) fn relisted(&mut self, asked: Moment) {
        self.reported_gone &= self.since > asked;
    }

    /// Sets the volumes of the pod. `is_known`: the volumes of all its claims are known.
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

    /// Begins the pod's turn among the pods with attached volumes. False if it needs none, or has begun already.
    pub(crate) fn begin_turn(&mut self) -> bool {
        let begins = !self.needs_no_turn();
        self.had_turn |= begins;
        begins
    }

    /// Ends the turn after a refused eviction, so that another one can begin.
    pub(crate) fn end_turn(&mut self) {
        self.had_turn = false;
    }

    /// True if the pod's turn has begun, or if it needs none.
    pub(crate) fn needs_no_turn(&self) -> bool {
        !self.is_stateful || self.had_turn
    }

    /// True if the pod's owner creates it again after it is gone.
    pub(crate) fn is_recreated(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.kind != "Job")
    }

    /// Sets the stage that a dry run has found.
    pub(crate) fn assume(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// Moves all times by the length of an outage, during which the clocks stood still.
    pub(crate) fn delay(&mut self, away: Duration) {
        self.refused_since = self.refused_since.map(|since| since + away);
        self.escalated = self.escalated.map(|since| since + away);
        self.denied = self.denied.map(|denied| InARow { since: denied.since + away, ..denied });
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
