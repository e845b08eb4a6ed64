//! The state of zedkube, and what follows from several of its parts together.

use std::sync::Arc;

use drain::time::Moment;
use drain::view::{NodeView, Snapshot};
use schemas::{DrainRequester, KnownHolders, Member, OtherHolders, Outcome};
use serde::{Deserialize, Serialize};

use crate::OWNER;
use crate::api::Api;
use crate::context::StepContext;
use crate::effect::Effect;
use crate::health::{Health, Purpose};
use crate::membership::{Facts, NodeAgent, needs_no_look};
use crate::orders::Orders;
use crate::phase::{Phase, Stage};
use crate::policy::{OnUnavailable, Policy};
use crate::published::{BETWEEN_ANSWERS, PublishedStatus};
use crate::requests::Requests;
use crate::restoring::{Restoring, cordon_takes_slot, is_marked, is_ownerless};
use crate::slot_lease::{Neighbours, SlotLease};
use crate::slots::{Holder, Observations};

/// Everything that zedkube's decisions depend on. One loop owns it.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts, each on its own")]
pub struct State {
    /// Whether this device is a member of a cluster.
    pub member: Member,
    /// What the device itself knows about its membership.
    pub facts: Facts,
    /// True once the cluster was asked in this boot: its nodes were listed, or the API server was away for
    /// `unreachable_timeout`.
    pub has_looked: bool,
    /// Who requests a drain, and what each requester was answered.
    pub requests: Requests,
    /// The phase of the drain.
    pub phase: Phase,
    /// When the present phase began.
    pub since: Moment,
    /// What NodeDrainStatus shows.
    pub published: PublishedStatus,
    /// Whether the API server answers, and when it is asked next.
    pub api: Api,
    /// The cluster that was asked last, by the UID of its namespace `kube-system`; `None` if that is not known. A drain is
    /// finished in the cluster in which it began, so the shell sends nothing to another one.
    pub cluster: Option<String>,
    /// This device's Node, as last read.
    pub own: Option<NodeView>,
    /// All nodes of the last list.
    pub nodes: Vec<NodeView>,
    /// The serial of the effect that asked for that list.
    pub nodes_asked: u32,
    /// Nodes have come or gone since that list.
    pub is_list_outdated: bool,
    /// UID of our Node by its watch; `None` while that does not show it.
    pub watched_uid: Option<String>,
    /// This node's slot.
    pub slots: SlotLease,
    /// The result of the site's health command.
    pub health: Health,
    /// The orders of an operator that are pending or in effect.
    pub orders: Orders,
    /// The uncordoning of this node.
    pub restoring: Restoring,
    /// Why the last list or read of nodes was of no use, although the API server answered.
    pub nodes_error: NodesError,
    /// The node that carries, or may carry, our cordon or our slot. Kept over reboots, until that node is seen without
    /// both.
    pub remembered: Option<Remembered>,
    /// True until we know that no cordon has to be adopted: an unannotated cordon on our node was set by EVE's zedkube,
    /// and becomes ours.
    pub adopts: bool,
    /// The last attempt, as the previous zedkube process recorded it.
    pub left: Option<drain::Record>,
    /// The attempt that runs now, or that ran last in this drain.
    pub drain: drain::State,
    /// The present drain, or the last one, for the report.
    pub session: Session,
    /// When the attempt asked to be called again.
    pub drain_wake: Option<Moment>,
    /// The newest snapshot of the watches, while they run.
    pub snapshot: Option<Arc<Snapshot>>,
    /// This boot, as `/proc/sys/kernel/random/boot_id` names it.
    pub boot_id: String,
    /// Counts calls, so that a late answer is recognised by its number. No number repeats while the process runs.
    pub serial: u32,
    /// Pods may have come to a drained node while nobody looked: before this process began, while it stood still, or while
    /// an operator's order was answered.
    pub is_unseen: bool,
    /// When a fresh list last showed that the drained node is empty.
    pub listed: Moment,
    /// The node is set aside: only kept requests (`ebb request --keep`) stand, and their drain is over, drained or failed. It
    /// stays cordoned and gives its slot back, so its cordon counts as a person's, until another drain begins.
    pub is_set_aside: bool,
    /// True while the record cannot be written; the shell sets it. Meanwhile no requester is answered COMPLETE because
    /// of a drain.
    pub is_unrecorded: bool,
}

impl State {
    /// The state at start: the stored membership, and no knowledge of the cluster.
    pub fn new(member: Member, boot_id: String, now: Moment) -> Self {
        Self { member, boot_id, since: now, published: PublishedStatus::at_start(now), ..Self::default() }
    }

