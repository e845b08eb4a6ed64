//! A simulated device around the state machine. Each effect is checked against what must be true when it is carried
//! out.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use diagram::variant_name;
use runtime::testing::{SimAgent, SimLoop, SimWrite};
use schemas::{DeviceActionState, NodeAgentStatus, Operation};

use super::*;
use crate::current_command::Command;
use crate::facts::{DurableRecord, Outcome};
use crate::policy::STILL_UP;

#[derive(Debug, Clone)]
pub(super) struct Sim {
    turning: SimLoop<NodeAgent>,
    /// The next snapshot.
    pub(super) facts: Facts,
    pub(super) action: DeviceAction,
    pub(super) status: NodeAgentStatus,
    /// The file of the reason.
    pub(super) reason: Option<String>,
    /// The ActionRecord as nodeagent knows it, and as in its file.
    pub(super) proof: DurableRecord,
    /// The ActionRecord cannot be removed.
    pub(super) keeps_record: bool,
    pub(super) boot_id: &'static str,
    /// Serial of the hooks or the means that run.
    pub(super) running: Option<u32>,
    /// The last means used was that of a dry run.
    acted_dry: bool,
    /// The number of means of this device.
    pub(super) means: usize,
    /// The file of DeviceAction at the last snapshot, and that snapshot.
    looked: Option<(DeviceAction, Facts)>,
}

pub(super) fn command(operation: Operation, counter: u32) -> Command {
    Command::new(operation, counter, Some(format!("{operation} for a test")))
}

impl Sim {
    pub(super) fn new() -> Self {
        let mut sim = Self {
            turning: SimLoop::begin(
                State::resume(DeviceAction::default(), NodeAgentStatus::default(), None, "boot-1"),
                Policy { has_hooks: false, dry_run: false, still_up: STILL_UP },
            ),
            facts: Facts {
                drain: None,
                is_activating: false,
                is_released: true,
                command: None,
                proof: DurableRecord::default(),
            },
            action: DeviceAction::default(),
            status: NodeAgentStatus::default(),
            reason: None,
            proof: DurableRecord::default(),
            keeps_record: false,
            boot_id: "boot-1",
            running: None,
            acted_dry: false,
            means: 1,
            looked: None,
        };
        sim.run();
        sim.done.clear();
        sim
    }

    pub(super) fn give(&mut self, command: Option<Command>) {
        self.facts.command = command;
        self.run();
    }

    pub(super) fn sleep(&mut self, pause: Duration) {
        SimAgent::sleep(self, u64::try_from(pause.as_millis()).unwrap());
    }

    pub(super) fn end_hooks(&mut self) {
        let serial = self.running.take().expect("no hooks run");
        self.send(&Event::HooksEnded { serial });
        self.run();
    }

    /// The running means ends.
    pub(super) fn acted(&mut self, outcome: Outcome) {
        let serial = self.running.take().expect("no means runs");
        self.send(&Event::Acted { serial, outcome });
        self.run();
    }

    /// The device boots; `/run` is kept.
    pub(super) fn boot(&mut self, boot_id: &'static str) {
        self.boot_id = boot_id;
        self.facts.command = None;
        self.done.clear();
        self.restart();
    }

    /// Taken was on disk before the snapshot, and the snapshot shows this very command and no activation.
    fn invariant_acting_only_after_a_snapshot_with_the_command(&self, action: &DeviceAction) {
        if action.state != DeviceActionState::Acting || self.action.state == DeviceActionState::Acting {
            return;
        }
        let (on_disk, facts) = self.looked.as_ref().expect("looked at");
        assert_eq!(on_disk.state, DeviceActionState::Taken);
        assert_eq!((on_disk.command, on_disk.counter), (action.command, action.counter));
        let in_effect = facts.command.as_ref().map(|command| (command.operation, command.counter));
        assert_eq!(in_effect, action.command.map(|operation| (operation, action.counter)));
        assert!(!facts.is_activating, "an image is being activated");
        assert!(facts.is_released, "the command is not released any more");
    }

    /// An agent that sees a done shutdown also sees `AllDomainsHalted`, even if nodeagent dies after this effect.
    fn invariant_halted_before_a_shutdown_is_done(&self, action: &DeviceAction) {
        let is_done = action.state == DeviceActionState::Done && action.command == Some(Operation::Shutdown);
        let was_done_before = self.action.shutdown_done == Some(action.counter);
        if is_done && self.action.state != DeviceActionState::Done {
            let is_halted = was_done_before || !self.acted_dry;
            assert_eq!(self.status.all_domains_halted, is_halted, "a dry run halts nothing");
            assert_eq!(action.shutdown_done == Some(action.counter), is_halted);
        }
    }

