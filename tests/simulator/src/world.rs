//! The world around the devices: the cluster, the controller and the faults of one history, drawn from its seed.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fake_cluster::{FakeCluster, Limit, objects};
use pubsub::Root;
use schemas::Agent;
use serde_json::{Value, json};

use crate::coverage::Seen;
use crate::device::Device;
use crate::judge::Judge;
use crate::kernel::{self, DiskFault};
use crate::story::{hide_address, tell};
use crate::trouble::{self, Trouble};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;

/// The names of the devices' Nodes.
const NODES: [&str; 3] = ["edge-a", "edge-b", "edge-c"];

/// After the last fault everything has to come to rest within this time: a failed drain is tried again after half an
/// hour, and a node that is down gets half an hour to return.
const REST: u64 = 180 * MINUTE;

/// The verb that ends `freeze`.
const UNFREEZE: &str = "unfreeze";

/// Something that happens at its time.
#[derive(Clone, Debug)]
enum Happening {
    Command {
        device: usize,
        counter: u32,
        is_wanted: bool,
    },
    /// The controller publishes its last command again, as after each boot.
    Repeat(usize),
    Start(usize, Agent),
    Kill(usize, Agent),
    /// The agent dies in the middle of the next call but so many.
    KillSoon(usize, Agent, u32),
    PowerCut(usize),
    NodeReady(usize),
    /// Something is wrong with the cluster, or all is well again.
    Cluster(Trouble),
    /// Somebody does something by hand.
    Person(usize, Deed),
    /// Something happens to a device.
    Device(usize, Mishap),
}

impl Happening {
    /// The device that it concerns, and its kind, for the coverage; None if it is no fault.
    fn fault(&self) -> Option<(Option<usize>, String)> {
        match self {
            Self::Command { device, is_wanted: false, counter } if *counter > 0 => {
                Some((Some(*device), "command taken back".to_owned()))
            }
            Self::Kill(device, agent) => Some((Some(*device), format!("{} killed", agent.name()))),
            Self::PowerCut(device) => Some((Some(*device), "power cut".to_owned())),
            Self::Cluster(trouble) => Some((None, trouble.kind()?)),
            Self::Person(device, deed) => {
                let kind = match deed {
                    Deed::BindPod => "pod bound by hand".to_owned(),
                    Deed::Cordon(true) => "cordon by hand".to_owned(),
                    Deed::Cordon(false) => "uncordon by hand".to_owned(),
                    Deed::Verb(words) => format!("ebb {}", words.split(" --").next().unwrap_or_default()),
                    Deed::Override => "override by a file".to_owned(),
                };
                Some((Some(*device), kind))
            }
            Self::Device(device, mishap) => {
                let kind = match mishap {
                    Mishap::SoftReboot => "soft reboot",
                    Mishap::Suspend(_) => "suspend",
                    Mishap::ClockStep(_) => "clock step",
                    Mishap::Disk(Some(DiskFault::Full)) => "disk full",
                    Mishap::Disk(Some(DiskFault::ReadOnly)) => "disk read-only",
                    Mishap::Disk(Some(DiskFault::Slow(_))) => "disk slow",
                    Mishap::Resumed | Mishap::Disk(None) => return None,
                };
                Some((Some(*device), kind.to_owned()))
            }
            Self::Command { .. }
            | Self::Repeat(_)
            | Self::Start(..)
            | Self::KillSoon(..)
            | Self::NodeReady(_) => None,
        }
    }
}

/// What a person does.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Binds a pod to the node without the scheduler.
    BindPod,
    /// Cordons the node, or uncordons it.
    Cordon(bool),
    /// Runs a verb of `ebb` on the device.
    Verb(&'static str),
    /// Overrides the drain by a file.
    Override,
}

