//! A simulated device around the state machine: its files, zedkube's answer, and nodeagent. Effects are carried out
//! at once; each is checked against what must be true at that time.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use diagram::variant_name;
use runtime::agent_state::NodeAgentView;
use runtime::freeze::Freeze;
use runtime::settings::Retry;
use runtime::testing::{SimAgent, SimLoop, SimRecord, SimWrite, SimZedkube};
use schemas::{
    ActionRecord, DeviceAction, DeviceActionState, DeviceOpStatus, DeviceOpsCmd, DrainRequester, DrainStatus,
    GoTime, Operation, Source, WindowStatus,
};

use super::*;
use crate::facts::{Commanded, Kind, Recorded, all_kinds};

pub(super) const RETRY_MS: u64 = 30 * 60 * 1000;

#[derive(Debug, Clone)]
pub(super) struct Sim {
    main_loop: SimLoop<DeviceOp>,
    pub(super) commands: BTreeMap<Kind, Commanded>,
    pub(super) counters: BTreeMap<Kind, Recorded>,
    pub(super) cancelled: BTreeMap<Kind, u32>,
    pub(super) freeze: Option<Freeze>,
    pub(super) window: Option<WindowStatus>,
    pub(super) is_pausing: bool,
    /// The operation that nodeagent began last; a boot does not empty it.
    pub(super) acted: Option<ActionRecord>,
    pub(super) record: SimRecord<OperationRecord>,
    /// The record in `/run`, for a command without a record.
    volatile: Option<OperationRecord>,
    pub(super) shown: DeviceOpStatus,
    pub(super) command: Option<(Operation, String)>,
    pub(super) zedkube: SimZedkube<Operation>,
    pub(super) nodeagent: NodeAgentView,
    pub(super) refused: Vec<String>,
    /// The gate was open in the snapshot of the current step.
    proceeded: bool,
    /// nodeagent in the snapshot of the current step.
    looked_at: NodeAgentView,
    /// The next action of nodeagent, played by [`Sim::nodeagent_turn`].
    pub(super) plan: Plan,
}

impl Sim {
    /// A member of a cluster; all counters are recorded as 1, and no source gives a command.
    pub(super) fn new() -> Self {
        let retry = Retry::After(Duration::from_millis(RETRY_MS));
        let policy = Policy { retry, boot_id: "boot-1".to_owned() };
        let mut sim = Self {
            main_loop: SimLoop::begin(State::resume(None, DeviceOpStatus::default(), None, "boot-1"), policy),
            commands: all_kinds().map(|kind| (kind, Commanded::Absent)).collect(),
            counters: all_kinds().map(|kind| (kind, Recorded::Counter(1))).collect(),
            cancelled: BTreeMap::new(),
            freeze: None,
            window: None,
            is_pausing: false,
            acted: None,
            record: SimRecord::none(),
            volatile: None,
            shown: DeviceOpStatus::default(),
            command: None,
            zedkube: SimZedkube::new(DrainRequester::DeviceOp),
            nodeagent: NodeAgentView { is_running: true, action: Some(DeviceAction::default()) },
            refused: Vec::new(),
            proceeded: false,
            looked_at: NodeAgentView { is_running: true, action: None },
            plan: Plan::Look,
        };
        sim.now.wall = time(0);
        sim.run();
        sim.done.clear();
        sim
    }

    pub(super) fn give(&mut self, operation: Operation, counter: u32) {
        self.say(operation, counter, true);
    }

    pub(super) fn say(&mut self, operation: Operation, counter: u32, desired_state: bool) {
        self.write(controllers(operation), counter, desired_state);
        self.run();
    }

    /// Writes a command of any source, before device-op's next step.
    pub(super) fn write(&mut self, kind: Kind, counter: u32, desired_state: bool) {
        self.commands.insert(kind, said(counter, desired_state));
    }

    pub(super) fn give_by(&mut self, source: Source, operation: Operation, counter: u32) {
        self.write((source, operation), counter, true);
        self.run();
    }

    pub(super) fn remove(&mut self, operation: Operation) {
        self.commands.insert(controllers(operation), Commanded::Absent);
        self.run();
    }