    /// Adds what a former boot knew about other nodes' slots; it counts until the cluster answers.
    #[must_use]
    pub fn knowing(mut self, others: OtherHolders) -> Self {
        self.slots.others = others;
        self
    }

    /// Adds the holders of slots that another process of zedkube wrote down.
    #[must_use]
    pub fn remembering(mut self, known: &KnownHolders) -> Self {
        self.slots.observed = Observations::resumed(known);
        self.slots.neighbours = Neighbours { is_alone: known.alone, before: known.nodes_before };
        self
    }

    /// What the next process of zedkube has to know about the slots of other nodes.
    pub fn known_holders(&self) -> KnownHolders {
        let SlotLease { others, neighbours: Neighbours { is_alone, before }, .. } = self.slots;
        let mut known =
            KnownHolders { others, alone: is_alone, nodes_before: before, ..KnownHolders::default() };
        self.slots.observed.write_down(&mut known);
        known
    }

    /// Whether this device is a member, as far as this boot can know. A stored `no` counts as `unknown` until the
    /// cluster was asked once in this boot: the device may have joined a cluster since, and a `no` lets it go down
    /// without a drain.
    pub fn member_now(&self) -> Member {
        let is_stored_only = !self.has_looked && !needs_no_look(&self.facts);
        if self.member == Member::No && is_stored_only { Member::Unknown } else { self.member }
    }

    /// Nobody has looked whether the node stays drained: this process has stood still, for as long as other agents take
    /// for a hang, or nothing could be taken back.
    pub fn nobody_looked(&mut self) {
        self.is_unseen = true;
        if let Phase::Complete { recheck: Some(recheck), .. } = &mut self.phase {
            // The server may have answered it before.
            recheck.is_overtaken = true;
        }
    }

    /// True if this requester's COMPLETE may be shown: somebody looks whether it stays true, and a fresh list has
    /// confirmed it since nobody did. While nodeagent is past the point of no return, only the answer is shown by which it
    /// went: no answer is taken back then.
    pub fn is_confirmed(&self, requester: DrainRequester) -> bool {
        if let NodeAgent::Acting(acting) = self.facts.nodeagent {
            return acting == requester;
        }
        let is_drained = matches!(self.phase, Phase::Complete { outcome: Outcome::Drained, .. });
        if is_drained { !self.is_unseen } else { !self.is_forced() }
    }

    pub(crate) fn enter(&mut self, phase: Phase, now: Moment) {
        if self.is_forced() {
            self.is_unseen = true;
        } else if !matches!(self.phase, Phase::Complete { .. }) {
            (self.is_unseen, self.listed) = (false, now);
        }
        self.session.ended = phase.ended().or(self.session.ended);
        if std::mem::discriminant(&self.phase) != std::mem::discriminant(&phase) {
            self.since = now;
        }
        self.phase = phase;
    }

    /// Passes an event to the attempt, and collects the effects that the attempt asks for.
    pub(crate) fn drive(&mut self, event: drain::Event, context: &mut StepContext<'_>) {
        let attempt = std::mem::take(&mut self.drain);
        let (next, wanted) = drain::step(attempt, event, context.now, &context.policy.drain);
        self.drain = next;
        self.drain_wake = None;
        for effect in wanted {
            match effect {
                drain::Effect::WakeAt(moment) => self.drain_wake = Some(moment),
                effect @ (drain::Effect::Evict { .. }
                | drain::Effect::Delete { .. }
                | drain::Effect::Relist { .. }
                | drain::Effect::Inquire { .. }
                | drain::Effect::Abort) => context.effects.push(Effect::Drain(effect)),
            }
        }
    }
}

/// The watches and their snapshots.
impl State {
    /// Whether the watches on the node, its pods and their budgets are needed.
    pub fn wants_snapshot(&self) -> bool {
        match &self.phase {
            Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
            // An operator who forces a node down can see in the report what still runs on it.
            Phase::Complete { outcome, .. } => matches!(outcome, Outcome::Drained | Outcome::Forced),
            Phase::Idle | Phase::Waiting(_) | Phase::Failed(_) => false,
        }
    }

    /// An attempt has begun and has no snapshot yet.
    pub fn awaits_snapshot(&self) -> bool {
        let begun = drain::progress::attempt(&self.drain).is_some_and(|attempt| attempt.snapshot().is_none());
        begun && matches!(self.phase, Phase::Attempting { .. })
    }

    /// The newest snapshot of the node, its pods and their volumes: the attempt's own while one runs, otherwise that of
    /// the watches.
    pub fn known(&self) -> Option<&Arc<Snapshot>> {
        let attempt = drain::progress::attempt(&self.drain);
        let attempt = attempt.filter(|_| matches!(self.phase, Phase::Attempting { .. }));
        attempt.and_then(drain::state::Attempt::snapshot).or(self.snapshot.as_ref())
    }

