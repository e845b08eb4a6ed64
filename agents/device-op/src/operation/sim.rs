//! A small device around the machine: its files, zedkube's answer, nodeagent. Effects are done at once; each is
//! checked against what must already be true when it is done.

use std::collections::BTreeMap;
use std::time::Duration;

use runtime::requester::Listen;
use runtime::testing::{SimAgent, SimFaults, SimRecord, SimZedkube};
use schemas::{DeviceOpStatus, DeviceOpsCmd, DrainRequester, DrainStatus, GoTime, Operation};

use super::*;
use crate::facts::{Commanded, Recorded};

pub(super) const RETRY_MS: u64 = 30 * 60 * 1000;

#[derive(Debug, Clone)]
pub(super) struct Sim {
    pub(super) state: State,
    pub(super) now_ms: u64,
    pub(super) policy: Policy,
    pub(super) commands: BTreeMap<Operation, Commanded>,
    pub(super) counters: BTreeMap<Operation, Recorded>,
    pub(super) record: SimRecord<OperationRecord>,
    pub(super) shown: DeviceOpStatus,
    pub(super) command: Option<(Operation, String)>,
    pub(super) zedkube: SimZedkube<Operation>,
    /// The report cuts the pause after a failed drain short.
    pub(super) needs_no_pause: bool,
    pub(super) nodeagent: NodeAgentView,
    pub(super) refused: Vec<String>,
    pub(super) done: Vec<String>,
    pub(super) faults: SimFaults,
    /// The gate said proceed in the look of the present step.
    proceeded: bool,
    /// nodeagent as that look saw it.
    looked_at: NodeAgentView,
    /// How nodeagent, played by [`Sim::nodeagent_turn`], goes on.
    pub(super) plan: Plan,
}

impl Sim {
    /// A member of a cluster, all counters recorded as 1, nobody commands anything.
    pub(super) fn new() -> Self {
        let retry = Retry::After(Duration::from_millis(RETRY_MS));
        let policy = Policy { retry, boot_id: "boot-1".to_owned() };
        let all = |value: Recorded| Operation::ALL.into_iter().map(|operation| (operation, value)).collect();
        let mut sim = Self {
            state: State::resume(None, DeviceOpStatus::default(), None, "boot-1"),
            now_ms: 1_000_000,
            policy,
            commands: Operation::ALL.into_iter().map(|operation| (operation, Commanded::Absent)).collect(),
            counters: all(Recorded::Counter(1)),
            record: SimRecord::none(),
            shown: DeviceOpStatus::default(),
            command: None,
            zedkube: SimZedkube::new(DrainRequester::DeviceOp),
            needs_no_pause: false,
            nodeagent: NodeAgentView { is_running: true, action: Some(DeviceAction::default()) },
            refused: Vec::new(),
            done: Vec::new(),
            faults: SimFaults::default(),
            proceeded: false,
            looked_at: NodeAgentView { is_running: true, action: None },
            plan: Plan::Look,
        };
        sim.run();
        sim.done.clear();
        sim
    }

    pub(super) fn give(&mut self, operation: Operation, counter: u32) {
        self.say(operation, counter, true);
    }

    pub(super) fn say(&mut self, operation: Operation, counter: u32, desired_state: bool) {
        let command = DeviceOpsCmd { counter, desired_state, ops_time: "then".to_owned() };
        self.commands.insert(operation, Commanded::Given(command));
        self.run();
    }

    pub(super) fn remove(&mut self, operation: Operation) {
        self.commands.insert(operation, Commanded::Absent);
        self.run();
    }

    /// zedkube answers the request that stands.
    pub(super) fn answer(&mut self, status: DrainStatus) {
        self.zedkube.answer(status);
        self.run();
    }

    /// nodeagent says so about the operation that it was handed, or was handed last.
    pub(super) fn nodeagent(&mut self, state: DeviceActionState) {
        let current = self.state.record.current().copied();
        self.nodeagent_about(state, current);
    }

    /// The same without a look of device-op.
    pub(super) fn nodeagent_ends(&mut self, state: DeviceActionState) {
        let current = self.state.record.current().copied();
        let about = current.map(|current| (current.operation, current.counter));
        self.write_action(state, about);
    }

    pub(super) fn nodeagent_about(&mut self, state: DeviceActionState, current: Option<Accepted>) {
        self.nodeagent.action = Some(DeviceAction {
            command: current.map(|current| current.operation),
            counter: current.map_or(0, |current| current.counter),
            state,
            error: if state == DeviceActionState::Failed { "no means".to_owned() } else { String::new() },
            ..DeviceAction::default()
        });
        self.run();
    }