    fn record_in_effect(&self) -> Option<&OperationRecord> {
        self.volatile.as_ref().or(self.record.memory.as_ref())
    }

    /// The accepted commands that are not over.
    pub(super) fn pending(&self) -> Vec<Accepted> {
        let record = self.record.memory.clone().unwrap_or_default();
        record.handed_over.into_iter().chain(record.waiting).collect()
    }

    pub(super) fn recorded(&self, operation: Operation) -> Recorded {
        self.counters[&controllers(operation)]
    }

    /// Counter and state of the last command of this kind.
    pub(super) fn line(&self, source: Source, operation: Operation) -> Option<(u32, schemas::CommandState)> {
        let line =
            self.shown.commands.iter().find(|line| (line.source, line.operation) == (source, operation));
        line.map(|line| (line.counter, line.state))
    }

    /// zedkube answers the pending request.
    pub(super) fn answer(&mut self, status: DrainStatus) {
        self.zedkube.answer(status);
        self.run();
    }

    /// nodeagent reports this state about the operation handed over last.
    pub(super) fn nodeagent(&mut self, state: DeviceActionState) {
        let current = self.state.record.current().copied();
        self.nodeagent_about(state, current);
    }

    /// nodeagent reports this state, before device-op's next step.
    pub(super) fn nodeagent_ends(&mut self, state: DeviceActionState) {
        let current = self.state.record.current().copied();
        self.write_action(state, current);
    }

    pub(super) fn nodeagent_about(&mut self, state: DeviceActionState, current: Option<Accepted>) {
        self.nodeagent.action = Some(DeviceAction {
            command: current.map(|current| current.operation),
            counter: current.map_or(0, |current| current.counter),
            source: current.map_or_else(Source::default, |current| current.source),
            state,
            error: if state == DeviceActionState::Failed { "no means".to_owned() } else { String::new() },
            ..DeviceAction::default()
        });
        self.note_acting(state, current);
        self.run();
    }

    /// nodeagent's own record, which is on disk before it is Acting.
    fn note_acting(&mut self, state: DeviceActionState, current: Option<Accepted>) {
        if let Some(current) = current.filter(|_| state == DeviceActionState::Acting) {
            self.acted = Some(ActionRecord {
                boot_id: self.policy.boot_id.clone(),
                source: current.source,
                command: Some(current.operation),
                counter: current.counter,
                ..ActionRecord::default()
            });
        }
    }

    /// The device boots: `/run` is empty.
    pub(super) fn boot(&mut self, boot_id: &str) {
        self.power_cycle(boot_id);
        self.run();
    }

    /// The device boots, before device-op's first step.
    pub(super) fn power_cycle(&mut self, boot_id: &str) {
        self.policy.boot_id = boot_id.to_owned();
        (self.zedkube.request, self.command, self.zedkube.answer) = (None, None, None);
        self.shown = DeviceOpStatus::default();
        self.volatile = None;
        self.nodeagent.action = Some(DeviceAction::default());
        self.commands.values_mut().for_each(|command| *command = Commanded::Absent);
        self.reload();
    }

    /// The command that nodeagent reads in the files: ZedAgentStatus and DeviceOpStatus agree.
    fn published_command(&self) -> Option<Accepted> {
        let (operation, _) = self.command.as_ref()?;
        let is_handed_over = self.shown.state == schemas::DeviceOpState::HandedOver
            && self.shown.operation == Some(*operation);
        is_handed_over.then_some(Accepted::new((self.shown.source, *operation), self.shown.counter))
    }

    fn write_action(&mut self, state: DeviceActionState, about: Option<Accepted>) {
        self.note_acting(state, about);
        self.nodeagent.action = Some(DeviceAction {
            command: about.map(|about| about.operation),
            counter: about.map_or(0, |about| about.counter),
            source: about.map_or_else(Source::default, |about| about.source),
            state,
            ..DeviceAction::default()
        });
    }

