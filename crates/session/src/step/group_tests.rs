//! Several nodes and one slot table: whatever is killed, cut off or delayed, no more nodes drain at once than
//! `slots.limit`.

use std::collections::VecDeque;

use drain::view::{NodeView, PodId, PodView, Snapshot};
use proptest::prelude::*;

use super::*;
use crate::OWNER;
use crate::event::{CallError, Cordoned, NodeList, SlotError};
use crate::membership::Facts;
use crate::record::{Record, resume};
use crate::slots::{Holder, PassedOver, SlotTable};

const NODES: usize = 3;

/// A simulated device.
struct Device {
    state: State,
    recorded: Record,
    wake: Moment,
    /// Calls on their way to the API server, in order.
    calls: VecDeque<Effect>,
    /// Answers on their way back.
    answers: VecDeque<Event>,
    asks: bool,
    boots: u32,
    /// Whether other nodes had a slot when the server answered last, by the table or by the annotations in the list of
    /// nodes.
    others: (bool, bool),
}

/// The API server and the devices.
struct World {
    now: Moment,
    limit: u32,
    table: SlotTable,
    nodes: Vec<NodeView>,
    pods: Vec<Vec<PodView>>,
    devices: Vec<Device>,
    /// The Node objects that exist.
    joined: Vec<bool>,
    /// True from the node's first eviction until its slot is released or the node is in service again.
    draining: Vec<bool>,
    /// Another party has made the node lose its slot since it wrote its entry.
    meddled: Vec<bool>,
}

/// An event or fault of one device.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// A reboot is requested, or the request is withdrawn.
    Ask(bool),
    /// Its next call reaches the server.
    Call,
    /// Its next call is lost on the way there.
    LoseCall,
    /// An answer comes back.
    Answer,
    /// An answer is lost on the way back.
    LoseAnswer,
    /// Time passes until its next wake-up.
    Wake,
    /// zedkube is killed and comes back.
    Kill,
    /// The device goes down.
    Down,
    /// The device comes up again, with another boot id.
    Up,
    /// Its pods have come back.
    Refill,
    /// Some minutes pass for this device alone: all others are frozen.
    Alone,
    /// The same, and no call of it reaches the server.
    CutOff,
    /// The Node object is created; before, the server does not know the device.
    Join,
    /// An operator or an attacker destroys its entry.
    Destroy,
    /// Its entry says that it has passed over all others.
    Lie,
    /// An attacker writes the next node's UID into this node's entry.
    Forge,
}

impl World {
    fn new(limit: u32) -> Self {
        let now = Moment(1_000_000);
        let name = |index: usize| format!("n{index}");
        let node = |index| NodeView {
            name: name(index),
            uid: name(index),
            ready: true,
            boot_id: "0".into(),
            ..NodeView::default()
        };
        let device = |_| Device {
            state: State::new(Member::Yes, "0".into(), now),
            recorded: Record::default(),
            wake: now,
            calls: VecDeque::new(),
            answers: VecDeque::new(),
            asks: false,
            boots: 0,
            others: (false, false),
        };
        let mut world = Self {
            now,
            limit,
            table: SlotTable::default(),
            nodes: (0..NODES).map(node).collect(),
            pods: (0..NODES).map(|_| vec![pod()]).collect(),
            devices: (0..NODES).map(device).collect(),
            joined: vec![true, true, false],
            draining: vec![false; NODES],
            meddled: vec![false; NODES],
        };
        world.start(0);
        world.start(1);
        world
    }

    fn policy(&self) -> Policy {
        let drain = drain::Policy { settle: Duration::ZERO, ..drain::Policy::device() };
        Policy { drain, slots_limit: self.limit, retry_pause: Duration::from_secs(10), ..Policy::device() }
    }

    fn start(&mut self, index: usize) {
        self.send(index, Event::Facts(Facts { has_kubeconfig: true, ..Facts::default() }));
        self.ask(index);
    }

    fn ask(&mut self, index: usize) {
        let request = Request {
            requester: DrainRequester::DeviceOp,
            context: "reboot".into(),
            requested_at: self.devices[index].boots.to_string(),
            publisher: "zedagent".into(),
            answer: Answer::None,
            forced_by: String::new(),
        };
        let standing = if self.devices[index].asks { vec![request] } else { vec![] };
        self.send(index, Event::Requests(standing));
    }