/// What happens to a device beside reboots and power cuts.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    SoftReboot,
    /// It is suspended for so many nanoseconds.
    Suspend(u64),
    Resumed,
    /// Its wall clock is set by so many nanoseconds.
    ClockStep(i64),
    /// Something is wrong with its `/persist`, or no more.
    Disk(Option<DiskFault>),
}

/// How a device goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Down {
    /// As a shutdown does: what was written is durable.
    Ordered,
    PowerCut,
}

/// The world of one history.
#[derive(Debug)]
struct World {
    cluster: FakeCluster,
    devices: Vec<Device>,
    judge: Judge,
    plan: BTreeMap<(u64, u32), Happening>,
    planned: u32,
    /// What happens when a device comes into a phase: the phase, how much later, and what.
    aimed: Vec<(&'static str, u64, Aimed)>,
    /// The last phase of each device.
    phases: BTreeMap<usize, String>,
    seen: Seen,
}

/// A fault that is to meet a device in a phase.
#[derive(Clone, Debug)]
enum Aimed {
    Kill(Agent),
    PowerCut,
    /// The API server goes away for so many nanoseconds.
    Outage(u64),
    Cluster(Trouble),
    Person(Deed),
    Device(Mishap),
}

/// Phases of zedkube, as its report names them. Those of a drain are short, and would rarely be met by chance.
const PHASES: [&str; 8] =
    ["Waiting", "Cordoning", "Cordoning", "Attempting", "Attempting", "Pausing", "Complete", "Returning"];

/// Runs one history. Returns what was wrong.
pub(crate) fn history() -> Result<Vec<String>> {
    let mut world = World::new()?;
    world.draw_devices()?;
    world.draw_faults();
    world.run()?;
    Ok(world.end())
}

pub(crate) fn is_unschedulable(node: &Value) -> bool {
    node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true)
}

/// One of these, by the seed.
pub(crate) fn pick<T: Copy>(of: &[T]) -> T {
    of[usize::try_from(kernel::below(of.len() as u64)).unwrap_or_default()]
}

/// A number below `limit`, by the seed.
pub(crate) fn below(limit: u32) -> u32 {
    u32::try_from(kernel::below(u64::from(limit))).unwrap_or_default()
}

/// True once in `one_of` times.
pub(crate) fn chance(one_of: u64) -> bool {
    kernel::below(one_of) == 0
}

fn draw_aimed() -> Aimed {
    match below(10) {
        0 | 1 => Aimed::Kill(pick(&Agent::ALL)),
        2 => Aimed::PowerCut,
        3 => Aimed::Outage(pick(&[1, 20, 400]) * SECOND),
        4 | 5 => Aimed::Cluster(trouble::draw_passing()),
        6 => Aimed::Person(pick(&[Deed::BindPod, Deed::BindPod, Deed::Cordon(false), Deed::Override])),
        7 => Aimed::Person(Deed::Verb(pick(&["cancel reboot", "force complete --reason now", "status"]))),
        8 => Aimed::Device(Mishap::Disk(Some(pick(&[
            DiskFault::Full,
            DiskFault::ReadOnly,
            DiskFault::Slow(SECOND),
        ])))),
        _ => Aimed::Device(pick(&[
            Mishap::SoftReboot,
            Mishap::Suspend(600 * SECOND),
            Mishap::ClockStep(-3600 * SECOND.cast_signed()),
            Mishap::ClockStep(3600 * SECOND.cast_signed()),
        ])),
    }
}

/// Time until an agent that has ended is started again.
fn draw_pause() -> u64 {
    if chance(10) { 12 * MINUTE } else { pick(&[SECOND / 10, SECOND, 5 * SECOND, 30 * SECOND]) }
}

