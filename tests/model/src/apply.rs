//! Applies a step to the state of the model.

use std::sync::Arc;

use nodeagent::effect::Effect as NodeAgentEffect;
use schemas::OtherHolders;
use schemas::{DeviceActionState, DrainRequester, Operation};
use session::slots::SlotTable;

use crate::action::{Action, Agent, Party, Task};
use crate::baseos::BaseOs;
use crate::device_op::{DeviceOp, LOOK_MS};
use crate::files::Files;
use crate::monitor::requester_for;
use crate::nodeagent::Running;
use crate::scenario::{Mutation, Scenario};
use crate::server::{Ask, PEER, Service};
use crate::world::World;
use crate::zedkube::{Input, Todo};

/// If nothing has changed for this time, nothing ever will. Longer than any limit of a scenario.
const REST_MS: u64 = 150_000;

/// More steps than this without time moving on are an endless loop.
const MOST_STEPS: usize = 1_000;

/// Greatest number of steps of a random walk; it has some hundred steps between two deviations.
const MOST_STEPS_OF_A_WALK: u32 = 2_000;

/// If a run is not at rest after this many jumps of time, it never will be.
const MOST_JUMPS: usize = 500;

impl World {
    /// Applies one action.
    pub fn apply(&mut self, action: &Action, scenario: &Scenario) {
        self.steps += u32::from(scenario.counts_steps);
        if self.steps > MOST_STEPS_OF_A_WALK {
            return self.monitor.never_at_rest("the walk does not end");
        }
        match action {
            Action::Next => {
                if let Some((party, task)) = self.next_task(scenario) {
                    self.run(party, &task, scenario);
                }
            }
            Action::Other(deviation) => {
                self.left = self.left.saturating_sub(1);
                self.rest.is_settled = false;
                self.rest.since = self.now;
                self.deviate(deviation, scenario);
            }
        }
    }

    /// Runs on without further faults until everything is at rest and every order of the script was given. `is_known`
    /// can end the run earlier: it is called each time before time moves on.
    pub fn go_on(&mut self, scenario: &Scenario, mut is_known: impl FnMut(&Self) -> bool) {
        let (mut steps, mut jumps) = (0, 0);
        while let Some((party, task)) = self.next_task(scenario) {
            if self.monitor.violation.is_some() {
                return;
            }
            if task == Task::Jump || task == Task::Script {
                if is_known(self) {
                    return;
                }
                (steps, jumps) = (0, jumps + 1);
            }
            self.run(party, &task, scenario);
            steps += 1;
            if steps > MOST_STEPS {
                return self.monitor.never_at_rest("the parties never run out of steps");
            }
            if jumps > MOST_JUMPS {
                return self.monitor.never_at_rest("time moves on without end");
            }
        }
    }

    pub(crate) fn run(&mut self, party: Party, task: &Task, scenario: &Scenario) {
        self.turn = party;
        self.last = (party, true);
        let before = Arc::clone(&self.files);
        self.do_task(task, scenario);
        self.after(&before);
    }

    pub(crate) fn after(&mut self, before: &Arc<Files>) {
        if !Arc::ptr_eq(before, &self.files) {
            self.files_changed(before);
        }
        self.monitor.look(&self.server);
    }

