//! The scheduler: the steps that are possible now, which party goes first, and the possible deviations.

use schemas::Operation;

use crate::action::{Action, Agent, Deviation, Party, Task};
use crate::baseos::BaseOs;
use crate::nodeagent::{Beside, NodeAgent};
use crate::scenario::{Kind, Order, Scenario};
use crate::server::PEER;
use crate::world::World;
use crate::zedkube::{Call, Input};

/// After this time without a change no deviation is tried any more: everything is as at the start.
const QUIET_MS: u64 = 12_000;

/// Greatest number of pods that come back.
const MOST_PODS: usize = 3;

impl World {
    /// All steps that are possible now, by party.
    pub fn enabled(&self, scenario: &Scenario) -> Vec<(Party, Task)> {
        let mut tasks = Vec::new();
        for party in Party::ALL {
            tasks.extend(self.tasks_of(party, scenario).into_iter().map(|task| (party, task)));
        }
        tasks
    }

    /// The next step of a machine without faults and delays; `None` when the run is over.
    pub fn next_task(&self, scenario: &Scenario) -> Option<(Party, Task)> {
        let first = Party::ALL.iter().position(|party| *party == self.turn).unwrap_or_default();
        let turns = Party::ALL.into_iter().cycle().skip(first).take(Party::ALL.len());
        let mut work = turns.flat_map(|party| {
            self.tasks_of(party, scenario).into_iter().take(1).map(move |task| (party, task))
        });
        work.next().or_else(|| {
            if self.rest.is_settled {
                (self.ordered < scenario.script.len()).then_some((Party::Device, Task::Script))
            } else {
                Some((self.turn, Task::Jump))
            }
        })
    }

    fn tasks_of(&self, party: Party, scenario: &Scenario) -> Vec<Task> {
        match party {
            Party::Device => self.of_device(),
            Party::Zedkube => self.of_zedkube(scenario),
            Party::Server => self.of_server(),
            Party::DeviceOp => self.of_device_op(),
            Party::BaseOs => self.of_baseos(),
            Party::NodeAgent => self.of_nodeagent(),
            Party::Init => self.of_init(),
        }
    }

    fn of_device(&self) -> Vec<Task> {
        let is_due = |until: Option<u64>| until.is_some_and(|until| until <= self.now);
        let device = &self.device;
        let all = [
            (device.going_down.is_some(), Task::GoDown),
            (!self.server.own.ready && self.server.is_reachable, Task::KubeletReports),
            (is_due(device.left_running.as_ref().map(|left| left.until)), Task::LeftRunningEnds),
            (is_due(device.outage_until), Task::OutageEnds),
            (is_due(device.peer_down_until), Task::PeerReturns),
            (is_due(device.peer_slot_until), Task::PeerGivesBack),
        ];
        all.into_iter().filter(|(is_enabled, _)| *is_enabled).map(|(_, task)| task).collect()
    }

    fn of_zedkube(&self, scenario: &Scenario) -> Vec<Task> {
        let Some(zedkube) = self.zedkube.up() else { return Vec::new() };
        if !zedkube.todo.is_empty() {
            return vec![Task::Effect(Agent::Zedkube)];
        }
        let inputs = zedkube.inputs(&self.files, &self.server, self.now, scenario);
        inputs.into_iter().map(Task::Take).collect()
    }

    fn of_server(&self) -> Vec<Task> {
        let calls = self.zedkube.up().map(|zedkube| zedkube.calls.as_slice()).unwrap_or_default();
        let mut has_write = false;
        let mut tasks = Vec::new();
        for (place, call) in calls.iter().enumerate() {
            // Writes to our node are sent one after the other.
            let is_first = !(call.ask.is_node_write() && std::mem::replace(&mut has_write, true));
            if is_first && call.answer.is_none() && call.held_until.is_none_or(|until| until <= self.now) {
                tasks.push(Task::Serve(place));
            }
        }
        if self.server.pods.iter().any(|pod| pod.terminating.is_some()) {
            tasks.push(Task::PodEnds);
        }
        tasks
    }

    fn of_device_op(&self) -> Vec<Task> {
        let Some(device_op) = self.device_op.up() else { return Vec::new() };
        if !device_op.todo.is_empty() {
            return vec![Task::Effect(Agent::DeviceOp)];
        }
        if device_op.is_due(self.now) { vec![Task::Look(Agent::DeviceOp)] } else { Vec::new() }
    }

    fn of_baseos(&self) -> Vec<Task> {
        let Some(baseos) = self.baseos.up() else { return Vec::new() };
        if !baseos.todo.is_empty() {
            return vec![Task::Effect(Agent::BaseOs)];
        }
        let mut tasks = Vec::new();
        if baseos.is_due(self.now) {
            tasks.push(Task::Look(Agent::BaseOs));
        }
        if baseos.can_end(self.now) {
            tasks.push(Task::End(Agent::BaseOs));
        }
        tasks
    }