    pub(super) fn sleep(&mut self, millis: u64) {
        self.now_ms += millis;
        self.run();
    }

    fn resumed(&self) -> State {
        let (record, command) = (self.record.memory.clone(), self.command.clone());
        State::resume(record, self.shown.clone(), command, &self.policy.boot_id)
    }

    /// The device goes down and comes up again: `/run` is empty.
    pub(super) fn boot(&mut self, boot_id: &str) {
        self.power_cycle(boot_id);
        self.run();
    }

    /// The same, before device-op's first look.
    pub(super) fn power_cycle(&mut self, boot_id: &str) {
        self.policy.boot_id = boot_id.to_owned();
        (self.zedkube.request, self.command, self.zedkube.answer) = (None, None, None);
        self.shown = DeviceOpStatus::default();
        self.nodeagent.action = Some(DeviceAction::default());
        self.commands.values_mut().for_each(|command| *command = Commanded::Absent);
        self.reload();
    }

    /// One look, one step, while nodeagent does something wherever `nodeagent` says so.
    pub(super) fn turn_beside(&mut self, nodeagent: &mut impl Iterator<Item = bool>) -> bool {
        let facts = self.look();
        let (next, effects) = step(self.state.clone(), &facts, self.now_ms, &self.policy);
        for effect in &effects {
            if nodeagent.next().unwrap_or(false) {
                self.nodeagent_turn();
            }
            if self.faults.next_fails(matches!(effect, Effect::Record(_))) {
                self.fail(effect);
                return true;
            }
            self.perform(effect);
        }
        self.state = next;
        effects.iter().any(|effect| !matches!(effect, Effect::WakeAt(_)))
    }

    fn fail(&mut self, effect: &Effect) {
        if self.faults.when_done {
            let (memory, own) = (self.record.memory.clone(), self.zedkube.own);
            self.perform(effect);
            self.record.memory = memory;
            if matches!(effect, Effect::Withdraw) {
                self.zedkube.own = own;
            }
        } else if let Effect::Request { own, .. } = effect {
            self.zedkube.own = Some(*own);
        }
        self.state = self.resumed();
    }

    /// The command that stands by the files: ZedAgentStatus and DeviceOpStatus agree.
    fn standing(&self) -> Option<(Operation, u32)> {
        let (operation, _) = self.command.as_ref()?;
        let is_handed_over = self.shown.state == schemas::DeviceOpState::HandedOver
            && self.shown.operation == Some(*operation);
        is_handed_over.then_some((*operation, self.shown.counter))
    }

    fn write_action(&mut self, state: DeviceActionState, about: Option<(Operation, u32)>) {
        self.nodeagent.action = Some(DeviceAction {
            command: about.map(|(operation, _)| operation),
            counter: about.map_or(0, |(_, counter)| counter),
            state,
            ..DeviceAction::default()
        });
    }

    fn look(&mut self) -> Facts {
        let gate = (self.state.listen() == Listen::ToGate).then(|| self.zedkube.gate());
        self.proceeded = gate.as_ref().is_some_and(Gate::is_open);
        self.looked_at = self.nodeagent.clone();
        Facts {
            commands: self.commands.clone(),
            counters: self.counters.clone(),
            gate,
            needs_no_pause: self.needs_no_pause && self.state.listen() == Listen::ToReport,
            own: self.zedkube.own,
            next: self.zedkube.next_request(),
            nodeagent: self.nodeagent.clone(),
            refused: self.refused.clone(),
            wall: time(0),
        }
    }