    fn do_task(&mut self, task: &Task, scenario: &Scenario) {
        match task {
            Task::Effect(agent) => self.effect(*agent, scenario),
            Task::Take(input) => self.take(input, scenario),
            Task::Look(agent) => self.look(*agent, scenario),
            Task::End(agent) => self.end(*agent, true, scenario),
            Task::Serve(place) => self.serve(*place, Service::Well, scenario),
            Task::PodEnds => Arc::make_mut(&mut self.server).end_pod(),
            Task::Start(agent) => {
                self.start(*agent);
                if scenario.mutation == Some(Mutation::ForgetsHolders)
                    && let Some(zedkube) = self.zedkube.change()
                {
                    zedkube.state.slots.others = OtherHolders::Nobody;
                }
                self.zedkube_lock_changed(*agent);
            }
            Task::GoDown => {
                let cause = self.device.going_down;
                self.boots(cause, scenario);
            }
            Task::KubeletReports => {
                let boot_id = self.boot_id();
                Arc::make_mut(&mut self.server).change_own(|own| (own.ready, own.boot_id) = (true, boot_id));
            }
            Task::SayAgain => {
                self.device.is_unsaid = false;
                let files = Arc::make_mut(&mut self.files);
                files.run.commands = self.device.commands.clone();
                let config = self.device.config.clone();
                files.run.configs =
                    config.map(|config| (config.content_tree_uuid.clone(), config)).into_iter().collect();
            }
            Task::LeftRunningEnds => {
                if let Some(left) = self.device.left_running.take() {
                    self.device.next = left.version;
                }
            }
            Task::OutageEnds => {
                self.device.outage_until = None;
                Arc::make_mut(&mut self.server).is_reachable = true;
            }
            Task::PeerReturns => {
                self.device.peer_down_until = None;
                Arc::make_mut(&mut self.server).peer.ready = true;
            }
            Task::PeerGivesBack => {
                self.device.peer_slot_until = None;
                Arc::make_mut(&mut self.server).put_holder(PEER, None);
            }
            Task::Jump => self.jump(),
            Task::Script => {
                let order = scenario.script.get(self.ordered).copied();
                self.ordered += 1;
                self.rest.is_settled = false;
                self.rest.since = self.now;
                if let Some(order) = order {
                    self.order(order);
                }
            }
        }
    }

    fn take(&mut self, input: &Input, scenario: &Scenario) {
        let place = if let Input::Answer(place) = input { Some(*place) } else { None };
        self.note_answer(place);
        let files = Arc::make_mut(&mut self.files);
        if let Some(zedkube) = self.zedkube.change() {
            zedkube.take(input, files, &self.server, self.now, scenario);
        }
    }

    fn jump(&mut self) {
        let seen = self.seen();
        if seen != self.rest.seen {
            (self.rest.seen, self.rest.since) = (seen, self.now);
        }
        let next = self.next_moment();
        if let Some(next) = next.filter(|_| self.now - self.rest.since < REST_MS) {
            let is_away = !self.zedkube.is_up();
            self.monitor.time_passes(next - self.now, is_away);
            self.now = next;
            self.strays.clear();
            self.release_calls();
        } else {
            self.rest.is_settled = true;
            let files = Arc::clone(&self.files);
            self.monitor.at_rest(&files, &self.server, &self.device.running);
        }
        self.last.1 = true;
    }

    fn release_calls(&mut self) {
        let now = self.now;
        if self.zedkube.up().is_some_and(|zedkube| zedkube.calls.iter().any(|call| call.held_until.is_some()))
            && let Some(zedkube) = self.zedkube.change()
        {
            for call in &mut zedkube.calls {
                call.held_until = call.held_until.filter(|until| *until > now);
            }
        }
    }

    fn note_answer(&mut self, place: Option<usize>) {
        let call = place.and_then(|place| self.zedkube.up()?.calls.get(place));
        let answer = call.and_then(|call| call.answer.as_ref());
        if let Some(session::Event::NodesListed { result: Ok(look), .. }) = answer {
            self.monitor.listed(&look.nodes, self.now);
        }
        if let Some(session::Event::Slots { result: Ok(table), .. }) = answer {
            self.monitor.slots_read(table);
        }
        let is_reached = answer.and_then(is_reached);
        if let Some(is_reached) = is_reached {
            self.monitor.answered(is_reached, self.now);
        }
    }

    fn effect(&mut self, agent: Agent, scenario: &Scenario) {
        let files = Arc::make_mut(&mut self.files);
        match agent {
            Agent::Zedkube => self.effect_of_zedkube(scenario),
            Agent::DeviceOp => {
                if let Some(device_op) = self.device_op.change() {
                    self.last.1 = device_op.todo.front().is_some_and(is_visible);
                    self.device.requests_made += i64::from(device_op.perform(files, scenario));
                    if let Some(record) = &files.persist.operations {
                        self.monitor.said(record);
                    }
                }
            }
            Agent::BaseOs => {
                let is_acting =
                    files.run.action.as_ref().is_some_and(|action| action.state == DeviceActionState::Acting);
                if let Some(baseos) = self.baseos.change() {
                    if let Some(::baseos::effect::Effect::Activate { .. }) = baseos.todo.front() {
                        let is_second = baseos.command.is_some() || self.device.left_running.is_some();
                        self.monitor.activating(is_acting, is_second);
                    }
                    if let Some(::baseos::effect::Effect::EndLeftRunning) = baseos.todo.front() {
                        self.device.left_running = None;
                    }
                    self.last.1 = !matches!(baseos.todo.front(), Some(::baseos::effect::Effect::Record(_)));
                    self.device.requests_made += i64::from(baseos.perform(files, self.now, scenario));
                }
            }
            Agent::NodeAgent => self.effect_of_nodeagent(scenario),
        }
    }