impl World {
    fn new() -> Result<Self> {
        let (aimed, phases, seen) = (Vec::new(), BTreeMap::new(), Seen::default());
        // A client of the API server does not begin without a certificate of the system.
        let certificates = format!("{}/etc/ssl/certs/ca-certificates.crt", kernel::ROOT);
        kernel::put_file(&certificates, include_bytes!("../../../crates/cluster/src/connect_tests/ca.pem"));
        let cluster = FakeCluster::start().context("cannot start the cluster")?;
        hide_address(cluster.server_url().trim_start_matches("http://"));
        let (devices, plan) = (Vec::new(), BTreeMap::new());
        Ok(Self { cluster, devices, judge: Judge::default(), plan, planned: 0, aimed, phases, seen })
    }

    fn at(&mut self, time: u64, what: Happening) {
        self.planned += 1;
        self.plan.insert((time, self.planned), what);
    }

    /// Draws the devices, their pods, and their commands.
    fn draw_devices(&mut self) -> Result<()> {
        let number = pick(&[1, 1, 2, 3]);
        self.cluster.node("spare")?;
        for node in NODES.iter().take(number) {
            self.cluster.node(node)?;
            let root = Root::new(format!("{}/{node}", kernel::ROOT));
            let machine = u32::try_from(self.devices.len()).unwrap_or_default() + 1;
            let mut device = Device::new(root, node, machine, &self.cluster.kubeconfig())?;
            device.begin_boot(false)?;
            self.show_boot(&device)?;
            self.devices.push(device);
            self.judge.add();
            self.draw_pods(node)?;
        }
        if chance(2) {
            self.cluster.daemon_set("sensor")?;
        }
        kernel::set_yields(pick(&[0, 2, 5, 20]));
        for device in 0..number {
            self.at(9 * SECOND, Happening::Command { device, counter: 0, is_wanted: false });
            for agent in Agent::ALL {
                self.at(10 * SECOND + kernel::below(2 * SECOND), Happening::Start(device, agent));
            }
            let mut when = 20 * SECOND + kernel::below(30 * SECOND);
            for counter in 1..=pick(&[1, 1, 2, 3]) {
                self.at(when, Happening::Command { device, counter, is_wanted: true });
                if chance(4) {
                    let later = when + kernel::below(20 * SECOND);
                    self.at(later, Happening::Command { device, counter, is_wanted: false });
                }
                when += kernel::below(4 * MINUTE);
            }
        }
        Ok(())
    }

    fn draw_pods(&self, node: &str) -> Result<()> {
        let name = format!("web-{node}");
        self.cluster.deployment(&name, pick(&[1, 2, 3, 5, 8]), node)?;
        if chance(2) {
            self.cluster.budget(&name, Limit::MaxUnavailable(pick(&["1", "2", "50%"])))?;
        }
        if chance(2) {
            self.cluster.apply(objects::stateful_set_with_volumes(&format!("db-{node}"), 2, node))?;
        }
        Ok(())
    }

    /// Draws which faults there are, how many, and when.
    fn draw_faults(&mut self) {
        let any = || 10 * SECOND + kernel::below(3 * MINUTE);
        let devices = self.devices.len() as u64;
        let device = || usize::try_from(kernel::below(devices)).unwrap_or_default();
        for _ in 0..below(4) {
            self.at(any(), Happening::Kill(device(), pick(&Agent::ALL)));
        }
        for _ in 0..below(5) {
            self.at(any(), Happening::KillSoon(device(), pick(&Agent::ALL), below(120)));
        }
        if chance(3) {
            self.at(any(), Happening::PowerCut(device()));
        }
        for (at, trouble) in trouble::draw() {
            self.at(at, Happening::Cluster(trouble));
        }
        self.draw_people();
        self.draw_mishaps();
        for _ in 0..below(4) {
            let later = kernel::below(pick(&[1, SECOND / 5, 2 * SECOND]));
            let drawn = draw_aimed();
            self.aimed.push((pick(&PHASES), later, drawn));
        }
    }

