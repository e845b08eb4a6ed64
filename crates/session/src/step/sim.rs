//! A small simulated cluster with its own clock, in which the scenarios run.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use drain::cordon::{NO_SLOT, Ownerless};
use drain::storage::{AttachmentView, Attachments};
use drain::view::{NodeView, PodId, PodView, Snapshot};

use super::*;
use crate::event::{CallError, Cordoned, NoNode, NodeList, NodeSample, SlotError};
use crate::membership::Facts;
use crate::policy::OnUnavailable;
use crate::record::{Record, resume};
use crate::slots::{Holder, SlotTable};

use crate::OWNER;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A part of the simulated cluster that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Unreachable,
    /// Reads are answered with 429.
    Busy,
    CordonRefused,
    EvictionRefused,
    SlotsRefused,
    /// Another client always writes first.
    SlotsConflict,
    /// The right to the slots is lost just as we cordon.
    SlotsRefusedAtCordon,
    /// Another node frees our entry and takes the slot just as we cordon.
    SlotStolenAtCordon,
    /// A node joins and takes the slot just before the slots are read.
    NewcomerTakesSlot,
    /// Health fails as soon as we hold the slot.
    HealthWithSlot,
    RenameRefused,
    /// Fresh lists are not answered.
    ProofHangs,
    /// Fresh lists fail.
    ListsFail,
    /// The watch does not see that our Node is gone.
    WatchIsOld,
    /// The right to list nodes is lost.
    LooksDenied,
    /// No Node can be matched to this machine.
    NodeUnknown,
    /// The peer's Node is matched to this machine.
    TakenForPeer,
    /// Somebody has cordoned our Node after us.
    CordonOfOthers,
}

/// A cluster that answers effects at once, and a clock that jumps to the next wake-up.
pub(super) struct Sim {
    pub(super) state: State,
    pub(super) now: Moment,
    pub(super) policy: Policy,
    pub(super) wake: Option<Moment>,
    /// The faults that are active now.
    pub(super) faults: BTreeSet<Fault>,
    /// Whose nodes are listed.
    pub(super) cluster: Option<String>,
    pub(super) own: NodeView,
    pub(super) others: Vec<NodeView>,
    pub(super) pods: Vec<PodView>,
    /// Volumes that are attached to our node, whatever the pods are.
    pub(super) attached: Vec<AttachmentView>,
    pub(super) slots: SlotTable,
    pub(super) health: Result<(), String>,
    pub(super) slot_reads: usize,
    /// What an operator asks for is kept over boots.
    pub(super) keeps: bool,
    /// The facts about its membership that the device knows.
    pub(super) facts: Facts,
    /// Our Node exists.
    pub(super) has_own_node: bool,
    /// If our Node does not exist, it may still be created.
    pub(super) may_join: bool,
    /// The record on disk.
    pub(super) recorded: Record,
    /// Each status that was shown, with the requester's number.
    pub(super) published: Vec<(u8, u8)>,
    /// Effects that were carried out, in order, as words.
    pub(super) done: Vec<String>,
    /// Is shown every step.
    pub(super) observer: Option<Observer>,
}

/// Takes the state before a step, its event, the state after it, and its effects.
pub(super) type Observer = Box<dyn FnMut(&State, &Event, &State, &[Effect])>;

impl Sim {
    /// A device at rest, in a cluster of two nodes, with two pods on it.
    pub(super) fn new() -> Self {
        Self::with(Policy::device())
    }

    pub(super) fn with(policy: Policy) -> Self {
        let node =
            |name: &str| NodeView { name: name.into(), uid: name.into(), ready: true, ..NodeView::default() };
        let mut sim = Self {
            state: State::new(Member::Yes, "boot".into(), Moment(1_000_000)),
            now: Moment(1_000_000),
            policy: eves_way(policy),
            wake: None,
            faults: BTreeSet::new(),
            cluster: Some("first".into()),
            own: node("own"),
            others: vec![node("peer")],
            pods: vec![pod("1"), pod("2")],
            attached: vec![],
            slots: SlotTable::default(),
            health: Ok(()),
            slot_reads: 0,
            keeps: false,
            facts: Facts { has_kubeconfig: true, ..Facts::default() },
            has_own_node: true,
            may_join: true,
            recorded: Record::default(),
            published: vec![],
            done: vec![],
            observer: None,
        };
        sim.send(Event::Facts(sim.facts));
        sim
    }