    fn invariant_acting_is_on_disk(&self, command: &Command) {
        assert_eq!(self.action.state, DeviceActionState::Acting);
        assert_eq!(
            (self.action.acted.as_ref(), self.action.boot_id.as_str()),
            (Some(&command.named()), self.boot_id)
        );
        assert_eq!((self.action.command, self.action.counter), (Some(command.operation), command.counter));
        let proof =
            self.proof.on_disk.as_ref().map(|record| (record.counter, record.boot_id.as_str(), record.tries));
        let is_proven = proof == Some((command.counter, self.boot_id, self.action.tries));
        assert!(is_proven || command.without_record, "no proof on disk: {:?}", self.proof);
        let leaves_reason = !self.policy.dry_run && command.operation != Operation::Shutdown;
        assert!(!leaves_reason || self.reason.is_some(), "no reason is left for the next boot");
    }

    /// Without the published trial, a restart would begin the means again.
    fn invariant_what_is_begun_is_in_its_file(&self, means: usize, dry_run: bool) {
        assert!(self.action.tries <= DeviceAction::MOST_TRIES, "begun too often");
        let in_file = self.action.trial.as_ref().and_then(|trial| usize::try_from(trial.means).ok());
        assert_eq!(in_file, (!dry_run).then_some(means));
    }
}

impl Deref for Sim {
    type Target = SimLoop<NodeAgent>;

    fn deref(&self) -> &Self::Target {
        &self.turning
    }
}

impl DerefMut for Sim {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.turning
    }
}

impl SimAgent for Sim {
    type Machine = NodeAgent;

    fn look(&mut self) -> Event {
        self.facts.proof = self.proof.clone();
        self.looked = Some((self.action.clone(), self.facts.clone()));
        Event::Looked(self.facts.clone())
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::Action(action) => {
                self.invariant_acting_only_after_a_snapshot_with_the_command(action);
                self.invariant_halted_before_a_shutdown_is_done(action);
                if action.state != self.action.state {
                    self.done.push(format!("{:?}", action.state));
                }
                self.action = action.clone();
            }
            Effect::Status(status) => self.status = (**status).clone(),
            Effect::Record(record) => {
                assert_eq!(self.action.state, DeviceActionState::Acting, "Acting is published first");
                if self.faults.takes_no_record {
                    self.proof.refused = Some((record.clone(), "ActionRecord: disk full".to_owned()));
                } else {
                    self.proof = DurableRecord { on_disk: Some(record.clone()), ..DurableRecord::default() };
                }
            }
            Effect::ForgetRecord if self.keeps_record => {
                self.proof = DurableRecord {
                    kept_until: Some(self.now.after(30_000)),
                    refused: None,
                    ..self.proof.clone()
                };
            }
            Effect::ForgetRecord => self.proof = DurableRecord::default(),
            Effect::LeaveReason(command) => {
                assert!(!self.policy.dry_run, "a dry run leaves a reason");
                self.reason = Some(command.reason.clone());
                self.done.push("reason".to_owned());
            }
            Effect::ForgetReason => self.reason = None,
            Effect::RunHooks { serial, .. } => {
                assert!(!self.policy.dry_run, "a dry run runs hooks");
                assert_eq!(self.action.state, DeviceActionState::Taken);
                self.running = Some(*serial);
                self.done.push("hooks".to_owned());
            }
            Effect::Act { serial, means, command, dry_run } => {
                self.invariant_acting_is_on_disk(command);
                self.invariant_what_is_begun_is_in_its_file(*means, *dry_run);
                assert_eq!(*dry_run, self.policy.dry_run);
                self.acted_dry = *dry_run;
                self.running = Some(*serial);
                self.done.push(format!("act {means}"));
                assert!(*means <= self.means, "more than one beyond the last");
            }
            Effect::Drop => self.running = None,
            Effect::WakeAt(_) => {}
        }
    }

    /// A task beside the loop reports its failures in its event.
    fn write_of(&self, effect: &Effect) -> SimWrite {
        let is_file = matches!(effect, Effect::Action(_) | Effect::Status(_));
        if is_file { SimWrite::File } else { SimWrite::Never }
    }

    fn leave_undone(&mut self, _: &Effect) {}

    /// The state from the files, as in the shell.
    fn resumed(&self) -> State {
        let is_acting = self.action.state == DeviceActionState::Acting;
        let reason = self.reason.clone().filter(|_| is_acting);
        State::resume(self.action.clone(), self.status.clone(), reason, self.boot_id)
    }

    fn phase(state: &State) -> String {
        variant_name(&state.phase)
    }

    fn reload(&mut self) {
        self.running = None;
        self.proof.refused = None;
        self.state = self.resumed();
    }
}