    /// D16. Exception: the command is only recorded, on the first boot or because it asks for nothing.
    fn invariant_a_counter_never_runs_ahead_of_the_record(&self, kind: Kind, command: &DeviceOpsCmd) {
        let record = self.record.memory.clone().unwrap_or_default();
        let is_recorded = record.latest(kind).is_some_and(|accepted| accepted.counter == command.counter);
        let is_said = record.ended(kind).is_some_and(|line| line.counter == command.counter);
        let is_taken_back = !command.desired_state || self.cancelled.get(&kind) == Some(&command.counter);
        assert!(is_recorded || is_said || is_taken_back, "{kind:?} {} is lost", command.counter);
        assert!(!command.now && !command.without_record, "not EVE's form: {command:?}");
    }

    fn invariant_a_command_is_released_and_recorded(&self, operation: Operation) {
        let handed_over = self.record_in_effect().and_then(|record| record.handed_over);
        assert_eq!(handed_over.map(|handed_over| handed_over.operation), Some(operation));
        assert_eq!(self.shown.operation, Some(operation));
        assert_eq!(self.shown.state, schemas::DeviceOpState::HandedOver);
        assert!(!self.record_in_effect().is_some_and(|record| record.is_done), "carried out once more");
        let is_under_way = matches!(self.state.phase, Phase::Acting | Phase::Done | Phase::Recalling(_))
            || handed_over.is_some_and(|current| {
                !matches!(progress(&self.looked_at, current), Progress::Other | Progress::Unknown)
            });
        assert!(self.proceeded || is_under_way, "handed over although the gate is closed");
    }

    fn invariant_nothing_begins_outside_the_window(&self) {
        let attempt = self.record_in_effect().and_then(|record| record.attempt);
        let is_held =
            |(source, _): Kind| self.window.as_ref().is_some_and(|window| window.holds(source).is_some());
        let is_urgent = |kind| self.pending().iter().any(|pending| pending.kind() == kind && pending.now);
        assert!(
            attempt.is_some_and(|kind| !is_held(kind) || is_urgent(kind)),
            "outside the window: {attempt:?}"
        );
    }

    fn invariant_nothing_is_withdrawn_while_the_device_goes_down(&self) {
        let action =
            self.nodeagent.action.as_ref().expect("nothing is withdrawn while nodeagent cannot be read");
        assert_ne!(action.state, DeviceActionState::Acting, "withdrawn while Acting");
    }

    fn invariant_the_device_goes_down_only_for_a_published_request(&self, about: Option<Accepted>) {
        let handed_over = self.record.disk.as_ref().and_then(|record| record.handed_over);
        let name = |accepted: Accepted| (accepted.kind(), accepted.counter);
        assert_eq!(handed_over.map(name), about.map(name), "not on disk");
        assert!(self.zedkube.request.is_some(), "the request was withdrawn, and the device goes down");
    }
}

impl Deref for Sim {
    type Target = SimLoop<DeviceOp>;

    fn deref(&self) -> &Self::Target {
        &self.main_loop
    }
}

impl DerefMut for Sim {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.main_loop
    }
}

impl SimAgent for Sim {
    type Machine = DeviceOp;

