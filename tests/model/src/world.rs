//! One state of the model: the device, its agents, the cluster and the person who gives orders.

use std::sync::Arc;

use device_op::OperationRecord;
use device_op::facts::{Kind, all_kinds};
use schemas::Member;
use schemas::{BaseOsConfig, BaseOsStatus, DeviceOpsCmd};

use crate::action::{Agent, Party};
use crate::baseos::{Activation, BaseOs};
use crate::device_op::{Around, DeviceOp};
use crate::files::Files;
use crate::monitor::Monitor;
use crate::nodeagent::NodeAgent;
use crate::scenario::{Mutation, Scenario};
use crate::server::Server;
use crate::zedkube::{Call, Zedkube};

/// UUID of the one image.
pub const IMAGE: &str = "image";

/// The version that runs at the start.
const OLD: &str = "1";

/// The version of the image.
const NEW: &str = "2";

/// The time, in milliseconds, at which the model begins in the first boot.
const FIRST_MS: u64 = 100_000;

/// The time, in milliseconds, at which the model begins in any later boot.
const BOOT_MS: u64 = 50_000;

/// One state of the whole model.
#[derive(Clone, Debug)]
pub struct World {
    /// The time, in milliseconds of this boot.
    pub now: u64,
    /// Number of the boot.
    pub boot: u32,
    /// The files.
    pub files: Arc<Files>,
    /// The cluster.
    pub server: Arc<Server>,
    /// zedkube.
    pub zedkube: Life<Zedkube>,
    /// device-op.
    pub device_op: Life<DeviceOp>,
    /// baseos.
    pub baseos: Life<BaseOs>,
    /// nodeagent.
    pub nodeagent: Life<NodeAgent>,
    /// The device itself, and the controller.
    pub device: Device,
    /// Calls whose agents wait for them no longer, but that may still be carried out.
    pub strays: Vec<Call>,
    /// The party whose turn it is.
    pub turn: Party,
    /// The party of the last step, and whether other parties can see that step.
    pub last: (Party, bool),
    /// Number of deviations that are left.
    pub left: u8,
    /// Number of orders of the script that were given.
    pub ordered: usize,
    /// The monitor of promises.
    pub monitor: Monitor,
    /// Detects when everything is at rest.
    pub rest: Rest,
    /// Number of steps; counted only if the scenario says so.
    pub steps: u32,
}

/// An agent: running or not.
#[derive(Clone, Debug)]
pub enum Life<T> {
    /// The agent runs.
    Up(Arc<T>),
    /// The agent does not run.
    Down {
        /// When the agent starts next.
        until: u64,
    },
}

impl<T> Life<T> {
    /// True if the agent runs.
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Up(_))
    }

    /// The agent's process, if it runs.
    pub fn up(&self) -> Option<&T> {
        match self {
            Self::Up(process) => Some(process),
            Self::Down { .. } => None,
        }
    }
}

impl<T: Clone> Life<T> {
    /// The agent's process for changes, if it runs.
    pub fn change(&mut self) -> Option<&mut T> {
        match self {
            Self::Up(process) => Some(Arc::make_mut(process)),
            Self::Down { .. } => None,
        }
    }
}

/// The device and its surroundings.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The version that runs.
    pub running: String,
    /// The version that the next boot runs.
    pub next: String,
    /// The command for which the device is going down.
    pub going_down: Option<(Kind, u32)>,
    /// The commands of the controller.
    pub commands: std::collections::BTreeMap<Kind, DeviceOpsCmd>,
    /// The image that the controller wants.
    pub config: Option<BaseOsConfig>,
    /// The controller has not published its commands again since the boot.
    pub is_unsaid: bool,
    /// An activate command whose baseos has died.
    pub left_running: Option<Activation>,
    /// The API server does not answer until this time.
    pub outage_until: Option<u64>,
    /// The peer node is down until this time.
    pub peer_down_until: Option<u64>,
    /// The peer node has a slot until this time.
    pub peer_slot_until: Option<u64>,
    /// Number of requests made, so that each has a time of its own.
    pub requests_made: i64,
    /// Number of pods created.
    pub pods_made: usize,
}