    fn effect_of_zedkube(&mut self, scenario: &Scenario) {
        let files = Arc::make_mut(&mut self.files);
        let Some(zedkube) = self.zedkube.change() else { return };
        let next = zedkube.todo.front().cloned();
        let order = files.persist.order;
        zedkube.perform(files, &self.server, self.now, scenario, &mut self.strays);
        match next {
            Some(Todo::Report(report)) => {
                self.monitor.report_written(&report, &zedkube.state, self.now, scenario);
            }
            Some(Todo::Do(session::Effect::TakeOverride)) => {
                if let Some(order) = order {
                    self.monitor.order_taken(order);
                }
            }
            Some(Todo::Do(session::Effect::Record)) => {
                self.monitor.recorded(false);
                self.last.1 = false;
            }
            Some(Todo::Do(session::Effect::Publish) | Todo::Store(..)) => self.last.1 = false,
            Some(Todo::Do(_) | Todo::Status(_)) | None => {}
        }
    }

    fn effect_of_nodeagent(&mut self, scenario: &Scenario) {
        let files = Arc::make_mut(&mut self.files);
        let Some(nodeagent) = self.nodeagent.change() else { return };
        let next = nodeagent.todo.front().cloned();
        let was_acting =
            files.run.action.as_ref().is_some_and(|action| action.state == DeviceActionState::Acting);
        nodeagent.perform(files, self.now, scenario);
        match next {
            Some(NodeAgentEffect::Action(action)) => match action.state {
                DeviceActionState::Acting if !was_acting => {
                    let is_up = match requester_for(action.counter) {
                        DrainRequester::Update => self.baseos.is_up(),
                        DrainRequester::DeviceOp | DrainRequester::None | DrainRequester::Unset => {
                            self.device_op.is_up()
                        }
                    };
                    let (server, left) = (&self.server, self.left);
                    self.monitor.acting(action.command, action.counter, is_up, server, left);
                }
                DeviceActionState::Done if was_acting => {
                    self.monitor.shut_down(action.source, action.counter);
                }
                _ => {}
            },
            Some(NodeAgentEffect::Act { command, means: 0, .. }) => {
                let is_activating = self.device.left_running.is_some()
                    || self.baseos.up().is_some_and(|baseos| baseos.command.is_some());
                self.monitor.acts(is_activating);
                if command.operation != Operation::Shutdown {
                    self.device.going_down = Some(((command.source, command.operation), command.counter));
                }
            }
            Some(
                NodeAgentEffect::LeaveReason(_)
                | NodeAgentEffect::ForgetReason
                | NodeAgentEffect::Record(_)
                | NodeAgentEffect::ForgetRecord,
            ) => self.last.1 = false,
            Some(_) | None => {}
        }
    }

