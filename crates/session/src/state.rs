//! What zedkube knows, and what follows from all of it together.

use std::sync::Arc;

use drain::time::Moment;
use drain::view::{NodeView, Picture};
use schemas::{Member, OtherHolders, Outcome};
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::effect::Effect;
use crate::forcing::Forcing;
use crate::health::{Health, Purpose};
use crate::membership::{Facts, needs_no_look};
use crate::phase::{Phase, Stage};
use crate::policy::{Otherwise, Policy};
use crate::requests::Requests;
use crate::restoring::{Restoring, is_marked};
use crate::shown::{BETWEEN_ANSWERS, Shown};
use crate::slot_lease::SlotLease;
use crate::slots::Holder;
use crate::turn::Turn;

/// Everything that decisions need. One loop owns it.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Whether this device is a member of a cluster.
    pub member: Member,
    /// What the device knows about that.
    pub facts: Facts,
    /// The API server was asked about it in this boot: it has listed its nodes, or has been away for too long.
    pub has_looked: bool,
    /// Who asks.
    pub requests: Requests,
    /// Where the drain is.
    pub phase: Phase,
    /// Since when.
    pub since: Moment,
    /// What is shown in NodeDrainStatus.
    pub shown: Shown,
    /// The API server, as probes find it.
    pub api: Api,
    /// Our node, as last seen.
    pub own: Option<NodeView>,
    /// All nodes, as last listed.
    pub nodes: Vec<NodeView>,
    /// The serial of the look that listed them.
    pub nodes_asked: u32,
    /// Our slot.
    pub slots: SlotLease,
    /// What the site says of itself.
    pub health: Health,
    /// What an operator has ordered.
    pub forcing: Forcing,
    /// Taking our cordon back.
    pub restoring: Restoring,
    /// What the last look at the cluster did not show.
    pub sight: Sight,
    /// The node that carries, or may carry, our cordon or our slot, until that is seen given back. Outlives boots.
    pub remembered: Option<Remembered>,
    /// An unannotated cordon on our node is EVE's, and becomes ours.
    pub adopts: bool,
    /// What a process before this one has left of its last attempt.
    pub left: Option<drain::Record>,
    /// The attempt that runs, or ran last in this drain.
    pub drain: drain::State,
    /// This drain, or the last one.
    pub session: Session,
    /// When the attempt has to be looked at again.
    pub drain_wake: Option<Moment>,
    /// What the watches show, while they run.
    pub picture: Option<Arc<Picture>>,
    /// This boot, as `/proc/sys/kernel/random/boot_id` names it.
    pub boot_id: String,
    /// Counts calls, so that late answers are recognised. Never repeats within one run.
    pub serial: u32,
    /// The record cannot be written just now. Set by who writes it; nobody is told COMPLETE by a drain meanwhile.
    pub is_unrecorded: bool,
}

impl State {
    /// The state at start: what was stored of the membership, and nothing known of the cluster.
    pub fn new(member: Member, boot_id: String, now: Moment) -> Self {
        Self { member, boot_id, since: now, shown: Shown::at_start(now), ..Self::default() }
    }

    /// What is known of the slots of other nodes before anybody was asked.
    #[must_use]
    pub fn knowing(mut self, others: OtherHolders) -> Self {
        self.slots.others = others;
        self
    }

    /// Whether this device is a member, as far as this boot knows. A stored `no` releases nobody before one look: the device
    /// may have joined a cluster since, and nobody asks before it goes down.
    pub fn member_now(&self) -> Member {
        let is_stored_only = !self.has_looked && !needs_no_look(&self.facts);
        if self.member == Member::No && is_stored_only { Member::Unknown } else { self.member }
    }

    pub(crate) fn enter(&mut self, phase: Phase, now: Moment) {
        self.session.ended = phase.ended().or(self.session.ended);
        if std::mem::discriminant(&self.phase) != std::mem::discriminant(&phase) {
            self.since = now;
        }
        self.phase = phase;
    }

    /// Shows an event to the attempt, and takes over what it wants.
    pub(crate) fn drive(&mut self, event: drain::Event, turn: &mut Turn<'_>) {
        let attempt = std::mem::take(&mut self.drain);
        let (next, wanted) = drain::step(attempt, event, turn.now, &turn.policy.drain);
        self.drain = next;
        self.drain_wake = None;
        for effect in wanted {
            match effect {
                drain::Effect::WakeAt(moment) => self.drain_wake = Some(moment),
                effect @ (drain::Effect::Evict { .. }
                | drain::Effect::Delete { .. }
                | drain::Effect::Prove { .. }
                | drain::Effect::Inquire { .. }
                | drain::Effect::Abort) => turn.effects.push(Effect::Drain(effect)),
            }
        }
    }
}