/// Detects that nothing has changed for a long time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rest {
    /// Hash of the last visible state.
    pub seen: u64,
    /// When the visible state changed last.
    pub since: u64,
    /// Nothing has changed for long enough.
    pub is_settled: bool,
}

impl World {
    /// The state of a member of a cluster of two nodes, before any agent has started.
    pub fn new(scenario: &Scenario) -> Self {
        let mut files = Files::default();
        files.persist.member = Some(Member::Yes);
        files.persist.counters = all_kinds().map(|kind| (kind, 1)).collect();
        let down = FIRST_MS;
        let mut server = Server::new(scenario.pods, boot_id(1));
        let peer_slot_until = (scenario.peer_holds_ms > 0).then_some(FIRST_MS + scenario.peer_holds_ms);
        if peer_slot_until.is_some() {
            server.give_peer_a_slot();
        }
        Self {
            now: FIRST_MS,
            boot: 1,
            files: Arc::new(files),
            server: Arc::new(server),
            zedkube: Life::Down { until: down },
            device_op: Life::Down { until: down },
            baseos: Life::Down { until: down },
            nodeagent: Life::Down { until: down },
            device: Device {
                running: OLD.to_owned(),
                next: OLD.to_owned(),
                going_down: None,
                commands: std::collections::BTreeMap::new(),
                config: None,
                is_unsaid: false,
                left_running: None,
                outage_until: None,
                peer_down_until: None,
                peer_slot_until,
                requests_made: 1,
                pods_made: scenario.pods,
            },
            strays: Vec::new(),
            turn: Party::Init,
            last: (Party::Init, true),
            left: 0,
            ordered: 0,
            monitor: Monitor::default(),
            rest: Rest { seen: 0, since: FIRST_MS, is_settled: false },
            steps: 0,
        }
    }

    /// Id of this boot.
    pub fn boot_id(&self) -> String {
        boot_id(self.boot)
    }

    /// True if an activate command runs, whichever process has started it.
    pub(crate) fn is_activating(&self) -> bool {
        self.device.left_running.is_some() || self.baseos.up().is_some_and(|baseos| baseos.command.is_some())
    }

    /// The surroundings as device-op and baseos see them.
    pub(crate) fn around<'a>(&self, boot_id: &'a str, scenario: &'a Scenario) -> Around<'a> {
        Around {
            now: self.now,
            boot_id,
            is_zedkube_away: !self.zedkube.is_up(),
            is_nodeagent_up: self.nodeagent.is_up(),
            next_request: self.device.requests_made,
            scenario,
        }
    }

    /// Starts an agent.
    pub(crate) fn start(&mut self, agent: Agent) {
        let boot_id = self.boot_id();
        let files = Arc::make_mut(&mut self.files);
        match agent {
            Agent::Zedkube => {
                self.zedkube = Life::Up(Arc::new(Zedkube::start(files, &boot_id, self.now)));
            }
            Agent::DeviceOp => self.device_op = Life::Up(Arc::new(DeviceOp::start(files, &boot_id))),
            Agent::BaseOs => self.baseos = Life::Up(Arc::new(BaseOs::start(files, &boot_id))),
            Agent::NodeAgent => self.nodeagent = Life::Up(Arc::new(NodeAgent::start(files, &boot_id))),
        }
    }

    /// Kills an agent. Its calls may still be carried out.
    pub(crate) fn kill(&mut self, agent: Agent, until: u64) {
        match agent {
            Agent::Zedkube => {
                if let Some(zedkube) = self.zedkube.up() {
                    let is_open = |call: &&Call| call.answer.is_none() && call.ask.is_write();
                    self.strays.extend(zedkube.calls.iter().filter(is_open).cloned());
                }
                self.zedkube = Life::Down { until };
            }
            Agent::DeviceOp => self.device_op = Life::Down { until },
            Agent::BaseOs => {
                if let Some(command) = self.baseos.up().and_then(|baseos| baseos.command.clone()) {
                    self.device.left_running = Some(command);
                }
                self.baseos = Life::Down { until };
            }
            Agent::NodeAgent => self.nodeagent = Life::Down { until },
        }
    }