    fn send(&mut self, index: usize, event: Event) {
        let policy = self.policy();
        let device = &mut self.devices[index];
        let was_complete = matches!(device.state.phase, Phase::Complete { .. });
        let uid = format!("n{index}");
        match &event {
            Event::Slots { result: Ok(table), .. } => {
                device.others.0 = table.holders.iter().any(|holder| holder.node != uid);
            }
            Event::NodesListed { result: Ok(look), .. } => {
                let is_marked = |node: &NodeView| node.uid != uid && node.cordoned_by.is_some();
                device.others.1 = look.nodes.iter().any(is_marked);
            }
            _ => {}
        }
        let (state, effects) = step(std::mem::take(&mut device.state), event, self.now, &policy);
        device.state = state;
        if !was_complete && let Phase::Complete { outcome: Outcome::ApiUnreachable, .. } = device.state.phase
        {
            let away = device.state.api.away_since.map_or(Duration::ZERO, |since| self.now.since(since));
            let others = device.others.0 || device.others.1;
            assert!(
                !others || away >= policy.down_max,
                "goes down undrained beside another one that is down"
            );
        }
        device.wake = Moment::NEVER;
        for effect in effects {
            match effect {
                Effect::Record => device.recorded = record(&device.state),
                Effect::WakeAt(moment) => device.wake = moment,
                Effect::Drain(drain::Effect::Abort) => {
                    device.calls.retain(|call| !matches!(call, Effect::Drain(_)));
                }
                Effect::Publish => {}
                call => device.calls.push_back(call),
            }
        }
    }

    /// Carries a call out as the API server does.
    fn call(&mut self, index: usize, lost: bool) {
        let Some(call) = self.devices[index].calls.pop_front() else { return };
        let answer = if lost { unreachable(call) } else { self.serve(index, call) };
        self.devices[index].answers.extend(answer);
        if !lost && self.devices[index].state.wants_snapshot() {
            let snapshot = Event::Drain(drain::Event::Snapshot(self.snapshot(index)));
            self.devices[index].answers.push_back(snapshot);
        }
    }

    fn look(&self, index: usize) -> NodeList {
        let joined = self.nodes.iter().zip(&self.joined).filter(|(_, joined)| **joined);
        NodeList { nodes: joined.map(|(node, _)| node.clone()).collect(), own: Ok(self.nodes[index].clone()) }
    }

    fn serve(&mut self, index: usize, call: Effect) -> Option<Event> {
        let node = self.nodes[index].clone();
        Some(match call {
            Effect::ListNodes { serial } => Event::NodesListed { serial, result: Ok(self.look(index)) },
            Effect::Probe { serial } => Event::Probed { serial, result: Ok(Some(node)) },
            Effect::Cordon { serial } => {
                let node = &mut self.nodes[index];
                (node.cordoned, node.cordoned_by) = (true, Some(OWNER.into()));
                Event::Cordoned { serial, result: Ok(Cordoned { node: node.clone(), before: false }) }
            }
            Effect::Uncordon { serial } => {
                let node = &mut self.nodes[index];
                (node.cordoned, node.cordoned_by) = (false, None);
                self.draining[index] = false;
                Event::Uncordoned { serial, result: Ok(()) }
            }
            Effect::ReadSlots { serial } => Event::Slots { serial, result: Ok(self.table.clone()) },
            Effect::WriteSlots { serial, based_on, node, entry } => {
                Event::Slots { serial, result: self.write(index, based_on.as_ref(), &node, entry) }
            }
            Effect::Drain(drain::Effect::Evict { attempt, pod, .. }) => {
                self.evict(index);
                Event::Drain(drain::Event::Answer { attempt, uid: pod.uid, answer: drain::Answer::Accepted })
            }
            Effect::Drain(drain::Effect::Relist { attempt, .. }) => {
                Event::Drain(drain::Event::Relisted { attempt, result: Ok(self.snapshot(index)) })
            }
            _ => return None,
        })
    }

