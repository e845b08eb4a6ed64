//! nodeagent: the real `progress::step` and `standing::standing`, with a model of the main loop around them.

use std::collections::VecDeque;
use std::time::Duration;

use nodeagent::effect::Effect;
use nodeagent::progress::{DurableRecord, Event, Facts, Outcome, Phase, Policy, State, step};
use nodeagent::standing::{Alive, Command, Report, Siblings, is_released, standing};
use runtime::clock::Moment;
use schemas::{
    ActionRecord, BaseOsHold, BaseOsHoldState, DeviceAction, DeviceActionState, GoTime, NodeAgentStatus,
    NodeDrainStatus, Operation, ZedAgentStatus, agent,
};

use crate::device_op::PAUSE_MS;
use crate::files::Files;
use crate::scenario::{Mutation, Scenario};

/// Time limit of a reboot method: shorter than the time after which the model expects no more changes.
const STILL_UP_MS: u64 = 60_000;

/// One process of nodeagent.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeAgent {
    /// State of the real decision code.
    pub state: State,
    boot_id: String,
    /// The record that could not be written last, with the error.
    refused: Option<(ActionRecord, String)>,
    /// Effects that are not performed yet.
    pub todo: VecDeque<Effect>,
    /// When the process wants to poll again.
    pub wake: Option<u64>,
    /// A watched file has changed, or the process has done something.
    pub is_restless: bool,
    /// The task beside the main loop.
    pub running: Option<Beside>,
    look: Look,
    /// The state before the step whose effects are not performed yet, and its event, for an effect that fails.
    before: Option<Box<(State, Event)>>,
    /// An event that must be handled again because an effect failed.
    again: Option<Event>,
}

/// A task beside the main loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Beside {
    /// The hooks.
    Hooks {
        /// Serial of the effect.
        serial: u32,
        /// The hooks run until this time.
        until: u64,
    },
    /// A method by which the device goes down.
    Means {
        /// Serial of the effect.
        serial: u32,
        /// Index of the method.
        number: usize,
        /// The operation that it carries out.
        operation: Operation,
        /// The method does not work.
        fails: bool,
    },
}

/// State of a poll. It takes time: the files of the other agents are read one after the other, the commands last.
#[derive(Clone, Debug, Default, PartialEq)]
enum Look {
    #[default]
    None,
    /// zedkube's status and baseos' hold were read.
    Begun(Box<(Option<NodeDrainStatus>, BaseOsHold)>),
    /// baseos' lock was asked, and the images were read.
    Images(Box<Read>),
    /// DeviceOpStatus was read.
    DeviceOp(Box<Read>),
    /// There is a command, and the locks of the agents that can withdraw it were asked.
    Locks(Box<(Facts, Alive)>),
}

/// The agents that hold their locks.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one lock each")]
pub struct Running {
    /// zedkube.
    pub zedkube: bool,
    /// device-op.
    pub device_op: bool,
    /// baseos.
    pub baseos: bool,
    /// The activate command runs, whichever process has started it.
    pub activation: bool,
}

/// The data that the poll has read so far.
#[derive(Clone, Debug, Default, PartialEq)]
struct Read {
    drain: Option<NodeDrainStatus>,
    is_activating: bool,
    siblings: Siblings,
}

impl Running {
    fn for_command(self, command: &Command) -> Alive {
        let is_of_device_op = command.requester() == agent::ZEDAGENT;
        Alive { zedkube: self.zedkube, requester: if is_of_device_op { self.device_op } else { self.baseos } }
    }
}

impl NodeAgent {
    /// A new process, which begins as `Desk::open` does.
    pub fn start(files: &mut Files, boot_id: &str) -> Self {
        let action = files.run.action.clone().unwrap_or_default();
        if action.boot_id != boot_id {
            let reboot_reason = files.persist.reason.take().unwrap_or_default();
            let name = agent::NODEAGENT.to_owned();
            let status = NodeAgentStatus { name, reboot_reason, ..NodeAgentStatus::default() };
            files.run.nodeagent = Some(status);
            let boot_id = boot_id.to_owned();
            files.run.action = Some(DeviceAction { boot_id, ..DeviceAction::default() });
        } else if action.state != DeviceActionState::Acting {
            files.persist.reason = None;
        }
        Self {
            state: resumed(files, boot_id),
            boot_id: boot_id.to_owned(),
            refused: None,
            todo: VecDeque::new(),
            wake: None,
            is_restless: true,
            running: None,
            look: Look::None,
            before: None,
            again: None,
        }
    }