    /// Looks which phase the device is in, after its report was written.
    fn look_at_phase(&mut self, device: usize) {
        let phase = self.devices[device].phase();
        if self.phases.insert(device, phase.clone()).as_ref() == Some(&phase) {
            return;
        }
        let (now, others) =
            std::mem::take(&mut self.aimed).into_iter().partition(|(aimed, ..)| *aimed == phase);
        self.aimed = others;
        let now: Vec<(&str, u64, Aimed)> = now;
        for (_, later, aimed) in now {
            let at = kernel::now() + later;
            match aimed {
                Aimed::Kill(agent) => self.at(at, Happening::Kill(device, agent)),
                Aimed::PowerCut => self.at(at, Happening::PowerCut(device)),
                Aimed::Outage(nanos) => {
                    self.at(at, Happening::Cluster(Trouble::ApiDown));
                    self.at(at + nanos, Happening::Cluster(Trouble::ApiUp));
                }
                Aimed::Cluster(trouble) => self.at(at, Happening::Cluster(trouble)),
                Aimed::Person(deed) => self.at(at, Happening::Person(device, deed)),
                Aimed::Device(mishap) => {
                    self.at(at, Happening::Device(device, mishap));
                    if matches!(mishap, Mishap::Disk(Some(_))) {
                        self.at(at + MINUTE, Happening::Device(device, Mishap::Disk(None)));
                    }
                }
            }
        }
    }

    fn draw_mishaps(&mut self) {
        let any = || 10 * SECOND + kernel::below(3 * MINUTE);
        let devices = self.devices.len() as u64;
        let device = || usize::try_from(kernel::below(devices)).unwrap_or_default();
        if chance(6) {
            self.at(any(), Happening::Device(device(), Mishap::SoftReboot));
        }
        if chance(6) {
            let nanos = pick(&[5, 60, 600, 3600]) * SECOND;
            self.at(any(), Happening::Device(device(), Mishap::Suspend(nanos)));
        }
        if chance(4) {
            let step = pick(&[-86_400, -3600, -30, 30, 3600, 30 * 86_400]) * SECOND.cast_signed();
            self.at(any(), Happening::Device(device(), Mishap::ClockStep(step)));
        }
        if chance(4) {
            let (device, from) = (device(), any());
            let slow = DiskFault::Slow(pick(&[SECOND / 10, SECOND, 10 * SECOND]));
            let fault = pick(&[DiskFault::Full, DiskFault::ReadOnly, slow]);
            self.at(from, Happening::Device(device, Mishap::Disk(Some(fault))));
            let until = from + kernel::below(pick(&[5, 60, 300]) * SECOND);
            self.at(until, Happening::Device(device, Mishap::Disk(None)));
        }
    }

    /// Draws what people do beside the controller.
    fn draw_people(&mut self) {
        let any = || 15 * SECOND + kernel::below(2 * MINUTE);
        let devices = self.devices.len() as u64;
        let device = || usize::try_from(kernel::below(devices)).unwrap_or_default();
        if chance(4) {
            self.at(any(), Happening::Person(device(), Deed::BindPod));
        }
        if chance(5) {
            let (device, from) = (device(), any());
            self.at(from, Happening::Person(device, Deed::Cordon(true)));
            if chance(2) {
                let later = from + kernel::below(2 * MINUTE);
                self.at(later, Happening::Person(device, Deed::Cordon(false)));
            }
        }
        if chance(5) {
            self.at(any(), Happening::Person(device(), Deed::Override));
        }
        if chance(3) {
            let (device, from) = (device(), any());
            self.at(from, Happening::Person(device, Deed::Verb("reboot --reason kernel")));
            let more = pick(&[
                "cancel reboot",
                "reboot --reason again",
                "force complete --reason now",
                "freeze --reason guests",
                "status",
                "reboot --now --reason urgent",
            ]);
            let later = from + kernel::below(40 * SECOND);
            self.at(later, Happening::Person(device, Deed::Verb(more)));
            if more.starts_with("freeze") {
                let end = later + kernel::below(3 * MINUTE);
                self.at(end, Happening::Person(device, Deed::Verb(UNFREEZE)));
            }
        }
    }

