//! Draws a history: its devices, their commands, and which faults meet them.

use std::time::Duration;

use anyhow::Result;
use cluster::node_commands::NodeCommand;
use fake_cluster::Effect;
use pubsub::Root;
use schemas::{Agent, Operation};

use super::happening::{Deed, Fault, Happening, Mishap};
use super::situations::ORDERS;
use super::{HOUR, KEEP, MILLISECOND, MINUTE, SECOND, UNFREEZE, World, below, chance, pick, show_boot};
use crate::device::Device;
use crate::eve::Eve;
use crate::kernel::{self, DiskFault};
use crate::limits::Limits;
use crate::programs::{self, Fate};
use crate::trouble::{self, Trouble};

/// Settings of an operator, and in one of how many histories each is.
pub(super) const SETTINGS: [(u64, &str); 2] = [(6, "drain.attempts = 2"), (8, "stateful.parallel = 4")];

/// The setting by which commands of the cluster count.
pub(super) const FROM_CLUSTER: &str = "commands.from-cluster = true\n";

/// The setting by which the host commands reboots.
pub(super) const SENTINEL: &str = "sentinel.path = \"/run/reboot-required\"\n";

/// The update that the cluster commands, to image `2`.
const UPDATE: &str = r#"{"image":"6ba7b810-9dad-11d1-80b4-000000000002","version":"2","reason":"kernel"}"#;

/// Phases of zedkube, as its report names them. Those of a drain are short, and would rarely be met by chance.
const PHASES: [&str; 8] =
    ["Waiting", "Cordoning", "Cordoning", "Attempting", "Attempting", "Pausing", "Complete", "Returning"];

/// The names of the devices' Nodes.
const NODES: [&str; 3] = ["edge-a", "edge-b", "edge-c"];

impl World {
    /// Draws the devices, their pods, and their commands.
    pub(super) fn draw_devices(&mut self) -> Result<()> {
        let number = pick(&[1, 1, 1, 1, 1, 2, 2, 3]);
        self.cluster.node("spare")?;
        for node in NODES.iter().take(number) {
            self.cluster.node(node)?;
            let root = Root::new(format!("{}/{node}", kernel::ROOT));
            let machine = u32::try_from(self.devices.len()).unwrap_or_default() + 1;
            let mut device = Device::new(root, node, machine, &self.cluster.kubeconfig())?;
            let index = self.devices.len();
            let has_no_means = chance(20);
            device.set(&self.settings_of(index, has_no_means))?;
            // It knows no slots, so it is alone.
            let has_eve = number == 1 && chance(4);
            device.eve = has_eve.then(|| Eve::new(&device.root, node));
            device.begin_boot(false)?;
            show_boot(&self.cluster, &device)?;
            self.devices.push(device);
            self.judge.add(has_eve);
            if has_no_means {
                self.judge.has_no_means(index);
            }
            if self.settings.contains(FROM_CLUSTER) {
                self.judge.obeys_the_cluster(index);
            }
            draw_programs(index, &self.limits);
            self.draw_pods(index, node)?;
        }
        if chance(2) {
            self.cluster.daemon_set("sensor")?;
        }
        // One is off for long, and takes the API server with it, while another one is to go down.
        let takes_it_down = number > 1 && chance(3);
        if takes_it_down && self.has_next_part() {
            self.aimed.push((
                "Complete",
                2 * SECOND,
                Fault::Lasting(Trouble::ApiDown, self.limits.undrained()),
            ));
        }
        kernel::set_yields(pick(&[0, 2, 5, 20]));
        for device in 0..number {
            // A command that is the first of its kind may have been done already, so it is only recorded.
            let has_commands = !chance(10);
            for operation in Operation::ALL.into_iter().filter(|_| has_commands) {
                let first = Happening::Command { device, operation, counter: 0, is_wanted: false };
                self.at(9 * SECOND, first);
            }
            for agent in Agent::ALL {
                self.at(10 * SECOND + kernel::below(2 * SECOND), Happening::Start(device, agent));
            }
            self.draw_commands(device, takes_it_down);
            if chance(4) {
                let from = 20 * SECOND + kernel::below(2 * MINUTE);
                self.plan_part([(from, Happening::Image(device, "2", 1))]);
                if chance(2) {
                    let version = pick(&["1", "2", "3"]);
                    let later = from + kernel::below(5 * MINUTE);
                    self.plan_part([(later, Happening::Image(device, version, 2))]);
                }
            }
        }
        Ok(())
    }