    fn write(
        &mut self,
        index: usize,
        based_on: Option<&String>,
        node: &str,
        entry: Option<Holder>,
    ) -> Result<SlotTable, SlotError> {
        assert_eq!(node, self.nodes[index].name, "a node writes its own entry only");
        if based_on != self.table.version.as_ref() {
            return Err(SlotError::Conflict);
        }
        self.draining[index] &= entry.is_some();
        self.meddled[index] &= entry.is_none();
        self.table.put(node, entry);
        self.count_version();
        Ok(self.table.clone())
    }

    fn count_version(&mut self) {
        let version = self.table.version.as_ref().map_or(0, |version| version.parse::<u32>().unwrap()) + 1;
        self.table.version = Some(version.to_string());
    }

    /// Another party writes nonsense into the node's entry of the table.
    fn destroy(&mut self, index: usize) {
        let name = self.nodes[index].name.clone();
        self.table.put(&name, None);
        self.table.unreadable.push(name);
        self.meddled[index] = true;
        self.count_version();
    }

    /// The node, or an attacker with its credentials, writes that it has passed over all others.
    fn lie(&mut self, index: usize) {
        let others = self.table.holders.iter().filter(|holder| holder.node != self.nodes[index].name);
        let passed_over: Vec<PassedOver> = others
            .map(|holder| PassedOver {
                node: holder.node.clone(),
                node_uid: holder.node_uid.clone(),
                renewal: holder.renewal + 3,
            })
            .collect();
        let own = &self.nodes[index].name;
        let Some(holder) = self.table.holders.iter_mut().find(|holder| holder.node == *own) else {
            return;
        };
        for (index, node) in self.nodes.iter().enumerate() {
            self.meddled[index] |= passed_over.iter().any(|passed| passed.node == node.name);
        }
        holder.passed_over = passed_over;
        self.count_version();
    }

    /// An attacker with the node's credentials writes into its entry that the next node has the slot.
    fn forge(&mut self, index: usize) {
        let name = self.nodes[index].name.clone();
        let next = &self.nodes[(index + 1) % self.nodes.len()];
        let forged =
            Holder { node: name.clone(), node_uid: next.uid.clone(), renewal: 1, ..Holder::default() };
        self.table.put(&name, Some(forged));
        self.meddled[index] = true;
        self.count_version();
    }

    /// The moment that counts: a pod leaves a node.
    fn evict(&mut self, index: usize) {
        assert!(self.nodes[index].cordoned, "a pod left a node that takes pods");
        let is_held = self.table.held_by(&self.nodes[index]).is_some();
        // Until it renews, a holder does not know what was done to its entry.
        assert!(is_held || self.meddled[index], "a pod left without a slot");
        self.draining[index] = true;
        let draining = self.draining.iter().filter(|draining| **draining).count();
        assert!(draining <= usize::try_from(self.limit).unwrap(), "{draining} nodes drain at once");
        self.pods[index].clear();
    }

    fn snapshot(&self, index: usize) -> Arc<Snapshot> {
        let node = Some(self.nodes[index].clone());
        let attachments = drain::storage::Attachments::Listed(vec![]);
        let storage = drain::storage::Storage { attachments, ..Default::default() };
        Arc::new(Snapshot { node, pods: self.pods[index].clone(), storage, ..Snapshot::default() })
    }