/// The watches, and what they show.
impl State {
    /// Whether the watches on the node, its pods and the budgets are needed.
    pub fn wants_picture(&self) -> bool {
        match &self.phase {
            Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
            // Whoever forces a node down has a right to see what is on it.
            Phase::Complete { outcome, .. } => matches!(outcome, Outcome::Drained | Outcome::Forced),
            Phase::Idle | Phase::Waiting(_) | Phase::Failed(_) => false,
        }
    }

    /// An attempt is under way that has not seen anything yet.
    pub fn awaits_picture(&self) -> bool {
        let begun = drain::progress::attempt(&self.drain).is_some_and(|attempt| attempt.snapshot().is_none());
        begun && matches!(self.phase, Phase::Attempting { .. })
    }

    /// What is known of the node, its pods and their volumes: what the attempt knows while one runs, else what the watches
    /// show.
    pub fn known(&self) -> Option<&Arc<Picture>> {
        let attempt = drain::progress::attempt(&self.drain);
        let attempt = attempt.filter(|_| matches!(self.phase, Phase::Attempting { .. }));
        attempt.and_then(drain::state::Attempt::snapshot).or(self.picture.as_ref())
    }

    /// Another node can take pods, as the nodes were listed last.
    pub(crate) fn has_peer(&self) -> bool {
        let is_other = |node: &NodeView| self.own.as_ref().is_none_or(|own| own.uid != node.uid);
        self.nodes.iter().any(|node| is_other(node) && !node.tie_breaker && node.ready && !node.cordoned)
    }
}

/// The API server that is away.
impl State {
    /// When the node counts as complete because the API server has been away on end, counted from `since` at the
    /// earliest; `None` while it is there, or when it is to be waited for.
    ///
    /// When another node had a slot as the API server last answered, or nobody knows, it may be that node which took the
    /// server down: it gets the time that a node may be down.
    pub(crate) fn unreachable_at(&self, since: Moment, policy: &Policy) -> Option<Moment> {
        let away = self.api.away_since.filter(|_| policy.on_unreachable == Otherwise::Complete)?;
        let longer = policy.down_max.max(policy.unreachable_timeout);
        let timeout = if self.others_get_time(policy) { longer } else { policy.unreachable_timeout };
        Some(away.max(since) + timeout)
    }

    /// Another node may be down for a drain, and gets the time that it may take.
    pub(crate) fn others_get_time(&self, policy: &Policy) -> bool {
        policy.slots_limit > 0 && self.slots.others != OtherHolders::Nobody
    }
}

/// Our slot.
impl State {
    /// We have a slot, as far as is known.
    pub fn holds_slot(&self) -> bool {
        self.slots.is_held(self.own.as_ref())
    }

    /// The entry by which we have a slot.
    pub(crate) fn slot_entry(&self) -> Option<&Holder> {
        self.slots.entry(self.own.as_ref())
    }

    /// Something is in our place of the table of the slots.
    pub(crate) fn has_place(&self) -> bool {
        self.slots.has_place(self.own.as_ref())
    }

    /// We wait for a slot and others have them all: the shell watches the table.
    pub fn is_waiting_for_slot(&self) -> bool {
        self.phase.stage() == Some(Stage::Slot) && !self.slots.taken_by.is_empty()
    }

    /// The shell watches the table: we wait for a slot, or have to know who has one in case the API server goes away.
    /// Costs a call when it begins, and one for each change of the table (a holder changes it once a minute).
    pub fn wants_slot_watch(&self) -> bool {
        match &self.phase {
            Phase::Idle | Phase::Waiting(_) | Phase::Failed(_) => {
                self.is_waiting_for_slot() || self.slots.was_known()
            }
            Phase::Cordoning(_)
            | Phase::Attempting { .. }
            | Phase::Pausing { .. }
            | Phase::Complete { .. } => false,
        }
    }
}

/// The way back: our cordon and our slot.
///
/// Level-triggered: whenever no request holds the node and the node carries our cordon or the table our entry, the node
/// is uncordoned and then the slot is given back. So it covers cancel, failure and the next boot alike.
impl State {
    /// Our cordon or our slot is, or may be, there, and nobody needs it.
    pub fn is_return_due(&self) -> bool {
        self.is_cordon_unneeded() || (!self.requests.hold_the_node() && self.has_place())
    }