    /// Whether another node can take pods, by the last list of nodes.
    pub(crate) fn has_peer(&self) -> bool {
        let is_other = |node: &NodeView| self.own.as_ref().is_none_or(|own| own.uid != node.uid);
        self.nodes.iter().any(|node| is_other(node) && !node.tie_breaker && node.ready && !node.cordoned)
    }

    /// Until when another node is waited for that can take pods, if there has been none since `since`. One that is not
    /// Ready may just be rebooting, cordoned for its own drain.
    pub(crate) fn no_peer_until(&self, own: &NodeView, since: Moment, policy: &Policy) -> Moment {
        let others = self.nodes.iter().filter(|node| node.uid != own.uid && !node.tie_breaker);
        let may_return = |node: &NodeView| self.slots.observed.may_return_until(&node.uid, policy.down_max);
        others.filter_map(may_return).max().unwrap_or(since).max(since + policy.peer_window)
    }
}

/// The watch on our own Node.
impl State {
    /// Whether the shell watches our Node by itself: with nothing to do, so that no call has to ask for it. In a drain the
    /// watches of [`State::wants_snapshot`] show it.
    pub fn wants_own_watch(&self) -> bool {
        let is_quiet = matches!(self.phase, Phase::Idle | Phase::Waiting(_) | Phase::Failed(_));
        is_quiet && self.own.is_some() && self.member_now() == Member::Yes
    }

    /// The watch on our Node lives, and shows the Node that was matched to this machine.
    pub(crate) fn is_own_watched(&self) -> bool {
        self.own.as_ref().is_some_and(|own| self.watched_uid.as_ref() == Some(&own.uid))
    }
}

/// Outages of the API server.
impl State {
    /// When the drain ends as complete because the API server does not answer, counted from the start of the outage, or
    /// from `since` if that is later. `None` while the server answers, or if policy says to wait for it.
    ///
    /// The time is `unreachable_timeout`. If another node had a slot when the API server last answered, or if that is
    /// not known, that node may have taken the server down with it: then the time is at least `down_max`, the time that
    /// a node may be down.
    ///
    /// All nodes may have been told to go down in the same outage, in which nobody can take a slot: `slots_limit` of them
    /// go at a time, by name, and the next ones `down_max` later, but not later than `wait_limit`.
    pub(crate) fn unreachable_at(&self, since: Moment, policy: &Policy) -> Option<Moment> {
        let away = self.api.away_since.filter(|_| self.completes(policy.on_unreachable, policy))?;
        let longer = policy.down_max.max(policy.unreachable_timeout);
        let timeout = if self.others_get_time(policy) { longer } else { policy.unreachable_timeout };
        let at = away.max(since) + timeout;
        let in_turn = at + policy.down_max.saturating_mul(self.turns_before(policy));
        Some(policy.wait_limit.map_or(in_turn, |limit| in_turn.min(at.max(since + limit))))
    }

    /// How many turns of `slots_limit` nodes come before ours in an outage.
    pub(crate) fn turns_before(&self, policy: &Policy) -> u32 {
        let turns = self.slots.neighbours.before.checked_div(policy.slots_limit).unwrap_or_default();
        if self.holds_slot() { 0 } else { turns }
    }

    /// True if the drain ends as complete when what it needs stays away.
    pub(crate) fn completes(&self, choice: OnUnavailable, policy: &Policy) -> bool {
        match choice {
            OnUnavailable::Complete => true,
            OnUnavailable::Wait => false,
            OnUnavailable::Auto => {
                self.facts.is_beside_eve || policy.beside_zedbox || self.slots.neighbours.is_alone
            }
        }
    }

    /// Another node may be down for a drain, so it gets the time `down_max` to come back.
    pub(crate) fn others_get_time(&self, policy: &Policy) -> bool {
        policy.slots_limit > 0 && self.slots.others != OtherHolders::Nobody
    }
}

/// This node's slot.
impl State {
    /// This node has a slot, as far as we know.
    pub fn holds_slot(&self) -> bool {
        self.slots.is_held(self.own.as_ref())
    }

    /// The entry in the slot table that gives this node its slot.
    pub(crate) fn slot_entry(&self) -> Option<&Holder> {
        self.slots.entry(self.own.as_ref())
    }

    /// The slot table has an entry under this node's name, valid or not.
    pub(crate) fn has_place(&self) -> bool {
        self.slots.has_place(self.own.as_ref())
    }