    fn act(&mut self, index: usize, action: Action) {
        if !self.joined[index] && !matches!(action, Action::Join) {
            return;
        }
        match action {
            Action::Alone => self.run_alone(index, false),
            Action::CutOff => self.run_alone(index, true),
            Action::Join if self.joined[index] => {}
            Action::Join => {
                self.joined[index] = true;
                self.start(index);
            }
            Action::Ask(asks) => {
                self.devices[index].asks = asks;
                self.ask(index);
            }
            Action::Call => self.call(index, false),
            Action::LoseCall => self.call(index, true),
            Action::Answer => {
                if let Some(answer) = self.devices[index].answers.pop_front() {
                    self.send(index, answer);
                }
            }
            Action::LoseAnswer => {
                // The call times out: the caller does not know whether it was carried out.
                if let Some(answer) = self.devices[index].answers.pop_front() {
                    self.send(index, timed_out(answer));
                }
            }
            Action::Wake => {
                self.now = self.now.max(self.devices[index].wake.min(self.now + Duration::from_mins(1)));
                if self.devices[index].wake <= self.now {
                    self.send(index, Event::Tick);
                }
            }
            Action::Kill => self.restart(index, false),
            Action::Down => {
                self.nodes[index].ready = false;
                self.restart(index, true);
            }
            Action::Up => {
                (self.nodes[index].ready, self.nodes[index].boot_id) = (true, self.boot_id(index));
            }
            Action::Destroy => self.destroy(index),
            Action::Lie => self.lie(index),
            Action::Forge => self.forge(index),
            Action::Refill => self.pods[index] = vec![pod()],
        }
    }

    fn run_alone(&mut self, index: usize, is_cut_off: bool) {
        let call = if is_cut_off { Action::LoseCall } else { Action::Call };
        let until = self.now + Duration::from_mins(8);
        for _ in 0..400 {
            while !self.devices[index].calls.is_empty() || !self.devices[index].answers.is_empty() {
                self.act(index, call);
                self.act(index, Action::Answer);
            }
            if self.devices[index].wake > until {
                return;
            }
            self.act(index, Action::Wake);
        }
    }

    /// Calls in flight may still arrive: they are carried out, and their answers are lost.
    fn restart(&mut self, index: usize, is_boot: bool) {
        for call in std::mem::take(&mut self.devices[index].calls) {
            // An eviction in flight counts as well.
            self.serve(index, call);
        }
        self.devices[index].answers.clear();
        if is_boot {
            self.devices[index].boots += 1;
            self.devices[index].asks = false;
            let boot_id = self.boot_id(index);
            let others = self.devices[index].state.slots.others;
            self.devices[index].state = State::new(Member::Yes, boot_id, self.now).knowing(others);
            self.devices[index].recorded = record(&self.devices[index].state);
        } else {
            let (record, boot_id) = (self.devices[index].recorded.clone(), self.boot_id(index));
            self.devices[index].state = resume(record, Member::Yes, boot_id, self.now);
        }
        self.start(index);
    }

    fn boot_id(&self, index: usize) -> String {
        self.devices[index].boots.to_string()
    }

    /// From now on nothing fails: every call in flight arrives, and time passes.
    fn settle(&mut self) {
        for round in 0..1500 {
            // The watch reports what another party has written.
            for index in (0..NODES).filter(|_| round % 500 == 0) {
                if self.devices[index].state.wants_slot_watch() {
                    self.send(index, Event::SlotsChanged);
                }
            }
            let mut idle = true;
            for index in 0..NODES {
                if !self.devices[index].calls.is_empty() || !self.devices[index].answers.is_empty() {
                    idle = false;
                    self.act(index, Action::Call);
                    self.act(index, Action::Answer);
                }
            }
            if idle {
                let next = self.devices.iter().map(|device| device.wake).min().unwrap();
                self.now = self.now.max(next);
                for index in 0..NODES {
                    if self.devices[index].wake <= self.now {
                        self.send(index, Event::Tick);
                    }
                }
            }
        }
    }
}

fn pod() -> PodView {
    PodView { id: PodId { namespace: "a".into(), name: "p".into(), uid: "p".into() }, ..PodView::default() }
}

fn unreachable(call: Effect) -> Option<Event> {
    let call_error = || CallError::Unreachable("refused".into());
    let text = || "refused".to_owned();
    Some(match call {
        Effect::ListNodes { serial } => Event::NodesListed { serial, result: Err(call_error()) },
        Effect::Probe { serial } => Event::Probed { serial, result: Err(call_error()) },
        Effect::Cordon { serial } => Event::Cordoned { serial, result: Err(call_error()) },
        Effect::Uncordon { serial } => Event::Uncordoned { serial, result: Err(text()) },
        Effect::ReadSlots { serial } | Effect::WriteSlots { serial, .. } => {
            Event::Slots { serial, result: Err(SlotError::Failed(call_error())) }
        }
        Effect::Drain(drain::Effect::Evict { attempt, pod, .. }) => {
            let answer = drain::Answer::Throttled { after: None, text: text() };
            Event::Drain(drain::Event::Answer { attempt, uid: pod.uid, answer })
        }
        Effect::Drain(drain::Effect::Relist { attempt, .. }) => {
            Event::Drain(drain::Event::Relisted { attempt, result: Err(text()) })
        }
        _ => return None,
    })
}