    /// Counts the calls from now on: samples and lists of nodes, reads of our Node, reads and writes of the slot table.
    pub(super) fn count_calls(&mut self) -> Rc<Cell<[u32; 5]>> {
        let calls = Rc::<Cell<[u32; 5]>>::default();
        let counted = Rc::clone(&calls);
        self.observer = Some(Box::new(move |_, _, _, effects| {
            let mut calls = counted.get();
            for effect in effects {
                match effect {
                    Effect::SampleNodes { .. } => calls[0] += 1,
                    Effect::ListNodes { .. } => calls[1] += 1,
                    Effect::Probe { .. } => calls[2] += 1,
                    Effect::ReadSlots { .. } => calls[3] += 1,
                    Effect::WriteSlots { .. } => calls[4] += 1,
                    _ => {}
                }
            }
            counted.set(calls);
        }));
        calls
    }

    pub(super) fn send(&mut self, event: Event) {
        self.send_all([event]);
    }

    /// Sends events that arrive before any answer to the effects of the first of them.
    fn send_all<const N: usize>(&mut self, events: [Event; N]) {
        let mut queue = std::collections::VecDeque::from(events);
        let mut steps = 0;
        while let Some(event) = queue.pop_front() {
            steps += 1;
            assert!(steps < 10_000, "effects are answered for ever in {:?}: {event:?}", self.state.phase);
            let seen = self.observer.is_some().then(|| (self.state.clone(), event.clone()));
            let (state, effects) = step(std::mem::take(&mut self.state), event, self.now, &self.policy);
            self.state = state;
            self.wake = None;
            if let (Some(observer), Some((before, event))) = (&mut self.observer, seen) {
                observer(&before, &event, &self.state, &effects);
            }
            for effect in effects {
                queue.extend(self.perform(effect));
            }
        }
    }

    /// Carries one effect out; the watches also report the change.
    pub(super) fn perform(&mut self, effect: Effect) -> Vec<Event> {
        let answer = self.answer_to(effect);
        let snapshot =
            self.state.wants_snapshot().then(|| Event::Drain(drain::Event::Snapshot(self.snapshot())));
        let changed =
            matches!(answer, Some(Event::Drain(drain::Event::Answer { .. }) | Event::Cordoned { .. }));
        answer.into_iter().chain(snapshot.filter(|_| changed)).collect()
    }