    /// Does one effect, and checks what must be true before it.
    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::ClearCommand => {
                self.command = None;
                self.done.push("clear".to_owned());
            }
            Effect::Record(record) => {
                self.record.write((!record.is_empty()).then(|| record.clone()));
                self.done.push("record".to_owned());
            }
            Effect::Counter(operation, command) => {
                self.invariant_a_counter_never_runs_ahead_of_the_record(*operation, command);
                self.counters.insert(*operation, Recorded::Counter(command.counter));
                self.done.push(format!("counter {operation} {}", command.counter));
            }
            Effect::Withdraw => {
                self.invariant_nothing_is_withdrawn_while_the_device_goes_down();
                self.zedkube.withdraw();
                self.done.push("withdraw".to_owned());
            }
            Effect::Request { own, operation } => {
                let recorded = self.record.memory.as_ref().and_then(|record| record.request);
                assert_eq!(recorded, Some(*own), "a request is recorded before it is made");
                self.zedkube.ask(*own, *operation);
                self.done.push(format!("request {operation}"));
            }
            Effect::Status(status) => self.shown = status.clone(),
            Effect::Command { operation, reason } => {
                self.invariant_a_command_is_released_and_recorded(*operation);
                self.command = Some((*operation, reason.clone()));
                self.done.push(format!("command {operation}"));
            }
            Effect::WakeAt(at_ms) => assert!(self.now_ms <= *at_ms),
        }
    }

    /// D16, unless the command is only recorded: on the first boot, or because it asks for nothing.
    fn invariant_a_counter_never_runs_ahead_of_the_record(
        &self,
        operation: Operation,
        command: &DeviceOpsCmd,
    ) {
        let accepted = self.record.memory.as_ref().and_then(|record| record.latest(operation));
        let is_recorded = accepted.is_some_and(|accepted| accepted.counter == command.counter);
        let is_first = self.counters[&operation] == Recorded::Nothing;
        assert!(is_recorded || is_first || !command.desired_state, "{operation} {} is lost", command.counter);
    }

    fn invariant_a_command_is_released_and_recorded(&self, operation: Operation) {
        let handed_over = self.record.memory.as_ref().and_then(|record| record.handed_over);
        assert_eq!(handed_over.map(|handed_over| handed_over.operation), Some(operation));
        assert_eq!(self.shown.operation, Some(operation));
        assert_eq!(self.shown.state, schemas::DeviceOpState::HandedOver);
        assert!(!self.record.memory.as_ref().is_some_and(|record| record.is_done), "carried out once more");
        let is_under_way = matches!(self.state.phase, Phase::Acting | Phase::Done | Phase::Recalling(_))
            || handed_over.is_some_and(|current| {
                !matches!(progress(&self.looked_at, current), Progress::Other | Progress::Unknown)
            });
        assert!(self.proceeded || is_under_way, "handed over without the gate's word");
    }

    fn invariant_nothing_is_withdrawn_while_the_device_goes_down(&self) {
        let action = self.nodeagent.action.as_ref().expect("nothing is withdrawn while nobody knows");
        assert_ne!(action.state, DeviceActionState::Acting, "withdrawn while Acting");
    }

    fn invariant_the_device_goes_down_only_for_a_standing_request(&self, about: Option<(Operation, u32)>) {
        let handed_over = self.record.disk.as_ref().and_then(|record| record.handed_over);
        assert_eq!(handed_over.map(|current| (current.operation, current.counter)), about, "not on disk");
        assert!(self.zedkube.request.is_some(), "the request was withdrawn, and the device goes down");
    }
}

impl SimAgent for Sim {
    fn turn(&mut self) -> bool {
        self.turn_beside(&mut std::iter::repeat(false))
    }

    fn reload(&mut self) {
        self.record.reload();
        self.zedkube.own = self.record.memory.as_ref().and_then(|record| record.request);
        self.state = self.resumed();
    }

    /// nodeagent as its specification has it, one file at a time: what it read may be old when it writes.
    fn nodeagent_turn(&mut self) {
        if !self.nodeagent.is_running {
            return;
        }
        let standing = self.standing();
        let Some(action) = self.nodeagent.action.clone() else { return };
        let about = action.command.map(|command| (command, action.counter));
        match (action.state, std::mem::replace(&mut self.plan, Plan::Look)) {
            (DeviceActionState::Idle, Plan::Take(operation, counter)) => {
                self.write_action(DeviceActionState::Taken, Some((operation, counter)));
            }
            (DeviceActionState::Idle, _) => {
                self.plan =
                    standing.map_or(Plan::Look, |(operation, counter)| Plan::Take(operation, counter));
            }
            (DeviceActionState::Taken, Plan::Act) => {
                self.invariant_the_device_goes_down_only_for_a_standing_request(about);
                self.write_action(DeviceActionState::Acting, about);
            }
            (DeviceActionState::Taken, _) if standing == about => self.plan = Plan::Act,
            (DeviceActionState::Acting, _) => {
                let ends = if self.now_ms.is_multiple_of(2) {
                    DeviceActionState::Done
                } else {
                    DeviceActionState::Failed
                };
                self.write_action(ends, about);
            }
            (DeviceActionState::Taken | DeviceActionState::Done | DeviceActionState::Failed, _) => {
                if standing != about {
                    self.write_action(DeviceActionState::Idle, None);
                }
            }
        }
    }
}

/// What nodeagent has decided and not yet written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    Look,
    Take(Operation, u32),
    Act,
}

pub(super) fn time(second: i64) -> GoTime {
    jiff::Timestamp::from_second(1_800_000_000 + second).unwrap().into()
}
