//! Several nodes, one Lease: whatever is killed, cut off or delayed, no more of them drain at once than may.

use std::collections::VecDeque;

use drain::view::{NodeView, Picture, PodId, PodView};
use proptest::prelude::*;

use super::*;
use crate::event::{Cordoned, Look, Trouble};
use crate::leasing::SlotTrouble;
use crate::membership::Facts;
use crate::record::{Record, resume};
use crate::slots::Lease;
use crate::state::OWNER;

const NODES: usize = 3;

/// One device.
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
    /// Others had a slot: in the Lease, and by their marks in the list of nodes, as the server answered last.
    others: (bool, bool),
}

/// The API server and the devices.
struct World {
    now: Moment,
    limit: u32,
    lease: Lease,
    nodes: Vec<NodeView>,
    pods: Vec<Vec<PodView>>,
    devices: Vec<Device>,
    /// The Node objects that there are.
    joined: Vec<bool>,
    /// Since its first eviction, until its slot is back.
    draining: Vec<bool>,
}

/// What may happen to a device.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Somebody asks it to reboot, or does no more.
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
    /// It comes up again, as another boot.
    Up,
    /// Its pods have come back.
    Refill,
    /// It runs alone for some minutes: all others are frozen.
    Alone,
    /// The same, and no call of it reaches the server.
    CutOff,
    /// Its Node object is made; before, nobody knows it.
    Join,
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
            lease: Lease::default(),
            nodes: (0..NODES).map(node).collect(),
            pods: (0..NODES).map(|_| vec![pod()]).collect(),
            devices: (0..NODES).map(device).collect(),
            joined: vec![true, true, false],
            draining: vec![false; NODES],
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
            requester: Requester::DeviceOp,
            context: "reboot".into(),
            requested_at: self.devices[index].boots.to_string(),
            publisher: "zedagent".into(),
            answer: Answer::None,
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
            Event::Slots { result: Ok(lease), .. } => {
                device.others.0 = lease.holders.iter().any(|holder| holder.node_uid != uid);
            }
            Event::Looked { result: Ok(look), .. } => {
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
        if !lost && self.devices[index].state.wants_picture() {
            let picture = Event::Picture(self.picture(index));
            self.devices[index].answers.push_back(picture);
        }
    }

    fn look(&self, index: usize) -> Look {
        let joined = self.nodes.iter().zip(&self.joined).filter(|(_, joined)| **joined);
        Look { nodes: joined.map(|(node, _)| node.clone()).collect(), own: Ok(self.nodes[index].clone()) }
    }

    fn serve(&mut self, index: usize, call: Effect) -> Option<Event> {
        let node = self.nodes[index].clone();
        Some(match call {
            Effect::Look { serial } => Event::Looked { serial, result: Ok(self.look(index)) },
            Effect::Probe { serial } => Event::Probed { serial, result: Ok(Some(node)) },
            Effect::Cordon { serial } => {
                let node = &mut self.nodes[index];
                (node.cordoned, node.cordoned_by) = (true, Some(OWNER.into()));
                Event::Cordoned { serial, result: Ok(Cordoned { node: node.clone(), before: false }) }
            }
            Effect::Uncordon { serial } => {
                let node = &mut self.nodes[index];
                (node.cordoned, node.cordoned_by) = (false, None);
                Event::Uncordoned { serial, result: Ok(()) }
            }
            Effect::ReadSlots { serial } => Event::Slots { serial, result: Ok(self.lease.clone()) },
            Effect::WriteSlots { serial, based_on, holders } => {
                Event::Slots { serial, result: self.write(based_on, holders) }
            }
            Effect::Drain(drain::Effect::Evict { attempt, pod, .. }) => {
                self.evict(index);
                Event::Answer { attempt, uid: pod.uid, answer: drain::Answer::Accepted }
            }
            Effect::Drain(drain::Effect::Prove { attempt, .. }) => {
                Event::Proof { attempt, look: Ok(self.picture(index)) }
            }
            _ => return None,
        })
    }

    fn write(
        &mut self,
        based_on: Option<String>,
        holders: Vec<crate::slots::Holder>,
    ) -> Result<Lease, SlotTrouble> {
        if based_on != self.lease.version {
            return Err(SlotTrouble::Conflict);
        }
        let version = based_on.map_or(0, |version| version.parse::<u32>().unwrap()) + 1;
        self.lease = Lease { version: Some(version.to_string()), holders };
        for (index, node) in self.nodes.iter().enumerate() {
            self.draining[index] &= self.lease.of(&node.uid).is_some();
        }
        Ok(self.lease.clone())
    }

    /// The moment that counts: a pod leaves a node.
    fn evict(&mut self, index: usize) {
        assert!(self.nodes[index].cordoned, "a pod left a node that takes pods");
        assert!(self.lease.of(&self.nodes[index].uid).is_some(), "a pod left without a slot");
        self.draining[index] = true;
        let draining = self.draining.iter().filter(|draining| **draining).count();
        assert!(draining <= usize::try_from(self.limit).unwrap(), "{draining} nodes drain at once");
        self.pods[index].clear();
    }

    fn picture(&self, index: usize) -> Arc<Picture> {
        let node = Some(self.nodes[index].clone());
        Arc::new(Picture { node, pods: self.pods[index].clone(), ..Picture::default() })
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
                // The call times out: nobody knows whether it was carried out.
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

    /// Calls that were on their way may still arrive: they are carried out, and nobody hears of it.
    fn restart(&mut self, index: usize, is_boot: bool) {
        for call in std::mem::take(&mut self.devices[index].calls) {
            // An eviction that is on its way counts as well.
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

    /// Nothing goes wrong any more: everything that is on its way arrives, and time passes.
    fn settle(&mut self) {
        for _ in 0..1500 {
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
    let trouble = || Trouble::Unreachable("refused".into());
    let text = || "refused".to_owned();
    Some(match call {
        Effect::Look { serial } => Event::Looked { serial, result: Err(trouble()) },
        Effect::Probe { serial } => Event::Probed { serial, result: Err(trouble()) },
        Effect::Cordon { serial } => Event::Cordoned { serial, result: Err(trouble()) },
        Effect::Uncordon { serial } => Event::Uncordoned { serial, result: Err(text()) },
        Effect::ReadSlots { serial } | Effect::WriteSlots { serial, .. } => {
            Event::Slots { serial, result: Err(SlotTrouble::Failed(trouble())) }
        }
        Effect::Drain(drain::Effect::Evict { attempt, pod, .. }) => {
            let answer = drain::Answer::Throttled { after: None, text: text() };
            Event::Answer { attempt, uid: pod.uid, answer }
        }
        Effect::Drain(drain::Effect::Prove { attempt, .. }) => Event::Proof { attempt, look: Err(text()) },
        _ => return None,
    })
}

fn timed_out(answer: Event) -> Event {
    let trouble = || Trouble::Unreachable("no answer".into());
    match answer {
        Event::Looked { serial, .. } => Event::Looked { serial, result: Err(trouble()) },
        Event::Probed { serial, .. } => Event::Probed { serial, result: Err(trouble()) },
        Event::Cordoned { serial, .. } => Event::Cordoned { serial, result: Err(trouble()) },
        Event::Uncordoned { serial, .. } => Event::Uncordoned { serial, result: Err("no answer".into()) },
        Event::Slots { serial, .. } => Event::Slots { serial, result: Err(SlotTrouble::Failed(trouble())) },
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
        prop_assert_eq!(world.lease.holders, vec![]);
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
                // Who is drained goes down and comes back.
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