    /// The device goes down and boots again: `/run` is empty, no agent runs, and the kubelet has not reported yet.
    pub(crate) fn boots(&mut self, cause: Option<(Kind, u32)>, scenario: &Scenario) {
        let boot_id = self.boot_id();
        self.monitor.boots(cause, &self.files, &boot_id, scenario);
        let files = Arc::make_mut(&mut self.files);
        if !scenario.keeps_run {
            files.run = crate::files::RunFiles::default();
        }
        if scenario.mutation == Some(Mutation::PersistIsLost) {
            // Without this record all existing commands would only be recorded.
            let record = OperationRecord { has_sources: true, ..OperationRecord::new(&boot_id) };
            files.persist.operations = Some(record);
            files.persist.counters.values_mut().for_each(|counter| *counter = 1);
        }
        for agent in Agent::ALL {
            self.kill(agent, BOOT_MS);
        }
        self.strays.clear();
        self.boot += 1;
        let shift = |until: u64, now: u64| BOOT_MS + until.saturating_sub(now);
        let device = &mut self.device;
        for until in [&mut device.outage_until, &mut device.peer_down_until, &mut device.peer_slot_until] {
            *until = until.map(|until| shift(until, self.now));
        }
        device.going_down = None;
        device.left_running = None;
        device.running.clone_from(&device.next);
        device.is_unsaid = scenario.republishes;
        Arc::make_mut(&mut self.server).change_own(|own| own.ready = false);
        self.now = BOOT_MS;
        self.rest = Rest { seen: 0, since: BOOT_MS, is_settled: false };
        self.turn = Party::Init;
    }

    /// Wakes the agents that watch a file which has changed.
    pub(crate) fn files_changed(&mut self, before: &Files) {
        let (was, is) = (&before.run, &self.files.run);
        let for_gate = was.requests != is.requests || was.status != is.status || was.report != is.report;
        let device_op = self.device_op.up().is_some_and(|agent| {
            (for_gate && agent.listens_to_gate()) || (was.report != is.report && agent.listens_to_report())
        });
        let baseos = self.baseos.up().is_some_and(|agent| {
            (for_gate && agent.listens_to_gate()) || (was.report != is.report && agent.listens_to_report())
        });
        let for_device_op = device_op || was.commands != is.commands || was.action != is.action;
        let for_baseos = baseos || was.configs != is.configs || was.action != is.action;
        let for_nodeagent = was.status != is.status
            || was.zedagent != is.zedagent
            || was.device_op != is.device_op
            || was.hold != is.hold
            || was.images != is.images;
        let files = Arc::clone(&self.files);
        if was.requests != is.requests {
            self.monitor.requests_written(&files);
        }
        if for_device_op && let Some(device_op) = self.device_op.change() {
            device_op.is_restless = true;
        }
        if for_baseos && let Some(baseos) = self.baseos.change() {
            baseos.is_restless = true;
        }
        if for_nodeagent && let Some(nodeagent) = self.nodeagent.change() {
            nodeagent.is_restless = true;
        }
    }

    /// A hash of what an operator sees, without times and counts: while it stays the same, nothing happens.
    pub(crate) fn seen(&self) -> u64 {
        let run = &self.files.run;
        let images: Vec<&BaseOsStatus> = run.images.values().collect();
        let holders: Vec<&String> = self.server.slots.holders.iter().map(|holder| &holder.node).collect();
        let pods = self.server.pods.len();
        let text = format!(
            "{:?}",
            (
                (&run.requests, &run.status, &run.report, &run.zedagent, &run.device_op, &run.action),
                (&run.hold, images, &self.files.persist.operations, &self.files.persist.activations),
                (&self.server.own, holders, pods, &self.server.is_reachable, self.boot),
            )
        );
        crate::canonical::hash(text.as_bytes())
    }

    /// The configuration of the image, wanted or not.
    pub(crate) fn image(is_wanted: bool) -> BaseOsConfig {
        BaseOsConfig {
            base_os_version: NEW.to_owned(),
            content_tree_uuid: IMAGE.to_owned(),
            retry_update_counter: 0,
            activate: is_wanted,
        }
    }
}

/// Id of the boot with this number.
fn boot_id(number: u32) -> String {
    format!("boot-{number}")
}