    fn of_nodeagent(&self) -> Vec<Task> {
        let Some(nodeagent) = self.nodeagent.up() else { return Vec::new() };
        if !nodeagent.todo.is_empty() {
            return vec![Task::Effect(Agent::NodeAgent)];
        }
        let mut tasks = Vec::new();
        if nodeagent.is_due(self.now) {
            tasks.push(Task::Look(Agent::NodeAgent));
        }
        if nodeagent.can_end(self.now) {
            tasks.push(Task::End(Agent::NodeAgent));
        }
        tasks
    }

    fn of_init(&self) -> Vec<Task> {
        let starts =
            Agent::ALL.into_iter().filter(|agent| self.starts_at(*agent).is_some_and(|at| at <= self.now));
        let again = self.device.is_unsaid.then_some(Task::SayAgain);
        starts.map(Task::Start).chain(again).collect()
    }

    /// When the agent starts; `None` if it runs.
    pub(crate) fn starts_at(&self, agent: Agent) -> Option<u64> {
        use crate::world::Life;
        let down = |until: &u64| Some(*until);
        match agent {
            Agent::Zedkube => match &self.zedkube {
                Life::Down { until } => down(until),
                Life::Up(_) => None,
            },
            Agent::DeviceOp => match &self.device_op {
                Life::Down { until } => down(until),
                Life::Up(_) => None,
            },
            Agent::BaseOs => match &self.baseos {
                Life::Down { until } => down(until),
                Life::Up(_) => None,
            },
            Agent::NodeAgent => match &self.nodeagent {
                Life::Down { until } => down(until),
                Life::Up(_) => None,
            },
        }
    }

    /// The next time at which a party wants to wake up.
    pub(crate) fn next_moment(&self) -> Option<u64> {
        let device = &self.device;
        let calls = self.zedkube.up().map(|zedkube| zedkube.calls.as_slice()).unwrap_or_default();
        let wakes = [
            self.zedkube.up().and_then(|zedkube| zedkube.wake),
            self.device_op.up().and_then(|device_op| device_op.wake),
            self.baseos.up().and_then(|baseos| baseos.wake),
            self.nodeagent.up().and_then(|nodeagent| nodeagent.wake),
            self.nodeagent.up().and_then(NodeAgent::ends_at),
            self.baseos.up().and_then(BaseOs::ends_at),
            device.left_running.as_ref().map(|left| left.until),
            device.outage_until,
            device.peer_down_until,
            device.peer_slot_until,
        ];
        let starts = Agent::ALL.into_iter().filter_map(|agent| self.starts_at(agent));
        let held = calls.iter().filter_map(|call| call.held_until);
        wakes.into_iter().flatten().chain(starts).chain(held).filter(|at| *at > self.now).min()
    }

    /// The possible transitions: the normal one, and the deviations as long as any are left.
    pub fn actions(&self, scenario: &Scenario) -> Vec<Action> {
        let Some((_, next)) = self.next_task(scenario) else { return Vec::new() };
        let mut actions = vec![Action::Next];
        if self.left == 0 || self.monitor.violation.is_some() || self.is_quiet() {
            return actions;
        }
        let mut others = Vec::new();
        self.turns(&next, scenario, &mut others);
        self.crashes(&mut others);
        self.calls(&next, &mut others);
        self.surroundings(&next, &mut others);
        let is_allowed =
            |deviation: &Deviation| kind(deviation).is_none_or(|kind| scenario.kinds.contains(&kind));
        others.retain(is_allowed);
        let orders = scenario.orders.iter().copied().filter(|order| self.last.1 && self.can_order(*order));
        others.extend(orders.map(Deviation::Order));
        actions.extend(others.into_iter().map(Action::Other));
        actions
    }

    fn is_quiet(&self) -> bool {
        self.now - self.rest.since > QUIET_MS
    }

    /// Adds the deviations in which another party goes first. After a step that no other party can see, these would
    /// change nothing.
    fn turns(&self, next: &Task, scenario: &Scenario, others: &mut Vec<Deviation>) {
        if !self.last.1 {
            return;
        }
        let enabled = self.enabled(scenario).into_iter().map(|(_, task)| task).filter(|task| task != next);
        others.extend(enabled.map(Deviation::Turn));
        if *next != Task::Jump && *next != Task::Script && self.next_moment().is_some() {
            others.push(Deviation::Turn(Task::Jump));
        }
    }

