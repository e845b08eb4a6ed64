//! A simulated device around the state machine: its files, zedkube's answer, and nodeagent. Effects are carried out
//! at once; each is checked against what must be true at that time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use diagram::variant_name;
use runtime::agent_state::NodeAgentView;
use runtime::settings::Retry;
use runtime::testing::{SimAgent, SimLoop, SimRecord, SimWrite, SimZedkube};
use schemas::{
    BaseOsHold, BaseOsHoldState, BaseOsStatus, DeviceAction, DeviceActionState, DrainRequester, DrainStatus,
    Member, Operation, Source, WindowStatus,
};

use super::*;
use crate::facts::{Content, Running};
use crate::record::ActivationRecord;

/// Value of `baseos.timeout`.
pub(super) const TIMEOUT_MS: u64 = 600_000;

pub(super) const RETRY_MS: u64 = 30 * 60 * 1000;

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "facts, each on its own")]
pub(super) struct Sim {
    turning: SimLoop<BaseOs>,
    pub(super) boot_id: String,
    pub(super) configs: BTreeMap<String, Configured>,
    pub(super) outranked: Vec<(Source, BaseOsConfig)>,
    pub(super) sources: BTreeMap<String, Origin>,
    pub(super) obeys_cluster: bool,
    pub(super) contents: BTreeMap<String, Content>,
    pub(super) running: Running,
    pub(super) record: SimRecord<ActivationRecord>,
    pub(super) hold: BaseOsHold,
    pub(super) statuses: BTreeMap<String, BaseOsStatus>,
    pub(super) zedkube: SimZedkube<String>,
    pub(super) nodeagent: NodeAgentView,
    pub(super) refused: Vec<String>,
    /// Activations in the dry run's file: boot, image, counter.
    pub(super) lines: BTreeSet<(String, String, u32)>,
    /// Serial of the activate command that is running.
    pub(super) command: Option<u32>,
    /// A killed baseos leaves its activate command running, as after kill -9.
    pub(super) outlives: bool,
    /// End of the time limit of an activate command that an earlier process left running.
    pub(super) left_running: Option<u64>,
    /// What was left running does not end when it is killed.
    pub(super) survives: bool,
    pub(super) frozen: Option<String>,
    pub(super) window: Option<WindowStatus>,
    pub(super) is_pausing: bool,
    /// The gate was open in the snapshot of the current step.
    proceeded: bool,
    /// nodeagent and the file of BaseOsHold in the snapshot of the current step.
    looked_at: (NodeAgentView, BaseOsHold),
    /// The snapshot of the current step showed an activate command of an earlier process.
    was_left_running: bool,
    /// The action that nodeagent, played by [`Sim::nodeagent_turn`], has decided on and not written yet.
    pub(super) plan: Plan,
}

/// The action that nodeagent has decided on and not written yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    Look,
    Take,
    Act,
}

/// The UUIDs of two images.
pub(super) const A: &str = "aaaaaaaa-9dad-11d1-80b4-000000000001";
pub(super) const B: &str = "bbbbbbbb-9dad-11d1-80b4-000000000002";

/// The letter of an image.
pub(super) fn short(uuid: &str) -> &str {
    match uuid {
        A => "a",
        B => "b",
        other => other,
    }
}

/// The version of an image.
pub(super) fn version_of(uuid: &str) -> String {
    format!("version {}", short(uuid))
}

pub(super) fn config(uuid: &str, retry_update_counter: u32) -> BaseOsConfig {
    BaseOsConfig {
        base_os_version: version_of(uuid),
        content_tree_uuid: uuid.to_owned(),
        retry_update_counter,
        activate: true,
        ..BaseOsConfig::default()
    }
}

impl Sim {
    /// A member of a cluster; no image is configured, and all contents are loaded.
    pub(super) fn new() -> Self {
        let retry = Retry::After(Duration::from_millis(RETRY_MS));
        let state = State::resume(None, BaseOsHold::default(), BTreeMap::new(), "boot-1");
        let mut sim = Self {
            turning: SimLoop::begin(state, Policy { retry, dry_run: false, can_activate: true }),
            boot_id: "boot-1".to_owned(),
            configs: BTreeMap::new(),
            outranked: Vec::new(),
            sources: BTreeMap::new(),
            obeys_cluster: true,
            contents: [A, B].map(|uuid| (uuid.to_owned(), Content::LOADED)).into(),
            running: Running::Version("old".to_owned()),
            record: SimRecord::none(),
            hold: BaseOsHold::default(),
            statuses: BTreeMap::new(),
            zedkube: SimZedkube::new(DrainRequester::Update),
            nodeagent: NodeAgentView { is_running: true, action: Some(DeviceAction::default()) },
            refused: Vec::new(),
            lines: BTreeSet::new(),
            command: None,
            outlives: false,
            left_running: None,
            survives: false,
            frozen: None,
            window: None,
            is_pausing: false,
            proceeded: false,
            looked_at: (NodeAgentView { is_running: true, action: None }, BaseOsHold::default()),
            was_left_running: false,
            plan: Plan::Look,
        };
        sim.run();
        sim.done.clear();
        sim
    }