    fn look(&mut self, agent: Agent, scenario: &Scenario) {
        let boot_id = self.boot_id();
        let around = self.around(&boot_id, scenario);
        let asks = match agent {
            Agent::DeviceOp => self.device_op.up().is_some_and(DeviceOp::is_about_to_ask_the_gate),
            Agent::BaseOs => self.baseos.up().is_some_and(BaseOs::is_about_to_ask_the_gate),
            Agent::Zedkube | Agent::NodeAgent => false,
        };
        if let Some(requester) = agent.requester().filter(|_| asks) {
            self.monitor.gate_asked(requester, scenario);
        }
        match agent {
            Agent::DeviceOp => {
                if let Some(device_op) = self.device_op.change() {
                    device_op.look(&self.files, &around);
                }
            }
            Agent::BaseOs => {
                if let Some(baseos) = self.baseos.change() {
                    let left_running = self.device.left_running.as_ref().map(|left| left.until);
                    let is_blind = scenario.mutation == Some(Mutation::NoActivationLock);
                    let left_running = left_running.filter(|_| !is_blind);
                    baseos.look(&self.files, &self.device.running, left_running, &around);
                }
            }
            Agent::NodeAgent => {
                let up = Running {
                    zedkube: self.zedkube.is_up(),
                    device_op: self.device_op.is_up(),
                    baseos: self.baseos.is_up(),
                    activation: self.is_activating() && scenario.mutation != Some(Mutation::NoActivationLock),
                };
                if self.nodeagent.up().is_some_and(|nodeagent| !nodeagent.is_looking()) {
                    self.monitor.nodeagent_looks();
                }
                if let Some(nodeagent) = self.nodeagent.change() {
                    nodeagent.look(&self.files, up, self.now, scenario);
                }
            }
            Agent::Zedkube => {}
        }
    }

    pub(crate) fn end(&mut self, agent: Agent, works: bool, scenario: &Scenario) {
        let boot_id = self.boot_id();
        let around = self.around(&boot_id, scenario);
        match agent {
            Agent::BaseOs => {
                if let Some(version) = self.baseos.change().and_then(|baseos| baseos.end(works, &around)) {
                    self.device.next = version;
                }
            }
            Agent::NodeAgent => {
                if let Some(nodeagent) = self.nodeagent.change() {
                    nodeagent.end(self.now, scenario);
                }
            }
            Agent::Zedkube | Agent::DeviceOp => {}
        }
    }

    pub(crate) fn serve(&mut self, place: usize, service: Service, scenario: &Scenario) {
        let Some(zedkube) = self.zedkube.change() else { return };
        let Some(call) = zedkube.calls.get_mut(place) else { return };
        let server = Arc::make_mut(&mut self.server);
        let takes_effect = server.is_reachable && service != Service::Refused;
        if takes_effect && matches!(call.ask, Ask::Evict(_)) {
            self.monitor.evicts(server);
        }
        if call.ask == Ask::Uncordon && scenario.mutation == Some(Mutation::UncordonsAll) {
            server.own.cordoned_by = Some(session::OWNER.to_owned());
        }
        call.answer = Some(match &call.ask {
            Ask::WriteSlots { based_on, entry } if scenario.mutation == Some(Mutation::ImaginedSlots) => {
                let holders = entry.iter().cloned().collect();
                let table = SlotTable { version: based_on.clone(), holders, ..SlotTable::default() };
                session::Event::Slots { serial: call.serial, result: Ok(table) }
            }
            ask => server.serve(ask, call.serial, service),
        });
    }

    /// Wakes the agents that wait for zedkube, because they poll its lock.
    pub(crate) fn zedkube_lock_changed(&mut self, agent: Agent) {
        if agent != Agent::Zedkube {
            return;
        }
        let at = self.now + LOOK_MS;
        let sooner = |wake: Option<u64>| Some(wake.map_or(at, |wake| wake.min(at)));
        if let Some(device_op) = self.device_op.change()
            && device_op.listens_to_gate()
        {
            device_op.wake = sooner(device_op.wake);
        }
        if let Some(baseos) = self.baseos.change()
            && baseos.listens_to_gate()
        {
            baseos.wake = sooner(baseos.wake);
        }
    }
}

/// True if the API server was reached; `None` for events that do not show it.
fn is_reached(event: &session::Event) -> Option<bool> {
    use session::Event;
    use session::event::CallError;
    let call_error = match event {
        Event::NodesListed { result, .. } => result.as_ref().err(),
        Event::Probed { result, .. } => result.as_ref().err(),
        Event::Cordoned { result, .. } => result.as_ref().err(),
        _ => return None,
    };
    Some(!matches!(call_error, Some(CallError::Unreachable(_))))
}

fn is_visible(effect: &::device_op::effect::Effect) -> bool {
    use ::device_op::effect::Effect;
    !matches!(effect, Effect::Record(_) | Effect::Counter(..) | Effect::WakeAt(_))
}