    /// Draws the controller's commands for a device. If the first device is to take the API server down, it is powered
    /// off first.
    pub(super) fn draw_commands(&mut self, device: usize, takes_it_down: bool) {
        let mut when = 20 * SECOND + kernel::below(30 * SECOND);
        for counter in 1..=pick(&[1, 1, 2, 3]) {
            let operation = match () {
                () if self.judge.is_without_means(device) => Operation::Reboot,
                () if takes_it_down && (device, counter) == (0, 1) => Operation::Poweroff,
                () => draw_operation(),
            };
            let command = |is_wanted| Happening::Command { device, operation, counter, is_wanted };
            self.plan_part([(when, command(true))]);
            if chance(4) {
                let later = when + kernel::below(20 * SECOND);
                self.plan_part([(later, command(false))]);
            }
            when += kernel::below(4 * MINUTE);
        }
    }

    /// The operator's settings of a device, as TOML.
    pub(super) fn settings_of(&self, device: usize, has_no_means: bool) -> String {
        let program = |name| programs::setting(device, name);
        let set = |is_set: bool, setting: String| if is_set { setting } else { String::new() };
        [
            self.settings.clone(),
            format!("device.shutdown = {}", program(programs::STOP_APPS)),
            set(!has_no_means, format!("device.command = {}", program(programs::TAKE_DOWN))),
            set(chance(2), format!("device.pre = [{}]", program(programs::HOOK))),
            format!("baseos.activate = {}", program(programs::ACTIVATE)),
            set(chance(4), format!("health.command = {}", program(programs::HEALTH))),
        ]
        .join("\n")
    }

    /// Draws which faults there are, how many, and when.
    pub(super) fn draw_faults(&mut self) {
        let any = || 10 * SECOND + kernel::below(3 * MINUTE);
        let devices = self.devices.len() as u64;
        let device = || usize::try_from(kernel::below(devices)).unwrap_or_default();
        if devices > 1 && self.limits.slots > 0 && chance(5) {
            // With other faults in the way, two nodes would rarely be ready to go down together.
            self.draw_common_reboot();
            return;
        }
        for _ in 0..below(4) {
            self.plan_part([(any(), Happening::Fault(device(), Fault::Kill(pick(&Agent::ALL))))]);
        }
        if chance(5) {
            let nanos = pick(&[2 * SECOND, MINUTE, 400 * SECOND, self.limits.long]);
            self.plan_part([(any(), Happening::Fault(device(), Fault::Stop(pick(&Agent::ALL), nanos)))]);
        }
        for _ in 0..below(5) {
            self.plan_part([(
                any(),
                Happening::Fault(device(), Fault::KillSoon(pick(&Agent::ALL), below(120))),
            )]);
        }
        if chance(3) {
            self.plan_part([(any(), Happening::Fault(device(), Fault::PowerCut))]);
        }
        for part in trouble::draw(&self.limits) {
            if self.has_next_part() {
                for (time, trouble) in part {
                    self.at(time, Happening::Fault(0, Fault::Cluster(trouble)));
                }
            }
        }
        self.draw_people();
        self.draw_doubts();
        self.draw_mishaps();
        self.draw_attempts();
        self.draw_situations();
        for _ in 0..below(4) {
            let later = kernel::below(pick(&[1, SECOND / 5, 2 * SECOND]));
            let drawn = draw_aimed(&self.limits);
            let phase = pick(&PHASES);
            if self.has_next_part() {
                self.aimed.push((phase, later, drawn));
            }
        }
        if chance(15) {
            self.draw_other_cluster();
        }
    }

    /// Draws what meets an attempt while it goes on: those are short, and would rarely be met by chance.
    fn draw_attempts(&mut self) {
        if chance(4) && self.has_next_part() {
            let nanos = SECOND / 4 + kernel::below(2 * SECOND);
            self.aimed.push(("Cordoning", 0, Fault::Lasting(Trouble::BlindScheduler, nanos)));
        }
        if self.limits.attempt.is_some() && chance(2) && self.has_next_part() {
            let slow = Effect::Delay(Duration::from_secs(4));
            let later = 1500 * MILLISECOND + kernel::below(3 * SECOND);
            let long = self.limits.attempt.unwrap_or_default();
            let slow = Trouble::Fault("list", "pods", slow, 6);
            // The watches have listed before.
            self.aimed.push(("Attempting", 500 * MILLISECOND, Fault::Cluster(slow)));
            self.aimed.push(("Attempting", later, Fault::Stop(Agent::Zedkube, long)));
        }
        if chance(2) {
            let (later, drawn, lasts) = trouble::draw_for_an_attempt();
            if self.has_next_part() {
                let aimed = match lasts {
                    Some(nanos) => Fault::Lasting(drawn, nanos),
                    None => Fault::Cluster(drawn),
                };
                self.aimed.push(("Attempting", later, aimed));
            }
        }
    }