    pub(super) fn want(&mut self, config: BaseOsConfig) {
        self.configs.insert(config.content_tree_uuid.clone(), Configured::Given(config));
        self.run();
    }

    pub(super) fn remove(&mut self, uuid: &str) {
        self.configs.remove(uuid);
        self.run();
    }

    /// zedkube answers the pending request.
    pub(super) fn answer(&mut self, status: DrainStatus) {
        self.zedkube.answer(status);
        self.run();
    }

    /// The activate command ends.
    pub(super) fn end(&mut self, result: Result<(), &str>) {
        let serial = self.command.take().expect("no command runs");
        self.send(&Event::Ended { serial, result: result.map_err(str::to_owned) });
        self.run();
    }

    /// nodeagent reports this state about the reboot into an image.
    pub(super) fn nodeagent(&mut self, state: DeviceActionState) {
        self.nodeagent_about(state, 0);
        self.run();
    }

    /// nodeagent reports this state about a reboot with this counter; without a counter it is the reboot into the
    /// image of BaseOsHold.
    pub(super) fn nodeagent_about(&mut self, state: DeviceActionState, counter: u32) {
        let is_idle = state == DeviceActionState::Idle;
        let was = self.nodeagent.action.as_ref().map(|action| action.content_tree_uuid.clone());
        let image =
            was.filter(|uuid| !uuid.is_empty()).unwrap_or_else(|| self.hold.content_tree_uuid.clone());
        self.nodeagent.action = Some(DeviceAction {
            command: (!is_idle).then_some(Operation::Reboot),
            content_tree_uuid: if is_idle || counter != 0 { String::new() } else { image },
            error: if state == DeviceActionState::Failed { "no means".to_owned() } else { String::new() },
            counter,
            state,
            ..DeviceAction::default()
        });
    }

    /// The device boots: `/run` is empty.
    pub(super) fn boot(&mut self, boot_id: &str, running: Running) {
        self.power_cycle(boot_id);
        self.running = running;
        self.run();
    }

    /// The device boots, before the first step of baseos.
    pub(super) fn power_cycle(&mut self, boot_id: &str) {
        self.boot_id = boot_id.to_owned();
        self.configs.clear();
        (self.zedkube.request, self.zedkube.answer) = (None, None);
        self.hold = BaseOsHold::default();
        self.statuses.clear();
        self.nodeagent.action = Some(DeviceAction::default());
        self.command = None;
        self.left_running = None;
        self.reload();
    }

    /// D5: the gate, BaseOsHold, nodeagent and the record come before the command.
    fn invariant_activate(&self, config: &BaseOsConfig) {
        assert!(!self.policy.dry_run, "a dry run activates");
        assert!(self.proceeded, "activated although the gate is closed");
        let (nodeagent, hold) = &self.looked_at;
        assert_eq!(hold.state, BaseOsHoldState::Activating, "the hold was not on disk at the look");
        assert_eq!(hold.content_tree_uuid, config.content_tree_uuid);
        assert!(!is_busy(nodeagent), "nodeagent was there first");
        let record = self.record.disk.as_ref().and_then(|record| record.image(&config.content_tree_uuid));
        let record = record.expect("no record of the start on disk");
        assert_eq!((record.stage, &record.boot_id), (Stage::Started, &self.boot_id));
        assert!(record.starts <= 3, "started too often");
        assert_eq!((self.command, self.left_running), (None, None), "two commands at once");
        assert_eq!(self.frozen, None, "an activation begins during a freeze");
    }

    fn invariant_a_hold_releases_only_what_the_gate_does(&self, hold: &BaseOsHold) {
        let releases = matches!(hold.state, BaseOsHoldState::Activating | BaseOsHoldState::Activated);
        // The activate command of an earlier process may have been killed in this very step, because its time was
        // over.
        let is_running = matches!(self.state.phase, Phase::Activating { .. }) || self.was_left_running;
        assert!(!releases || self.proceeded || is_running, "{hold:?} although the gate is closed");
    }

    fn invariant_nothing_is_withdrawn_while_the_device_goes_down(&self) {
        let action = self.nodeagent.action.as_ref();
        let is_ours =
            |action: &DeviceAction| action.state == DeviceActionState::Acting && action.counter == 0;
        assert!(!action.is_some_and(is_ours), "withdrawn while Acting");
    }
}

impl Deref for Sim {
    type Target = SimLoop<BaseOs>;

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
    type Machine = BaseOs;