    /// A cordon nobody needs: no request holds the node, or others have all the slots, and a cordoned node that waits
    /// for them is missing as a peer.
    pub(crate) fn is_cordon_unneeded(&self) -> bool {
        let needed = self.requests.hold_the_node() && !self.is_waiting_for_slot();
        !needed && self.has_cordon()
    }

    /// The node carries our cordon, or may.
    pub(crate) fn has_cordon(&self) -> bool {
        self.restoring.has_cordon(self.own.as_ref())
    }

    /// Somebody has lifted our cordon, and our mark is left: it says nothing any more and goes at once. While we cordon or
    /// evict, what was last seen may be older than our cordon.
    pub(crate) fn is_mark_stray(&self) -> bool {
        let is_quiet = !matches!(self.phase, Phase::Cordoning(_) | Phase::Attempting { .. });
        is_quiet && self.own.as_ref().is_some_and(|node| is_marked(node) && !node.cordoned)
    }

    /// The node that we left something on, as long as it is not known to be this machine: nobody takes it back.
    pub fn left_behind(&self) -> Option<&Remembered> {
        let is_own =
            |remembered: &&Remembered| self.own.as_ref().is_some_and(|own| own.uid == remembered.node_uid);
        self.remembered.as_ref().filter(|remembered| !is_own(remembered))
    }

    /// Why a return that is due has to wait; `None` when nothing is in its way.
    pub fn return_obstacle(&self) -> Option<String> {
        if self.is_cordon_of_this_boot() {
            return None;
        }
        // A cordon from before this boot: the node must be able to take pods again.
        let failure = || self.health.failure(Purpose::Return);
        self.not_back_yet(self.own.as_ref()?)
            .map(str::to_owned)
            .or_else(|| failure().map(|error| format!("the site's health command does not pass: {error}")))
    }

    /// Why the node cannot take pods yet after a boot.
    pub(crate) fn not_back_yet(&self, node: &NodeView) -> Option<&'static str> {
        if !node.ready {
            Some("the node is not Ready yet")
        } else if !node.boot_id.is_empty() && node.boot_id != self.boot_id {
            Some("the kubelet has not reported this boot yet")
        } else {
            None
        }
    }

    /// Cordon and slot are of this boot: nothing stands in the way of giving them back.
    pub(crate) fn is_cordon_of_this_boot(&self) -> bool {
        let entry = self.slot_entry();
        self.restoring.may_be_cordoned || entry.is_some_and(|entry| entry.boot_id == self.boot_id)
    }
}

/// An operator's order.
impl State {
    /// The phase is an order's.
    pub fn is_forced(&self) -> bool {
        self.phase.is_forced()
    }

    /// An order is being carried out: somebody has to see an answer still.
    pub fn is_answering_by_force(&self, now: Moment) -> bool {
        let is_next = self.forcing.next_covered(&self.requests).is_some();
        self.forcing.pending.is_some() || (self.is_forced() && (is_next || now < self.forced_answer_over()))
    }

    /// When the answer that was shown last has been there for long enough.
    pub(crate) fn forced_answer_over(&self) -> Moment {
        self.shown.announced_at().unwrap_or(self.since) + BETWEEN_ANSWERS
    }
}

/// What the last look at the cluster did not show, although the API server answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Why no Node is known to be this machine; empty when one is.
    pub identity: String,
    /// Why the nodes could not be listed or ours not be read; empty when they could.
    pub refused: String,
}

/// A node that we may have left cordoned, or with a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Its name.
    pub node: String,
    /// Its UID.
    pub node_uid: String,
}

/// One drain from its request to its end: what the report tells about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Session {
    /// Counts drains in this run; zero before the first.
    pub number: u64,
    /// When it began.
    pub started: Option<Moment>,
    /// When it ended.
    pub finished: Option<Moment>,
    /// The attempts that are over.
    pub attempts: Vec<AttemptRecord>,
    /// The node was cordoned by somebody else before we came.
    pub cordoned_before: bool,
    /// Pods that have left in the attempts that are over.
    pub gone: u64,
    /// How it ended; stays until the next one begins.
    pub ended: Option<Outcome>,
}

/// One attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AttemptRecord {
    /// 1 for the first.
    pub number: u32,
    /// When it began.
    pub started: Moment,
    /// When it ended.
    pub ended: Moment,
    /// Why it failed.
    pub error: String,
}