    /// This node waits for a slot and other nodes have them all; the shell then watches the slot table.
    pub fn is_waiting_for_slot(&self) -> bool {
        self.phase.stage() == Some(Stage::Slot) && !self.slots.taken_by.is_empty()
    }

    /// Whether the shell watches the slot table: while this node waits for a slot, and while it must know who has one in
    /// case the API server goes away. A watch costs one call at its start and one event for each change of the table
    /// (each holder changes its entry once a minute).
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

/// Restoring: our cordon and our slot are given back.
///
/// This is level-triggered: whenever no request needs the node drained, but the node carries our cordon or the slot
/// table our entry, the node is uncordoned first and then the slot is released. So one rule covers a cancelled drain, a
/// failed drain and the next boot.
impl State {
    /// Our cordon or our slot exists, or may exist, and no request needs it.
    pub fn is_return_due(&self) -> bool {
        self.is_cordon_unneeded() || (!self.requests.hold_the_node() && self.has_place())
    }

    /// Our cordon exists and is not needed: no request needs the node drained, or this node waits for a slot that others
    /// have, and a cordoned node that only waits cannot take their pods. For a request that is kept it stays cordoned.
    pub(crate) fn is_cordon_unneeded(&self) -> bool {
        let only_waits = self.is_waiting_for_slot() && !self.requests.is_any_kept();
        let needed = self.requests.hold_the_node() && !only_waits;
        !needed && self.has_cordon()
    }

    /// Notes whether the node is set aside. What is said once stays until another drain begins: the slot may be gone.
    pub(crate) fn set_aside(&mut self) {
        let is_over =
            matches!(self.phase, Phase::Failed(_) | Phase::Complete { outcome: Outcome::Drained, .. });
        self.is_set_aside |= is_over && self.requests.are_kept_and_answered();
    }

    /// Other nodes count our cordon as one that takes a slot until it has the mark `ebb.dev/slots-group: "-"`, whatever the
    /// slot table says. That is wrong, and the mark is due, if the node is set aside, or is kept and waits for a slot: two
    /// nodes that wait so would wait for each other.
    pub(crate) fn is_no_slot_mark_due(&self) -> bool {
        let is_without = self.is_set_aside || (self.is_waiting_for_slot() && self.requests.is_any_kept());
        is_without && self.own.as_ref().is_some_and(cordon_takes_slot)
    }

    /// The node is set aside, and other nodes still count a slot for it: by its entry in the slot table, or by its cordon
    /// without the mark.
    pub(crate) fn is_slot_still_there(&self) -> bool {
        self.is_set_aside && (self.has_place() || self.own.as_ref().is_some_and(cordon_takes_slot))
    }

    /// The node carries our cordon, or may carry it.
    pub(crate) fn has_cordon(&self) -> bool {
        self.restoring.has_cordon(self.own.as_ref())
    }

    /// Our annotation is left on a node that another party has uncordoned. It means nothing any more and is removed at
    /// once; but not while we cordon or evict, because the node as last read may then be older than our cordon.
    pub(crate) fn is_mark_stray(&self) -> bool {
        let is_quiet = !matches!(self.phase, Phase::Cordoning(_) | Phase::Attempting { .. });
        is_quiet && self.own.as_ref().is_some_and(|node| is_marked(node) && !node.cordoned)
    }

    /// We remember a cordon or a slot on our Node, which is cordoned without an owner: somebody may have removed our
    /// annotation.
    pub(crate) fn is_mark_lost(&self) -> bool {
        let is_own = |own: &&NodeView| self.remembered.as_ref().is_some_and(|left| left.node_uid == own.uid);
        self.own.as_ref().filter(is_own).is_some_and(is_ownerless) && !self.restoring.is_foreign
    }

    /// Our Node takes no pods, whoever has cordoned it. Before our Node is read, as after each boot: zedkube remembers a
    /// cordon or a slot on it.
    pub fn is_cordoned(&self) -> bool {
        self.own.as_ref().map_or_else(|| self.remembered.is_some(), |own| own.cordoned)
    }

    /// The node that we left a cordon or a slot on, if it is not this machine's Node: this zedkube cannot take it back.
    pub fn left_behind(&self) -> Option<&Remembered> {
        let is_own =
            |remembered: &&Remembered| self.own.as_ref().is_some_and(|own| own.uid == remembered.node_uid);
        self.remembered.as_ref().filter(|remembered| !is_own(remembered))
    }