    fn look(&mut self) -> Event {
        let drain = self.zedkube.reading(self.state.listen());
        self.proceeded = drain.is_open();
        self.looked_at = (self.nodeagent.clone(), self.hold.clone());
        self.was_left_running = self.left_running.is_some();
        Event::Looked(Box::new(Facts {
            configs: self.configs.clone(),
            is_partial: false,
            contents: self.contents.clone(),
            running: self.running.clone(),
            sources: self.sources.clone(),
            outranked: self.outranked.clone(),
            obeys_cluster: self.obeys_cluster,
            left_running: self.left_running,
            frozen: self.frozen.clone(),
            window: self.window.clone(),
            is_pausing: self.is_pausing,
            drain,
            nodeagent: self.nodeagent.clone(),
            refused: self.refused.clone(),
        }))
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::Record(record) => {
                self.record.write((!record.is_empty()).then(|| record.clone()));
                self.done.push("record".to_owned());
            }
            Effect::WriteDown(line) => {
                assert!(self.policy.dry_run);
                assert_eq!(line.boot_id, self.boot_id);
                let line = (line.boot_id.clone(), line.content_tree_uuid.clone(), line.counter);
                if self.lines.insert(line) {
                    self.done.push("line".to_owned());
                }
            }
            Effect::Withdraw => {
                self.invariant_nothing_is_withdrawn_while_the_device_goes_down();
                self.zedkube.withdraw();
                self.done.push("withdraw".to_owned());
            }
            Effect::Request { own, uuid } => {
                let recorded = self.record.memory.as_ref().and_then(|record| record.request);
                assert_eq!(recorded, Some(*own), "a request is recorded before it is made");
                let source =
                    self.record.memory.as_ref().and_then(|record| Some(record.current.as_ref()?.source));
                let is_held =
                    |source| self.window.as_ref().is_some_and(|window| window.holds(source).is_some());
                assert!(!source.is_some_and(is_held), "a drain begins outside the window");
                self.zedkube.ask(*own, uuid.clone());
                self.done.push(format!("request {}", short(uuid)));
            }
            Effect::Hold(hold) => {
                self.invariant_a_hold_releases_only_what_the_gate_does(hold);
                if hold.state != self.hold.state {
                    self.done.push(format!("{:?}", hold.state));
                }
                self.hold = (**hold).clone();
            }
            Effect::Status(status) => {
                self.statuses.insert(status.content_tree_uuid.clone(), (**status).clone());
            }
            Effect::Forget(uuid) => {
                self.statuses.remove(uuid);
            }
            Effect::Activate { serial, config } => {
                self.invariant_activate(config);
                self.command = Some(*serial);
                self.done.push(format!("activate {}", short(&config.content_tree_uuid)));
            }
            Effect::EndLeftRunning => {
                assert!(self.left_running.is_some_and(|until_ms| until_ms <= self.now.boot_ms), "too early");
                self.left_running = self.left_running.filter(|_| self.survives);
                self.done.push("end".to_owned());
            }
            Effect::WakeAt(_) => {}
        }
    }

    /// The start of the command cannot fail: a missing program is a result of the command.
    fn write_of(&self, effect: &Effect) -> SimWrite {
        match effect {
            Effect::Activate { .. } | Effect::EndLeftRunning => SimWrite::Never,
            Effect::Record(_) => SimWrite::Record,
            Effect::WriteDown(_)
            | Effect::Withdraw
            | Effect::Request { .. }
            | Effect::Hold(_)
            | Effect::Status(_)
            | Effect::Forget(_)
            | Effect::WakeAt(_) => SimWrite::File,
        }
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
        State::resume(self.record.memory.clone(), self.hold.clone(), self.statuses.clone(), &self.boot_id)
    }

    fn phase(state: &State) -> String {
        variant_name(&state.phase)
    }

    fn reload(&mut self) {
        if self.command.take().is_some() && self.outlives {
            self.left_running = Some(self.now.boot_ms + TIMEOUT_MS);
        }
        self.record.reload();
        self.zedkube.own = self.record.memory.as_ref().and_then(|record| record.request);
        self.state = self.resumed();
    }

    /// nodeagent as specified, one file per turn: another agent may have changed a file between its read and its
    /// write. Its only command here is the reboot into an image.
    fn nodeagent_turn(&mut self) {
        let Some(action) = self.nodeagent.action.clone() else { return };
        if !self.nodeagent.is_running || (action.counter != 0 && action.state != DeviceActionState::Idle) {
            return;
        }
        let stands = self.hold.state == BaseOsHoldState::Activated
            && self
                .statuses
                .get(&self.hold.content_tree_uuid)
                .is_some_and(|status| status.activated && status.partition_state == "updating");
        let is_activating = self.hold.state == BaseOsHoldState::Activating || self.left_running.is_some();
        match (action.state, std::mem::replace(&mut self.plan, Plan::Look)) {
            (DeviceActionState::Idle, Plan::Take) => self.nodeagent_about(DeviceActionState::Taken, 0),
            (DeviceActionState::Idle, _) if stands => self.plan = Plan::Take,
            (DeviceActionState::Idle, _) => {}
            (DeviceActionState::Taken, Plan::Act) => {
                assert!(
                    self.zedkube.request.is_some() || self.zedkube.member == Member::No,
                    "reboot without a request"
                );
                self.nodeagent_about(DeviceActionState::Acting, 0);
            }
            (DeviceActionState::Taken, _) if stands && !is_activating => self.plan = Plan::Act,
            (DeviceActionState::Acting, _) => self.nodeagent_about(DeviceActionState::Failed, 0),
            (DeviceActionState::Taken | DeviceActionState::Done | DeviceActionState::Failed, _) => {
                if !stands {
                    self.nodeagent_about(DeviceActionState::Idle, 0);
                }
            }
        }
    }
}