    pub(super) fn draw_mishaps(&mut self) {
        let any = || 10 * SECOND + kernel::below(3 * MINUTE);
        let devices = self.devices.len() as u64;
        let device = || usize::try_from(kernel::below(devices)).unwrap_or_default();
        if chance(6) {
            self.plan_part([(any(), Happening::Fault(device(), Fault::Device(Mishap::SoftReboot)))]);
        }
        if chance(6) {
            let nanos = pick(&[5 * SECOND, MINUTE, 600 * SECOND, 3 * self.limits.long]);
            self.plan_part([(any(), Happening::Fault(device(), Fault::Device(Mishap::Suspend(nanos))))]);
        }
        if chance(4) {
            let step = pick(&[-86_400, -3600, -30, 30, 3600, 30 * 86_400]) * SECOND.cast_signed();
            self.plan_part([(any(), Happening::Fault(device(), Fault::Device(Mishap::ClockStep(step))))]);
        }
        if chance(4) {
            let (device, from) = (device(), any());
            let slow = DiskFault::Slow(pick(&[SECOND / 10, SECOND, 10 * SECOND]));
            let fault = pick(&[DiskFault::Full, DiskFault::ReadOnly, slow]);
            let until = from + kernel::below(pick(&[5, 60, 300]) * SECOND);
            let disk = |fault| Happening::Fault(device, Fault::Device(Mishap::Disk(fault)));
            self.plan_part([(from, disk(Some(fault))), (until, disk(None))]);
        }
    }