    /// True if that node is, as far as is known, this machine's own, which the API server has not shown yet: then our
    /// cordon and our slot are taken back as soon as it does.
    pub fn will_take_back(&self) -> bool {
        let is_own = |left: &Remembered| !self.is_elsewhere(left);
        self.own.is_none()
            && self.nodes.is_empty()
            && self.member != Member::No
            && self.left_behind().is_some_and(is_own)
    }

    /// True if that node belongs to another cluster than the present one.
    pub(crate) fn is_elsewhere(&self, left: &Remembered) -> bool {
        left.cluster.as_ref().zip(self.cluster.as_ref()).is_some_and(|(there, here)| there != here)
    }

    /// Why restoring has to wait although it is due; `None` if it can go on.
    pub fn return_obstacle(&self) -> Option<String> {
        if self.is_cordon_of_this_boot() {
            return None;
        }
        // A cordon from an earlier boot: the node must be able to take pods again.
        let failure = || self.health.failure(Purpose::Return);
        self.not_back_yet(self.own.as_ref()?)
            .or_else(|| {
                self.is_drain_to_come()
                    .then_some("annotation ebb.dev/drain is on the Node, and its drain is requested next")
            })
            .or_else(|| {
                let why = "a request that is kept over boots cannot be read, so the node may have to stay drained; \
                           `ebb status` names its file";
                self.facts.may_be_kept.then_some(why)
            })
            .map(str::to_owned)
            .or_else(|| failure().map(|error| format!("the site's health command does not pass: {error}")))
    }

    /// Our Node carries the command for a drain, and its request has not come yet after a boot: the node would be given
    /// back for a moment.
    fn is_drain_to_come(&self) -> bool {
        let is_commanded = self.own.as_ref().is_some_and(|own| own.is_drain_commanded);
        let is_requested = || self.requests.iter().any(|request| request.publisher == OWNER);
        is_commanded && self.facts.obeys_drains && !is_requested()
    }

    /// Why the node cannot take pods yet after a boot; `None` if it can.
    pub(crate) fn not_back_yet(&self, node: &NodeView) -> Option<&'static str> {
        if !node.ready {
            Some("the node is not Ready yet")
        } else if !node.boot_id.is_empty() && node.boot_id != self.boot_id {
            Some("the kubelet has not reported this boot yet")
        } else {
            None
        }
    }

    /// Notes our Node as it was just read.
    pub(crate) fn see_own(&mut self, node: &NodeView) {
        self.restoring.has_been_back |= self.not_back_yet(node).is_none();
        self.own = Some(node.clone());
    }

    /// Cordon or slot date from this boot, and the node was in service before, so restoring needs no check of the node
    /// first. A request that came before the node was back took over the cordon and the slot of the boot before.
    pub(crate) fn is_cordon_of_this_boot(&self) -> bool {
        let entry = self.slot_entry();
        let is_renewed =
            self.restoring.may_be_cordoned || entry.is_some_and(|entry| entry.boot_id == self.boot_id);
        self.restoring.has_been_back && is_renewed
    }
}

/// An operator's order.
impl State {
    /// The present phase was caused by an operator's order.
    pub fn is_forced(&self) -> bool {
        self.phase.is_forced()
    }

    /// When the forced answer that was published last has been shown for long enough.
    pub(crate) fn forced_answer_over(&self) -> Moment {
        self.published.announced_at().unwrap_or(self.since) + BETWEEN_ANSWERS
    }
}

/// Why the last list or read of nodes was of no use, although the API server answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesError {
    /// Why no Node could be matched to this machine; empty if one was.
    pub identity: String,
    /// Why the nodes could not be listed or ours not be read; empty if that worked.
    pub refused: String,
    /// The nodes could not be listed because the kubeconfig leads to another cluster than the one in which the drain began.
    pub is_elsewhere: bool,
}

/// A node that may still carry our cordon or our slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Its name.
    pub node: String,
    /// Its UID.
    pub node_uid: String,
    /// The cluster that it belongs to ([`State::cluster`]).
    pub cluster: Option<String>,
}

/// One drain from its request to its end, for the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Session {
    /// The number of the drain in this process; zero before the first.
    pub number: u64,
    /// When it began.
    pub started: Option<Moment>,
    /// When it ended.
    pub finished: Option<Moment>,
    /// The attempts that have ended, all of them failed.
    pub attempts: Vec<AttemptRecord>,
    /// Another party had cordoned the node before us.
    pub cordoned_before: bool,
    /// Number of pods that left the node in the attempts that have ended.
    pub gone: u64,
    /// How the drain ended; kept until the next one begins.
    pub ended: Option<Outcome>,
    /// Why requesters were answered COMPLETE without an order of an operator. An order that comes later does not change it.
    pub told: Option<Outcome>,
}

/// One attempt that has failed.
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