    /// The Node says which machine and which boot it is.
    fn show_boot(&self, device: &Device) -> Result<()> {
        let info = json!({"bootID": device.boot_id(), "machineID": device.machine_id()});
        self.cluster.edit("nodes", "", &device.node, |node| {
            if let Some(status) = node.get_mut("status").and_then(Value::as_object_mut) {
                status.insert("nodeInfo".to_owned(), info);
            }
        })?;
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        let mut rest = None;
        loop {
            let until = if let Some((time, _)) = self.plan.keys().next() {
                *time
            } else {
                if self.judge.missing(&self.cluster, &self.devices).is_empty() {
                    return Ok(());
                }
                if rest.is_none() {
                    self.trouble(&Trouble::Over)?;
                }
                let rest = *rest.get_or_insert_with(|| kernel::now() + REST);
                if kernel::now() >= rest {
                    return Ok(());
                }
                rest.min(kernel::now() + MINUTE)
            };
            kernel::wait_for_change(until);
            self.observe()?;
            self.judge.look(&self.cluster, &self.devices);
            while let Some(next) = self.plan.keys().next().copied().filter(|(time, _)| *time <= kernel::now())
            {
                if let Some(what) = self.plan.remove(&next) {
                    self.happen(what)?;
                }
            }
        }
    }

    /// Notes that the device meets a fault in its present phase, or that all devices do.
    fn note(&mut self, device: Option<usize>, fault: &str) {
        for (index, known) in self.devices.iter().enumerate() {
            if device.is_none_or(|device| device == index) {
                let phase = if self.judge.is_down(index) { "(down)".to_owned() } else { known.phase() };
                self.seen.add(&phase, fault);
            }
        }
    }

    fn happen(&mut self, what: Happening) -> Result<()> {
        if let Some((device, fault)) = what.fault() {
            self.note(device, &fault);
        }
        match what {
            Happening::Command { device, counter, is_wanted } => {
                self.judge.commanded(device, (is_wanted && counter > 0).then_some(counter));
                let device = &mut self.devices[device];
                tell(&device.node, &format!("controller: reboot {counter}, wanted: {is_wanted}"));
                device.command(counter, is_wanted)?;
            }
            Happening::Repeat(device) => self.devices[device].repeat_command()?,
            Happening::Start(device, agent) => self.devices[device].start(agent),
            Happening::Kill(device, agent) => {
                if self.devices[device].kill(agent) {
                    tell(&self.devices[device].node, &format!("{} is killed", agent.name()));
                    self.restart(device, agent);
                }
            }
            Happening::KillSoon(device, agent, calls) => self.devices[device].kill_soon(agent, calls),
            Happening::PowerCut(device) => {
                if !self.judge.is_down(device) {
                    self.judge.power_cut(device);
                    self.boot(device, Down::PowerCut)?;
                }
            }
            Happening::NodeReady(device) => {
                self.judge.is_back(device);
                let device = &self.devices[device];
                tell(&device.node, "the Node is Ready again");
                self.show_boot(device)?;
                self.cluster.faults().start_kubelet(&device.node);
            }
            Happening::Cluster(trouble) => self.trouble(&trouble)?,
            Happening::Person(device, deed) => self.deed(device, deed)?,
            Happening::Device(device, mishap) => self.mishap(device, mishap)?,
        }
        Ok(())
    }

    fn trouble(&mut self, trouble: &Trouble) -> Result<()> {
        tell("world", &trouble.words());
        match trouble {
            Trouble::ApiDown => self.judge.api_is_away(),
            Trouble::ApiUp => self.judge.api_is_back(),
            Trouble::Lasts(..) | Trouble::SilentWatches(_) | Trouble::FrozenCache | Trouble::Over => {
                self.judge.disturbed();
            }
            Trouble::Fault(..)
            | Trouble::CutWatches
            | Trouble::ForgottenHistory
            | Trouble::Paused(_)
            | Trouble::BlindScheduler => {}
        }
        trouble.begin(&self.cluster)?;
        // The end of all faults lets all kubelets run: those of devices that are down stay away.
        for (index, device) in self.devices.iter().enumerate() {
            if trouble.is_over() && self.judge.is_away(index) {
                self.cluster.faults().stop_kubelet(&device.node);
            }
        }
        Ok(())
    }