fn timed_out(answer: Event) -> Event {
    let call_error = || CallError::Unreachable("no answer".into());
    match answer {
        Event::NodesListed { serial, .. } => Event::NodesListed { serial, result: Err(call_error()) },
        Event::Probed { serial, .. } => Event::Probed { serial, result: Err(call_error()) },
        Event::Cordoned { serial, .. } => Event::Cordoned { serial, result: Err(call_error()) },
        Event::Uncordoned { serial, .. } => Event::Uncordoned { serial, result: Err("no answer".into()) },
        Event::Slots { serial, .. } => Event::Slots { serial, result: Err(SlotError::Failed(call_error())) },
        other => other,
    }
}

fn any_action() -> impl Strategy<Value = (usize, Action)> {
    let action = prop_oneof![
        6 => any::<bool>().prop_map(Action::Ask),
        30 => Just(Action::Call),
        2 => Just(Action::LoseCall),
        30 => Just(Action::Answer),
        2 => Just(Action::LoseAnswer),
        20 => Just(Action::Wake),
        2 => Just(Action::Kill),
        1 => Just(Action::Down),
        2 => Just(Action::Up),
        2 => Just(Action::Refill),
        3 => Just(Action::Alone),
        2 => Just(Action::CutOff),
        1 => Just(Action::Join),
        1 => Just(Action::Destroy),
        1 => Just(Action::Lie),
        1 => Just(Action::Forge),
    ];
    (0..NODES, action)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_more_nodes_drain_than_may_and_all_come_back(
        limit in 1..3_u32,
        actions in prop::collection::vec(any_action(), 50..400),
    ) {
        let mut world = World::new(limit);
        for (index, action) in actions {
            world.act(index, action);
        }
        for index in 0..NODES {
            world.act(index, Action::Join);
            world.act(index, Action::Up);
            world.act(index, Action::Ask(false));
        }
        world.settle();
        for (index, node) in world.nodes.iter().enumerate() {
            prop_assert!(!node.cordoned, "the cordon of {} was left behind", index);
        }
        prop_assert_eq!((world.table.holders, world.table.unreadable), (vec![], vec![]));
    }

    #[test]
    fn all_who_ask_are_drained_one_after_the_other(limit in 1..3_u32) {
        let mut world = World::new(limit);
        for index in 0..NODES {
            world.act(index, Action::Join);
            world.act(index, Action::Ask(true));
        }
        for _ in 0..NODES {
            world.settle();
            for index in 0..NODES {
                // A node that is drained goes down and comes back.
                if matches!(world.devices[index].state.phase, Phase::Complete { outcome: Outcome::Drained, .. }) {
                    world.act(index, Action::Down);
                    world.act(index, Action::Up);
                }
            }
        }
        world.settle();
        let boots: Vec<u32> = world.devices.iter().map(|device| device.boots).collect();
        prop_assert_eq!(boots, vec![1; NODES]);
    }
}

/// The entry that passed over us is gone when we are back: too much time has passed to rely on our own entry.
#[test]
fn who_was_away_for_too_long_takes_its_slot_anew() {
    let mut world = World::new(1);
    world.act(0, Action::Ask(true));
    while world.table.of("n0").is_none() {
        world.act(0, Action::Answer);
        world.act(0, Action::Call);
    }
    world.act(1, Action::Ask(true));
    world.act(1, Action::Alone);
    assert!(world.draining[1] && world.table.held_by(&world.nodes[0]).is_none(), "n0 was passed over");
    world.act(1, Action::Destroy);
    assert!(world.table.held_by(&world.nodes[0]).is_some(), "no entry passes it over any more");
    world.act(0, Action::Alone);
    assert!(!world.draining[0] && !world.nodes[0].cordoned);
}