    /// Draws what people do beside the controller.
    pub(super) fn draw_people(&mut self) {
        let any = || 15 * SECOND + kernel::below(2 * MINUTE);
        let devices = self.devices.len() as u64;
        let device = || usize::try_from(kernel::below(devices)).unwrap_or_default();
        if chance(4) {
            self.plan_part([(any(), Happening::Fault(device(), Fault::Person(Deed::BindPod)))]);
        }
        if chance(5) {
            let (device, from) = (device(), any());
            self.plan_part([(from, Happening::Fault(device, Fault::Person(Deed::Cordon(true))))]);
            if chance(2) {
                let later = from + kernel::below(2 * MINUTE);
                self.plan_part([(later, Happening::Fault(device, Fault::Person(Deed::Cordon(false))))]);
            }
        }
        if chance(5) {
            self.plan_part([(
                any(),
                Happening::Fault(device(), Fault::Person(Deed::Override(pick(&ORDERS)))),
            )]);
        }
        if chance(8) {
            self.plan_part([(any(), Happening::Fault(device(), Fault::Person(Deed::RemoveFiles)))]);
        }
        if chance(8) {
            let entry = pick(&["", "nonsense", r#"{"uid":"x","since":"2026-01-01T00:00:00Z"}"#]);
            self.plan_part([(any(), Happening::Fault(device(), Fault::Person(Deed::BadSlot(entry))))]);
        }
        if chance(8) {
            self.plan_part([(any(), Happening::Fault(device(), Fault::Person(Deed::BadFile)))]);
        }
        if chance(12) {
            let (device, from) = (device(), any());
            let request = |is_there| Happening::Fault(device, Fault::Person(Deed::LongRequest(is_there)));
            self.plan_part([(from, request(true)), (from + 5 * MINUTE, request(false))]);
        }
        if chance(3) {
            let (device, from) = (device(), any());
            self.plan_part([(
                from,
                Happening::Fault(device, Fault::Person(Deed::Verb("reboot --reason kernel"))),
            )]);
            let more = pick(&[
                "cancel reboot",
                "reboot --reason again",
                "force complete --reason now",
                "freeze --reason guests",
                "status",
                "reboot --now --reason urgent",
            ]);
            let later = from + kernel::below(40 * SECOND);
            let verb = |words| Happening::Fault(device, Fault::Person(Deed::Verb(words)));
            if more.starts_with("freeze") {
                let end = later + kernel::below(3 * MINUTE);
                self.plan_part([(later, verb(more)), (end, verb(UNFREEZE))]);
            } else {
                self.plan_part([(later, verb(more))]);
            }
        }
    }

    /// Draws what the host of a device asks for, and what meets its sentinel.
    pub(super) fn draw_host(&mut self) {
        if !self.settings.contains(SENTINEL) {
            return;
        }
        for device in 0..self.devices.len() {
            self.start_sentinel(device, 11 * SECOND);
        }
        let any = || 15 * SECOND + kernel::below(2 * MINUTE);
        let device = usize::try_from(kernel::below(self.devices.len() as u64)).unwrap_or_default();
        let asks = |text| Happening::Fault(device, Fault::Person(Deed::HostAsks(text)));
        let from = pick(&[5 * SECOND, any(), any()]);
        self.plan_part([(from, asks(Some("libc6")))]);
        let later = from + kernel::below(pick(&[20 * SECOND, 4 * MINUTE]));
        match below(5) {
            0 => self.plan_part([(later, asks(None))]),
            1 => self.plan_part([(later, asks(Some("linux-image")))]),
            2 => self.plan_part([(later, asks(None)), (later + 20 * SECOND, asks(Some("libc6")))]),
            3 => self.plan_part([(later, asks(Some("libc6")))]),
            _ => {}
        }
        for fault in [
            Fault::Kill(Agent::Sentinel),
            Fault::KillSoon(Agent::Sentinel, below(60)),
            Fault::Stop(Agent::Sentinel, MINUTE),
        ] {
            if chance(3) {
                self.plan_part([(any(), Happening::Fault(device, fault))]);
            }
        }
    }

    /// Draws a person who keeps a node drained over boots, for work on its machine.
    pub(super) fn draw_kept(&mut self) {
        let device = usize::try_from(kernel::below(self.devices.len() as u64)).unwrap_or_default();
        if !chance(5) || self.devices[device].eve.is_some() {
            return;
        }
        self.kept_for = kernel::below(10 * MINUTE);
        let from = 15 * SECOND + kernel::below(2 * MINUTE);
        self.plan_part([(from, Happening::Fault(device, Fault::Person(Deed::Verb(KEEP))))]);
        if chance(2) {
            let later = from + kernel::below(5 * MINUTE);
            self.plan_part([(later, Happening::Fault(device, Fault::PowerCut))]);
        }
    }

    /// Draws a person who gives a command for later.
    pub(super) fn draw_later(&mut self) {
        let device = usize::try_from(kernel::below(self.devices.len() as u64)).unwrap_or_default();
        if chance(10) {
            let from = 15 * SECOND + kernel::below(2 * MINUTE);
            let later = "reboot --in 3m --reason later";
            self.plan_part([(from, Happening::Fault(device, Fault::Person(Deed::Verb(later))))]);
        }
    }

    /// Draws a shutdown that goes round ebb.
    pub(super) fn draw_shutdown(&mut self) {
        let device = usize::try_from(kernel::below(self.devices.len() as u64)).unwrap_or_default();
        if self.limits.hold.is_none() || self.devices[device].eve.is_some() {
            return;
        }
        for device in 0..self.devices.len() {
            self.start_hold(device, 13 * SECOND);
        }
        let targets =
            ["reboot.target", "reboot.target", "kexec.target", "poweroff.target", "soft-reboot.target"];
        let takes_down = || Fault::Person(Deed::TakeDown(pick(&targets)));
        if chance(2) {
            let later = kernel::below(pick(&[1, SECOND, 10 * SECOND]));
            self.aim([(pick(&PHASES), later, takes_down())]);
            return;
        }
        let from = 20 * SECOND + kernel::below(3 * MINUTE);
        self.plan_part([(from, Happening::Fault(device, takes_down()))]);
        if chance(4) {
            let later = from + kernel::below(MINUTE);
            self.plan_part([(later, Happening::Fault(device, Fault::Person(Deed::CallOff)))]);
        }
    }

    /// Draws what the cluster commands.
    pub(super) fn draw_annotations(&mut self) {
        let any = || 15 * SECOND + kernel::below(2 * MINUTE);
        if self.settings.contains(FROM_CLUSTER) || chance(20) {
            let device = usize::try_from(kernel::below(self.devices.len() as u64)).unwrap_or_default();
            let from = pick(&[5 * SECOND, any(), any()]);
            let annotate =
                |command, text| Happening::Fault(device, Fault::Person(Deed::Annotate(command, text)));
            let reboot = |text| annotate(NodeCommand::Reboot, text);
            self.plan_part([(from, reboot(Some("kernel")))]);
            let later = from + kernel::below(pick(&[30 * SECOND, 4 * MINUTE]));
            match below(4) {
                0 => self.plan_part([(later, reboot(None))]),
                1 => self.plan_part([(later, reboot(Some("guests")))]),
                2 => self.plan_part([(later, reboot(None)), (later + SECOND, reboot(Some("kernel")))]),
                _ => {}
            }
            if chance(2) {
                let from = pick(&[5 * SECOND, any(), any()]);
                let drain = |text| annotate(NodeCommand::Drain, text);
                let to = from + kernel::below(5 * MINUTE);
                self.plan_part([(from, drain(Some("a new fan"))), (to, drain(None))]);
            }
            // What becomes of two images that two sources want is a matter of baseos' own tests.
            let is_imaged =
                |what: &Happening| matches!(what, Happening::Image(imaged, ..) if *imaged == device);
            if chance(2) && !self.plan.values().any(is_imaged) {
                let (from, to) = (pick(&[5 * SECOND, any(), any()]), any() + kernel::below(5 * MINUTE));
                let update = |text| annotate(NodeCommand::Update, text);
                self.plan_part([(from, update(Some(UPDATE))), (from + to, update(None))]);
            }
        }
    }
}

fn draw_aimed(limits: &Limits) -> Fault {
    match below(10) {
        0 | 1 => Fault::Kill(pick(&Agent::ALL)),
        2 => Fault::PowerCut,
        3 => Fault::Lasting(Trouble::ApiDown, pick(&[SECOND, 20 * SECOND, limits.undrained()])),
        4 | 5 => Fault::Cluster(trouble::draw_passing()),
        6 => Fault::Person(pick(&[
            Deed::BindPod,
            Deed::BindPod,
            Deed::Cordon(false),
            Deed::Override(ORDERS[0]),
            Deed::KeepCordoned,
            Deed::RemoveMark,
        ])),
        7 => Fault::Person(Deed::Verb(pick(&["cancel reboot", "force complete --reason now", "status"]))),
        8 => Fault::Device(Mishap::Disk(Some(pick(&[
            DiskFault::Full,
            DiskFault::ReadOnly,
            DiskFault::Slow(SECOND),
        ])))),
        _ => Fault::Device(pick(&[
            Mishap::SoftReboot,
            Mishap::Suspend(600 * SECOND),
            Mishap::ClockStep(-3600 * SECOND.cast_signed()),
            Mishap::ClockStep(3600 * SECOND.cast_signed()),
        ])),
    }
}

/// Most commands are reboots.
fn draw_operation() -> Operation {
    match below(8) {
        0 => Operation::Poweroff,
        1 => Operation::Shutdown,
        _ => Operation::Reboot,
    }
}

/// Draws how the programs of a device end.
fn draw_programs(device: usize, limits: &Limits) {
    if chance(4) {
        // The pause doubles with each failure.
        let most = if limits.retry > MINUTE { 1 } else { 2 };
        for _ in 0..pick(&[1, 2, 2]).min(most) {
            let fate =
                pick(&[Fate::Fails(SECOND), Fate::Fails(SECOND), Fate::Lies(SECOND), Fate::Fails(HOUR)]);
            programs::set_next(device, programs::TAKE_DOWN, fate);
        }
    }
    if chance(2) {
        let fate = pick(&[Fate::Fails(0), Fate::Fails(HOUR), Fate::Works(20 * SECOND)]);
        programs::set_next(device, programs::HOOK, fate);
    }
    for _ in 0..below(10) {
        let fate = pick(&[Fate::Fails(0), Fate::Fails(HOUR), Fate::Works(5 * SECOND)]);
        programs::set_next(device, programs::HEALTH, fate);
    }
    for _ in 0..3 {
        let fate =
            pick(&[Fate::Works(5 * SECOND), Fate::Works(MINUTE), Fate::Fails(SECOND), Fate::Fails(HOUR)]);
        programs::set_next(device, programs::ACTIVATE, fate);
    }
}