    pub(super) fn answer_to(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Publish => {
                let next = (self.state.published.status as u8, self.state.published.requested_by.code());
                if self.published.last() != Some(&next) {
                    self.published.push(next);
                }
                None
            }
            Effect::ListNodes { serial } => Some(Event::NodesListed { serial, result: self.look() }),
            Effect::SampleNodes { serial } => Some(Event::NodesSampled { serial, result: self.sample() }),
            Effect::Probe { serial } => Some(Event::Probed { serial, result: self.answer(self.own_node()) }),
            Effect::Cordon { serial } => {
                self.done.push("cordon".into());
                self.meddle();
                Some(Event::Cordoned { serial, result: self.cordon() })
            }
            Effect::Uncordon { serial } => {
                self.done.push("uncordon".into());
                let result = if self.is_free_of(Fault::Unreachable) { Ok(()) } else { Err("refused".into()) };
                if result.is_ok() && self.own.cordoned_by.take().is_some() {
                    (self.own.cordoned, self.own.slots_group) = (false, None);
                }
                Some(Event::Uncordoned { serial, result })
            }
            Effect::Adopt { serial, whose } => {
                self.done.push("adopt".into());
                let is_ours = whose == Ownerless::Eves || self.is_free_of(Fault::CordonOfOthers);
                if is_ours {
                    self.own.cordoned_by = Some(OWNER.into());
                }
                Some(Event::Adopted { serial, result: Ok(is_ours) })
            }
            Effect::MarkWithoutSlot { serial } => {
                Some(Event::MarkedWithoutSlot { serial, result: self.mark() })
            }
            Effect::ReadSlots { serial } => Some(Event::Slots { serial, result: self.read_slots() }),
            Effect::WriteSlots { serial, based_on, node, entry } => {
                Some(Event::Slots { serial, result: self.write_slots(based_on.as_ref(), &node, entry) })
            }
            Effect::AskHealth { serial } => {
                self.done.push("health".into());
                let fails = self.has(Fault::HealthWithSlot) && self.slots.of("own").is_some();
                let result = if fails { Err("degraded".into()) } else { self.health.clone() };
                Some(Event::Health { serial, result })
            }
            Effect::Record => {
                self.recorded = record(&self.state);
                None
            }
            Effect::TakeOverride => {
                Some(Event::OverrideTaken { renamed: self.is_free_of(Fault::RenameRefused) })
            }
            Effect::Drain(effect) => self.answer_to_drain(effect),
            Effect::WakeAt(moment) => {
                self.wake = Some(moment);
                None
            }
        }
    }

    fn answer_to_drain(&mut self, effect: drain::Effect) -> Option<Event> {
        match effect {
            drain::Effect::Relist { .. } if !self.is_free_of(Fault::ProofHangs) => None,
            drain::Effect::Relist { attempt, .. } => {
                let look = if self.is_free_of(Fault::Unreachable) && self.is_free_of(Fault::ListsFail) {
                    Ok(self.snapshot())
                } else {
                    Err("refused".into())
                };
                Some(Event::Drain(drain::Event::Relisted { attempt, result: look }))
            }
            drain::Effect::Evict { attempt, pod, .. } => {
                self.done.push(format!("evict {pod}"));
                Some(self.evict(attempt, &pod))
            }
            _ => None,
        }
    }

    fn look(&self) -> Result<NodeList, CallError> {
        let own = self.own_node();
        let nodes = own.iter().chain(&self.others).cloned().collect();
        let unknown =
            NoNode { why: "no Node of this cluster is this machine".into(), may_join: self.may_join };
        let own = if self.is_free_of(Fault::TakenForPeer) { own } else { self.others.first().cloned() };
        let own = own.filter(|_| self.is_free_of(Fault::NodeUnknown)).ok_or(unknown);
        if self.is_free_of(Fault::LooksDenied) {
            self.answer(NodeList { nodes, own, cluster: self.cluster.clone() })
        } else {
            Err(CallError::Denied("may not list nodes".to_owned()))
        }
    }

    fn sample(&self) -> Result<NodeSample, CallError> {
        let NodeList { nodes, cluster, .. } = self.look()?;
        Ok(NodeSample { total: Some(nodes.len()), nodes: nodes.into_iter().take(2).collect(), cluster })
    }

    pub(super) fn answer<T>(&self, value: T) -> Result<T, CallError> {
        if self.has(Fault::Unreachable) {
            Err(CallError::Unreachable("connection refused".into()))
        } else if self.has(Fault::Busy) {
            Err(CallError::Busy("too many requests (429)".into()))
        } else {
            Ok(value)
        }
    }

    fn read_slots(&mut self) -> Result<SlotTable, SlotError> {
        self.slot_reads += 1;
        if self.faults.remove(&Fault::NewcomerTakesSlot) {
            self.others.push(NodeView {
                name: "new".into(),
                uid: "new".into(),
                ready: true,
                ..NodeView::default()
            });
            self.others_hold(&["new"]);
        }
        if self.has(Fault::SlotsRefused) {
            return Err(SlotError::Failed(CallError::Denied("cannot get configmaps".into())));
        }
        self.answer(self.slots.clone()).map_err(SlotError::Failed)
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    fn is_free_of(&self, fault: Fault) -> bool {
        !self.has(fault)
    }

    /// From now on this fails, or works again.
    pub(super) fn set(&mut self, fault: Fault, on: bool) {
        if on {
            self.faults.insert(fault)
        } else {
            self.faults.remove(&fault)
        };
    }

    fn write_slots(
        &mut self,
        based_on: Option<&String>,
        node: &str,
        entry: Option<Holder>,
    ) -> Result<SlotTable, SlotError> {
        if self.has(Fault::SlotsRefused) {
            return Err(SlotError::Failed(CallError::Denied("cannot patch configmaps".into())));
        }
        if self.has(Fault::Unreachable) {
            return self.answer(SlotTable::default()).map_err(SlotError::Failed);
        }
        if based_on != self.slots.version.as_ref() || self.has(Fault::SlotsConflict) {
            return Err(SlotError::Conflict);
        }
        self.slots.put(node, entry);
        self.count_version();
        Ok(self.slots.clone())
    }

    /// The table was changed.
    pub(super) fn count_version(&mut self) {
        let version = self.slots.version.as_ref().map_or(0, |version| version.parse::<u32>().unwrap()) + 1;
        self.slots.version = Some(version.to_string());
    }

    /// From now on these nodes have entries, and we keep ours if we had one.
    pub(super) fn others_hold(&mut self, names: &[&str]) {
        let own = self.slots.of("own").cloned();
        let holder =
            |name: &&str| Holder { node: (*name).into(), node_uid: (*name).into(), ..Holder::default() };
        self.slots.holders = names.iter().map(holder).chain(own).collect();
        self.count_version();
    }

    pub(super) fn holders(&self) -> Vec<&str> {
        self.slots.holders.iter().map(|holder| holder.node.as_str()).collect()
    }

    /// Does to the slot, just as we cordon, what the active fault says.
    fn meddle(&mut self) {
        if self.faults.remove(&Fault::SlotsRefusedAtCordon) {
            self.set(Fault::SlotsRefused, true);
        }
        if self.faults.remove(&Fault::SlotStolenAtCordon) {
            self.slots.holders.clear();
            self.others_hold(&["peer"]);
        }
    }

    pub(super) fn cordon(&mut self) -> Result<Cordoned, CallError> {
        if self.has(Fault::CordonRefused) {
            return Err(CallError::Denied("cannot patch nodes".into()));
        }
        let before = self.own.cordoned && self.own.cordoned_by.is_none();
        if self.is_free_of(Fault::Unreachable) && !self.own.cordoned {
            (self.own.cordoned, self.own.cordoned_by) = (true, Some(OWNER.into()));
        }
        if self.is_free_of(Fault::Unreachable) && self.own.is_cordoned_by(OWNER) {
            self.own.slots_group = None;
        }
        self.answer(Cordoned { node: self.own.clone(), before })
    }

    fn mark(&mut self) -> Result<(), String> {
        self.done.push("mark".into());
        if self.has(Fault::CordonRefused) || self.has(Fault::Unreachable) {
            return Err("cannot patch nodes".into());
        }
        if self.own.is_cordoned_by(OWNER) {
            self.own.slots_group = Some(NO_SLOT.into());
        }
        Ok(())
    }

    pub(super) fn evict(&mut self, attempt: u32, pod: &PodId) -> Event {
        let answer = if self.is_free_of(Fault::EvictionRefused) {
            self.pods.retain(|present| present.id != *pod);
            drain::Answer::Accepted
        } else {
            drain::Answer::Budget(drain::answer::BudgetRefusal { text: "no".into(), after: None })
        };
        Event::Drain(drain::Event::Answer { attempt, uid: pod.uid.clone(), answer })
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        let attachments = Attachments::Listed(self.attached.clone());
        let storage = drain::storage::Storage { attachments, ..Default::default() };
        Arc::new(Snapshot { node: self.own_node(), pods: self.pods.clone(), storage, ..Snapshot::default() })
    }

    fn own_node(&self) -> Option<NodeView> {
        self.has_own_node.then(|| self.own.clone())
    }

    pub(super) fn show_snapshot(&mut self) {
        if self.state.wants_snapshot() {
            let node = self.has(Fault::WatchIsOld).then(|| self.own.clone());
            let seen =
                Snapshot { node: node.or_else(|| self.own_node()), ..Snapshot::clone(&self.snapshot()) };
            self.send(Event::Drain(drain::Event::Snapshot(Arc::new(seen))));
        }
    }

    /// Lets time pass, with every wake-up on the way, and the watches speaking each time.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        self.show_snapshot();
        let mut at_once = 0;
        while let Some(wake) = self.wake.filter(|wake| *wake <= end) {
            at_once = if wake <= self.now { at_once + 1 } else { 0 };
            assert!(at_once < 100, "the session spins in {:?}", self.state.phase);
            self.now = self.now.max(wake);
            self.send(Event::Tick);
            self.show_snapshot();
        }
        self.now = end;
    }

    pub(super) fn ask(&mut self, requesters: &[(DrainRequester, &str)]) {
        let request = |&(requester, at): &(DrainRequester, &str)| Request {
            requester,
            context: "reboot".into(),
            requested_at: at.into(),
            publisher: "zedagent".into(),
            answer: Answer::None,
            forced_by: String::new(),
            kept: self.keeps && requester == DrainRequester::None,
        };
        self.send(Event::Requests(requesters.iter().map(request).collect()));
    }

    pub(super) fn reboot(&mut self) {
        self.ask(&[(DrainRequester::DeviceOp, "1")]);
    }

    /// Kills zedkube, and restarts it with its record.
    pub(super) fn restart(&mut self) {
        self.restart_from(self.recorded.clone());
    }

    pub(super) fn restart_from(&mut self, record: Record) {
        let standing: Vec<Request> = self.state.requests.iter().cloned().collect();
        let (member, boot_id) = (self.state.member, self.state.boot_id.clone());
        self.state = resume(record, member, boot_id, self.now).remembering(&self.state.known_holders());
        self.start(standing);
    }

    /// Kills zedkube, and restarts it without a record.
    pub(super) fn lose_record(&mut self) {
        let standing: Vec<Request> = self.state.requests.iter().cloned().collect();
        let boot_id = self.state.boot_id.clone();
        let known = self.state.known_holders();
        self.state =
            State::new(self.state.member, boot_id, self.now).knowing(known.others).remembering(&known);
        self.start(standing);
    }

    /// The device comes up again; only what is kept still asks, if it can be read.
    pub(super) fn boot(&mut self, boot_id: &str) {
        let known = self.state.known_holders();
        let is_read = |request: &&Request| request.kept && !self.facts.may_be_kept;
        let kept = self.state.requests.iter().filter(is_read).cloned().collect();
        let state = State::new(self.state.member, boot_id.into(), self.now);
        self.state = state.knowing(known.others).remembering(&known);
        self.recorded = record(&self.state);
        self.start(kept);
    }

    /// The facts first, then the requests, as the real loop does.
    pub(super) fn start(&mut self, standing: Vec<Request>) {
        self.published.clear();
        self.send_all([Event::Facts(self.facts), Event::Requests(standing)]);
    }

    pub(super) fn statuses(&self) -> Vec<u8> {
        self.published.iter().map(|&(status, _)| status).collect()
    }

    pub(super) fn outcome(&self) -> Option<Outcome> {
        match &self.state.phase {
            Phase::Complete { outcome, .. } => Some(*outcome),
            _ => None,
        }
    }

    pub(super) fn count(&self, word: &str) -> usize {
        self.done.iter().filter(|done| done.starts_with(word)).count()
    }
}

/// Most scenarios go on without a drain, as EVE does.
fn eves_way(policy: Policy) -> Policy {
    let by_eve = |choice| if choice == OnUnavailable::Auto { OnUnavailable::Complete } else { choice };
    let (on_unreachable, on_no_peer) = (by_eve(policy.on_unreachable), by_eve(policy.on_no_peer));
    Policy { on_unreachable, on_no_peer, ..policy }
}

pub(super) fn pod(uid: &str) -> PodView {
    PodView { id: PodId { namespace: "a".into(), name: uid.into(), uid: uid.into() }, ..PodView::default() }
}