    /// True if the process would poll now.
    pub fn is_due(&self, now: u64) -> bool {
        let wants = self.is_restless || self.is_looking() || self.wake.is_some_and(|at| at <= now);
        self.todo.is_empty() && (wants || self.again.is_some())
    }

    /// True while a poll has begun and not ended.
    pub fn is_looking(&self) -> bool {
        self.look != Look::None
    }

    /// True if the task beside the main loop can end now. A method that works takes the device down instead, except for
    /// a shutdown.
    pub fn can_end(&self, now: u64) -> bool {
        let is_over = match &self.running {
            None => false,
            Some(Beside::Hooks { until, .. }) => *until <= now,
            Some(Beside::Means { .. }) => true,
        };
        self.todo.is_empty() && !self.is_looking() && is_over
    }

    /// When the task beside the main loop ends.
    pub fn ends_at(&self) -> Option<u64> {
        match &self.running {
            Some(Beside::Hooks { until, .. }) => Some(*until),
            Some(Beside::Means { .. }) | None => None,
        }
    }

    /// Reads the next part of a poll; after the last part it decides.
    pub fn look(&mut self, files: &Files, up: Running, now: u64, scenario: &Scenario) {
        if let Some(event) = self.again.take() {
            return self.step(event, now, scenario);
        }
        let run = &files.run;
        match std::mem::take(&mut self.look) {
            Look::None => {
                (self.is_restless, self.wake) = (false, None);
                self.look = Look::Begun(Box::new((run.status, run.hold.clone().unwrap_or_default())));
            }
            Look::Begun(read) => {
                let (drain, hold) = *read;
                let says = hold.state == BaseOsHoldState::Activating && up.baseos;
                let is_activating =
                    (says || up.activation) && scenario.mutation != Some(Mutation::BlindToActivation);
                let images = run.images.values().cloned().collect();
                let siblings = Siblings { hold, images, ..Siblings::default() };
                self.look = Look::Images(Box::new(Read { drain, is_activating, siblings }));
            }
            Look::Images(mut read) => {
                read.siblings.device_op = run.device_op.clone().unwrap_or_default();
                self.look = Look::DeviceOp(read);
            }
            Look::DeviceOp(mut read) => {
                read.siblings.zedagent = zedagent(run.zedagent.as_ref());
                let is_blind = scenario.mutation == Some(Mutation::NodeAgentDoesNotLookAgain)
                    && matches!(self.state.phase, Phase::Taken(_));
                let command = if is_blind {
                    self.state.command.clone()
                } else {
                    standing(&read.siblings, &self.boot_id)
                };
                let (drain, is_activating) = (read.drain, read.is_activating);
                let alive = command.as_ref().map(|command| up.for_command(command));
                let proof =
                    DurableRecord { on_disk: files.persist.action.clone(), refused: self.refused.clone() };
                let facts = Facts { drain, is_activating, is_released: true, command, proof };
                match alive {
                    Some(alive) => self.look = Look::Locks(Box::new((facts, alive))),
                    None => self.step(Event::Looked(facts), now, scenario),
                }
            }
            Look::Locks(read) => {
                let (facts, alive) = *read;
                let report = run.report.as_deref().map_or(Report::Absent, Report::Given);
                let says = |command: &Command| is_released(command.requester(), report, alive);
                let is_careless = scenario.mutation == Some(Mutation::NodeAgentBelievesTheDead);
                let is_released = is_careless || facts.command.as_ref().is_none_or(says);
                self.step(Event::Looked(Facts { is_released, ..facts }), now, scenario);
            }
        }
    }