    fn look(&mut self) -> Facts {
        let drain = self.zedkube.reading(self.state.listen());
        self.proceeded = drain.is_open();
        self.looked_at = self.nodeagent.clone();
        Facts {
            wall: self.now.wall,
            commands: self.commands.clone(),
            counters: self.counters.clone(),
            cancelled: self.cancelled.clone(),
            freeze: self.freeze.clone(),
            window: self.window.clone(),
            is_pausing: self.is_pausing,
            acted: self.acted.clone(),
            drain,
            nodeagent: self.nodeagent.clone(),
            refused: self.refused.clone(),
        }
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::ClearCommand => {
                self.command = None;
                self.done.push("clear".to_owned());
            }
            Effect::Record(record) if record.is_without() => {
                self.volatile = Some(record.clone());
                self.done.push("record in /run".to_owned());
            }
            Effect::Record(record) => {
                self.record.write((!record.is_empty()).then(|| record.clone()));
                self.volatile = None;
                self.done.push("record".to_owned());
            }
            Effect::Counter(kind, command) => {
                self.invariant_a_counter_never_runs_ahead_of_the_record(*kind, command);
                self.counters.insert(*kind, Recorded::Counter(command.counter));
                self.done.push(format!("counter {} {}", kind.1, command.counter));
            }
            Effect::Withdraw => {
                self.invariant_nothing_is_withdrawn_while_the_device_goes_down();
                self.zedkube.withdraw();
                self.done.push("withdraw".to_owned());
            }
            Effect::Request { own, operation } => {
                let recorded = self.record_in_effect().and_then(|record| record.request);
                assert_eq!(recorded, Some(*own), "a request is recorded before it is made");
                self.invariant_nothing_begins_outside_the_window();
                self.zedkube.ask(*own, *operation);
                self.done.push(format!("request {operation}"));
            }
            Effect::Status(status) => self.shown = status.clone(),
            Effect::Command { operation, reason } => {
                self.invariant_a_command_is_released_and_recorded(*operation);
                self.command = Some((*operation, reason.clone()));
                self.done.push(format!("command {operation}"));
            }
            Effect::WakeAt(at_ms) => {
                // A pause may have ended while another reason held the command.
                assert!(self.now.boot_ms <= *at_ms || self.state.phase != Phase::Failed);
            }
        }
    }

    /// As in the shell: a record that is on disk already is not written.
    fn write_of(&self, effect: &Effect) -> SimWrite {
        let is_on_disk = |record: &OperationRecord| self.record.disk.as_ref() == Some(record);
        let is_written =
            matches!(effect, Effect::Record(record) if !record.is_without() && !is_on_disk(record));
        if is_written { SimWrite::Record } else { SimWrite::File }
    }

    fn leave_undone(&mut self, effect: &Effect) {
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
    }

    fn resumed(&self) -> State {
        let record = self.volatile.clone().or_else(|| self.record.memory.clone());
        let command = self.command.clone();
        State::resume(record, self.shown.clone(), command, &self.policy.boot_id)
    }

    fn phase(state: &State) -> String {
        variant_name(&state.phase)
    }

    fn reload(&mut self) {
        self.record.reload();
        self.zedkube.own = self.resumed().record.request;
        self.state = self.resumed();
    }

    /// nodeagent as specified, one file per turn: another agent may have changed a file between its read and its
    /// write.
    fn nodeagent_turn(&mut self) {
        if !self.nodeagent.is_running {
            return;
        }
        let published = self.published_command();
        let Some(action) = self.nodeagent.action.clone() else { return };
        let about = action.command.map(|command| Accepted::new((action.source, command), action.counter));
        match (action.state, std::mem::replace(&mut self.plan, Plan::Look)) {
            (DeviceActionState::Idle, Plan::Take(command)) => {
                self.write_action(DeviceActionState::Taken, Some(command));
            }
            (DeviceActionState::Idle, _) => {
                self.plan = published.map_or(Plan::Look, Plan::Take);
            }
            (DeviceActionState::Taken, Plan::Act) => {
                self.invariant_the_device_goes_down_only_for_a_published_request(about);
                self.write_action(DeviceActionState::Acting, about);
            }
            (DeviceActionState::Taken, _) if published == about => self.plan = Plan::Act,
            (DeviceActionState::Acting, _) => {
                let ends = if self.now.boot_ms.is_multiple_of(2) {
                    DeviceActionState::Done
                } else {
                    DeviceActionState::Failed
                };
                self.write_action(ends, about);
            }
            (DeviceActionState::Taken | DeviceActionState::Done | DeviceActionState::Failed, _) => {
                if published != about {
                    self.write_action(DeviceActionState::Idle, None);
                }
            }
        }
    }
}

/// The action that nodeagent has decided on and not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    Look,
    Take(Accepted),
    Act,
}

/// The kind of the controller's command for this operation.
pub(super) const fn controllers(operation: Operation) -> Kind {
    (Source::Controller, operation)
}

pub(super) fn said(counter: u32, desired_state: bool) -> Commanded {
    let ops_time = "then".to_owned();
    Commanded::Given(DeviceOpsCmd { counter, desired_state, ops_time, ..DeviceOpsCmd::default() })
}

pub(super) fn time(second: i64) -> GoTime {
    jiff::Timestamp::from_second(1_800_000_000 + second).unwrap().into()
}