    fn deed(&mut self, index: usize, deed: Deed) -> Result<()> {
        let is_on_the_device = matches!(deed, Deed::Verb(_) | Deed::Override);
        if is_on_the_device && self.judge.is_away(index) {
            if matches!(deed, Deed::Verb(UNFREEZE)) {
                self.at(kernel::now() + MINUTE, Happening::Person(index, deed));
            }
            return Ok(());
        }
        let device = &mut self.devices[index];
        match deed {
            Deed::BindPod => {
                self.planned += 1;
                let name = format!("late-{}", self.planned);
                tell(&device.node, &format!("somebody binds the pod {name} to it"));
                self.cluster.pod(&name, &device.node)?;
            }
            Deed::Cordon(is_cordoned) => self.cordon(index, is_cordoned)?,
            Deed::Verb(words) => {
                tell(&device.node, &format!("an operator: ebb {words}"));
                device.run_verb(words);
                if words.starts_with("force") {
                    self.judge.overridden(index);
                }
            }
            Deed::Override => {
                let written = device.override_drain(r#"{"Status":9,"RequestedBy":1}"#);
                tell(&device.node, &format!("an operator overrides the drain by a file: {written:?}"));
                if written.is_ok() {
                    self.judge.overridden(index);
                }
            }
        }
        Ok(())
    }

    fn mishap(&mut self, index: usize, mishap: Mishap) -> Result<()> {
        let (node, machine) = (self.devices[index].node.clone(), self.devices[index].machine);
        let is_down = self.judge.is_down(index);
        match mishap {
            Mishap::SoftReboot if !is_down => {
                tell(&node, "a soft reboot");
                self.stop(index);
                self.devices[index].begin_userspace()?;
                self.start_all(index, kernel::now() + SECOND);
                self.at(kernel::now() + 2 * SECOND, Happening::Repeat(index));
            }
            Mishap::Suspend(nanos) if !is_down => {
                tell(&node, &format!("the device is suspended for {} s", nanos / SECOND));
                self.cluster.faults().stop_kubelet(&node);
                kernel::suspend(machine, nanos);
                self.judge.suspended(index, nanos);
                self.at(kernel::now() + nanos, Happening::Device(index, Mishap::Resumed));
            }
            Mishap::Resumed if !is_down => self.cluster.faults().start_kubelet(&node),
            Mishap::SoftReboot | Mishap::Suspend(_) | Mishap::Resumed => {}
            Mishap::ClockStep(nanos) => {
                tell(&node, &format!("the wall clock is set by {} s", nanos / SECOND.cast_signed()));
                kernel::step_clock(machine, nanos);
            }
            Mishap::Disk(fault) => {
                tell(&node, &format!("the disk of /persist: {fault:?}"));
                let persist = self.devices[index].root.join("/persist");
                kernel::set_disk_fault(&persist.to_string_lossy(), fault);
            }
        }
        Ok(())
    }

    /// A person cordons the node, if nobody has, or uncordons it.
    fn cordon(&mut self, device: usize, is_cordoned: bool) -> Result<()> {
        let node = &self.devices[device].node;
        let found = self.cluster.get("nodes", "", node).unwrap_or_default();
        if is_unschedulable(&found) == is_cordoned {
            return Ok(());
        }
        tell(node, if is_cordoned { "a person cordons the node" } else { "a person uncordons the node" });
        self.cluster.edit("nodes", "", node, |node| {
            node["spec"]["unschedulable"] = if is_cordoned { json!(true) } else { Value::Null };
        })?;
        self.judge.cordoned(device, is_cordoned);
        Ok(())
    }

    /// All processes of the device end.
    fn stop(&mut self, device: usize) {
        self.devices[device].kill_all();
        self.plan.retain(|_, what| !matches!(what, Happening::Start(other, _) if *other == device));
    }

    fn start_all(&mut self, device: usize, from: u64) {
        for agent in Agent::ALL {
            self.at(from + kernel::below(5 * SECOND), Happening::Start(device, agent));
        }
    }

    fn restart(&mut self, device: usize, agent: Agent) {
        self.at(kernel::now() + draw_pause(), Happening::Start(device, agent));
    }

    /// The device goes down and boots: nothing runs, `/run` is empty or kept, the Node is not Ready for a while.
    fn boot(&mut self, device: usize, why: Down) -> Result<()> {
        let node = self.devices[device].node.clone();
        let keeps_run = chance(8);
        let run = if keeps_run { "kept" } else { "emptied" };
        let reason = if why == Down::PowerCut { "a power cut" } else { "nodeagent" };
        tell(&node, &format!("the device goes down because of {reason}; /run is {run}"));
        self.stop(device);
        let root = self.devices[device].root.path().to_string_lossy().into_owned();
        kernel::set_disk_fault(&format!("{root}/persist"), None);
        match why {
            Down::PowerCut => kernel::cut_power(&root),
            Down::Ordered => kernel::sync_all(&root),
        }
        self.cluster.faults().stop_kubelet(&node);
        self.devices[device].begin_boot(keeps_run)?;
        let up = kernel::now() + 20 * SECOND + kernel::below(MINUTE);
        self.start_all(device, up);
        self.at(up + kernel::below(10 * SECOND), Happening::Repeat(device));
        self.at(up + kernel::below(30 * SECOND), Happening::NodeReady(device));
        Ok(())
    }

    /// Looks at what the agents have done.
    fn observe(&mut self) -> Result<()> {
        for (who, path) in kernel::take_writes() {
            self.judge.written(&who, &path);
            if path.ends_with("/NodeDrainReport/global.json") {
                let of = |device: &Device| path.starts_with(&*device.root.path().to_string_lossy());
                self.devices.iter().position(of).into_iter().for_each(|device| self.look_at_phase(device));
            }
        }
        let mut again = Vec::new();
        for index in 0..self.devices.len() {
            let device = &mut self.devices[index];
            for (agent, why) in device.take_ended() {
                let node = device.node.clone();
                match why {
                    None => {
                        tell(&node, &format!("{} is killed in the middle of a call", agent.name()));
                        self.seen.add(&device.phase(), &format!("{} killed in a call", agent.name()));
                    }
                    Some(why) => self.judge.ended(&node, agent, &why),
                }
                self.planned += 1;
                let at = kernel::now() + draw_pause();
                self.plan.insert((at, self.planned), Happening::Start(index, agent));
            }
            for (words, is_done) in device.take_verbs() {
                tell(&device.node, &format!("ebb {words}: {}", if is_done { "done" } else { "refused" }));
                self.judge.verb(index, words, is_done);
                // Whoever has frozen a device does not forget it.
                if words == UNFREEZE && !is_done {
                    again.push(index);
                }
            }
            let actions = device.actions();
            if self.judge.acted(&self.cluster, index, device, &actions) {
                self.boot(index, Down::Ordered)?;
            }
        }
        for index in again {
            self.at(kernel::now() + MINUTE, Happening::Person(index, Deed::Verb(UNFREEZE)));
        }
        Ok(())
    }

    fn end(mut self) -> Vec<String> {
        self.judge.at_rest(&self.cluster, &self.devices);
        for device in &mut self.devices {
            device.kill_all();
        }
        self.seen.lines().for_each(kernel::add_line);
        tell("world", &format!("the history ends after {} s", kernel::now() / SECOND));
        self.judge.into_wrong()
    }
}