    /// Ends the task beside the main loop.
    pub fn end(&mut self, now: u64, scenario: &Scenario) {
        let event = match self.running.take() {
            None => return,
            Some(Beside::Hooks { serial, .. }) => Event::HooksEnded { serial },
            Some(Beside::Means { serial, number, operation, fails }) => {
                let outcome = match (number, operation) {
                    (1.., _) => Outcome::NoMeans,
                    (0, _) if fails => Outcome::Failed("it does not work".to_owned()),
                    (0, Operation::Shutdown) => Outcome::Done,
                    (0, Operation::Reboot | Operation::Poweroff) => Outcome::Started("asked".to_owned()),
                };
                Event::Acted { serial, outcome }
            }
        };
        self.step(event, now, scenario);
    }

    fn step(&mut self, event: Event, now: u64, scenario: &Scenario) {
        let before = self.state.clone();
        let still_up = Duration::from_millis(STILL_UP_MS);
        let policy = Policy { has_hooks: scenario.has_hooks, dry_run: false, still_up };
        let moment = Moment { boot_ms: now, wall: GoTime::ZERO };
        let (next, effects) = step(self.state.clone(), &event, moment, policy);
        self.state = next;
        self.is_restless |= !matches!(event, Event::Looked(_));
        self.before = Some(Box::new((before, event)));
        for effect in effects {
            match effect {
                Effect::WakeAt(at) => self.wake = Some(at),
                effect => self.todo.push_back(effect),
            }
        }
    }

    /// Performs the next effect.
    pub fn perform(&mut self, files: &mut Files, now: u64, scenario: &Scenario) {
        self.is_restless = true;
        match self.todo.pop_front() {
            None | Some(Effect::WakeAt(_)) => {}
            Some(Effect::Action(action)) => files.run.action = Some(action),
            Some(Effect::Status(status)) => files.run.nodeagent = Some(*status),
            Some(Effect::Record(record)) => {
                files.persist.action = Some(record);
                self.refused = None;
            }
            Some(Effect::ForgetRecord) => {
                files.persist.action = None;
                self.refused = None;
            }
            Some(Effect::LeaveReason(command)) => files.persist.reason = Some(command.reason),
            Some(Effect::ForgetReason) => files.persist.reason = None,
            Some(Effect::RunHooks { serial, .. }) => {
                let is_endless = scenario.mutation == Some(Mutation::EndlessHooks);
                let until = if is_endless { u64::MAX } else { now + scenario.limits.short_ms };
                self.running = Some(Beside::Hooks { serial, until });
            }
            Some(Effect::Act { serial, means, command, .. }) => {
                let operation = command.operation;
                self.running = Some(Beside::Means { serial, number: means, operation, fails: false });
            }
            Some(Effect::Drop) => self.running = None,
        }
        if self.todo.is_empty() {
            self.before = None;
        }
    }

    /// Lets the next effect fail; the effects after it are not performed.
    pub fn fail(&mut self, files: &Files, now: u64) {
        if let Some(Effect::Record(record)) = self.todo.pop_front() {
            self.refused = Some((record, "the disk is full".to_owned()));
            return;
        }
        self.todo.clear();
        if let Some(before) = self.before.take() {
            let (state, event) = *before;
            self.state = state.after_failure(resumed(files, &self.boot_id));
            self.again = Some(event).filter(|event| !matches!(event, Event::Looked(_)));
        }
        (self.is_restless, self.wake) = (false, Some(now + PAUSE_MS));
    }
}

fn resumed(files: &Files, boot_id: &str) -> State {
    let action = files.run.action.clone().unwrap_or_default();
    let is_acting = action.state == DeviceActionState::Acting;
    let reason = files.persist.reason.clone().filter(|_| is_acting);
    State::resume(action, files.run.nodeagent.clone().unwrap_or_default(), reason, boot_id)
}

fn zedagent(command: Option<&(Operation, String)>) -> ZedAgentStatus {
    let operation = command.map(|(operation, _)| *operation);
    ZedAgentStatus {
        reboot_cmd: operation == Some(Operation::Reboot),
        shutdown_cmd: operation == Some(Operation::Shutdown),
        poweroff_cmd: operation == Some(Operation::Poweroff),
        requested_reboot_reason: command.map_or_else(String::new, |(_, reason)| reason.clone()),
        ..ZedAgentStatus::default()
    }
}