    /// Adds the crash of an agent, only after a step of its own: later it would make no difference, except for its
    /// lock.
    fn crashes(&self, others: &mut Vec<Deviation>) {
        for agent in Agent::ALL.into_iter().filter(|agent| self.starts_at(*agent).is_none()) {
            if self.last.0 == Party::of(agent) {
                others.push(Deviation::Crash(agent));
                others.push(Deviation::LongCrash(agent));
            }
            let has_effect = match agent {
                Agent::Zedkube => false,
                Agent::DeviceOp => self.device_op.up().is_some_and(|device_op| !device_op.todo.is_empty()),
                Agent::BaseOs => self.baseos.up().is_some_and(|baseos| !baseos.todo.is_empty()),
                Agent::NodeAgent => self.nodeagent.up().is_some_and(|nodeagent| !nodeagent.todo.is_empty()),
            };
            if has_effect && self.next_is_of(agent) {
                others.push(Deviation::WriteFails(agent));
            }
        }
        let is_of_agent = Agent::ALL.into_iter().any(|agent| self.last.0 == Party::of(agent));
        if is_of_agent || self.last.0 == Party::Server {
            others.push(Deviation::PowerCut);
        }
    }

    fn next_is_of(&self, agent: Agent) -> bool {
        self.turn == Party::of(agent)
    }

    /// Adds the deviations of the call that is to be carried out, or whose answer is to be read, next.
    fn calls(&self, next: &Task, others: &mut Vec<Deviation>) {
        match next {
            Task::Serve(place) => {
                let place = *place;
                others.extend([Deviation::Late(place), Deviation::Refused(place)]);
                let calls = self.zedkube.up().map(|zedkube| zedkube.calls.as_slice()).unwrap_or_default();
                // A lost read is the same as a failed one, which the outage covers.
                if calls.get(place).is_some_and(|call: &Call| call.ask.is_write()) {
                    others.push(Deviation::Lost(place));
                }
            }
            Task::Take(Input::Answer(place)) => others.push(Deviation::Late(*place)),
            _ => {}
        }
        if self.last.1 {
            others.extend((0..self.strays.len()).map(Deviation::Stray));
        }
    }

    /// Adds the deviations of the cluster and the device.
    fn surroundings(&self, next: &Task, others: &mut Vec<Deviation>) {
        if matches!(next, Task::Serve(_)) && self.server.is_reachable {
            others.extend([Kind::Outage, Kind::LongOutage].map(Deviation::Outage));
        }
        if self.last.1 && self.server.is_reachable && self.device.pods_made < MOST_PODS {
            others.push(Deviation::PodReturns);
        }
        let has_room = self.server.slots.holders.is_empty();
        if matches!(next, Task::Serve(_)) && has_room {
            others.push(Deviation::PeerTakesSlot);
        }
        if matches!(next, Task::Serve(_)) && self.server.peer.ready && self.server.slots.of(PEER).is_none() {
            others.push(Deviation::PeerDown);
        }
        let running = self.nodeagent.up().and_then(|nodeagent| nodeagent.running.as_ref());
        if matches!(running, Some(Beside::Means { number: 0, fails: false, .. }))
            && self.last.0 == Party::NodeAgent
        {
            others.push(Deviation::MeansFail);
        }
        if *next == Task::End(Agent::BaseOs) {
            others.push(Deviation::ActivationFails);
        }
    }

    fn can_order(&self, order: Order) -> bool {
        let commands = &self.files.run.commands;
        let is_commanded = |operation: Operation| {
            commands.get(&(order.source(), operation)).is_some_and(|command| command.desired_state)
        };
        match order {
            // The controller first publishes what it published before.
            _ if self.device.is_unsaid => false,
            Order::Command(operation) | Order::PersonCommands(operation) => !is_commanded(operation),
            Order::TakeBack(operation) | Order::Remove(operation) | Order::PersonTakesBack(operation) => {
                is_commanded(operation)
            }
            Order::Activate => !self.device.config.as_ref().is_some_and(|config| config.activate),
            Order::Revert | Order::Retry => self.device.config.as_ref().is_some_and(|config| config.activate),
            Order::Override(_) => self.files.persist.order.is_none(),
            Order::CordonByHand => !self.server.own.cordoned && self.server.own.cordoned_by.is_none(),
            Order::UncordonByHand => self.server.own.cordoned,
        }
    }
}

const fn kind(deviation: &Deviation) -> Option<Kind> {
    Some(match deviation {
        Deviation::Turn(_) => Kind::Turn,
        Deviation::Crash(_) => Kind::Crash,
        Deviation::LongCrash(_) => Kind::LongCrash,
        Deviation::WriteFails(_) => Kind::WriteFails,
        Deviation::PowerCut => Kind::PowerCut,
        Deviation::Late(_) => Kind::Late,
        Deviation::Lost(_) => Kind::Lost,
        Deviation::Refused(_) => Kind::Refused,
        Deviation::Stray(_) => Kind::Stray,
        Deviation::Outage(kind) => *kind,
        Deviation::PodReturns => Kind::PodReturns,
        Deviation::PeerTakesSlot => Kind::PeerTakesSlot,
        Deviation::PeerDown => Kind::PeerDown,
        Deviation::MeansFail => Kind::MeansFail,
        Deviation::ActivationFails => Kind::ActivationFails,
        Deviation::Order(_) => return None,
    })
}
