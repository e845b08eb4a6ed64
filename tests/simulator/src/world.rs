//! The world around the devices: the cluster, the controller and the faults of one history, drawn from its seed.

mod deeds;
mod doubts;
mod draw;
mod happening;
mod pods;
mod situations;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use fake_cluster::{Effect, FakeCluster, Settings};
use pubsub::PathWatch;
use schemas::{Agent, DeviceAction, Operation, parse};
use serde_json::{Value, json};

use crate::coverage::{Extent, Seen};
use crate::device::Device;
use crate::eve::{self, Eve};
use crate::every::{MOST_REQUESTS, NEVER, Phase, Single};
use crate::judge::{Action, Judge};
use crate::kernel::{self, Stream};
use crate::limits::Limits;
use crate::programs::{self, Fate, Started};
use crate::story::tell;
use crate::trouble::{self, Trouble};
use happening::{Deed, Down, Fault, Happening, Mishap};

pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// After the last fault everything has to come to rest within this time: a failed drain is tried again after half an
/// hour, and a node that is down gets half an hour to return.
const REST: u64 = 180 * MINUTE;

/// The verb that ends `freeze`.
const UNFREEZE: &str = "unfreeze";
/// How a person keeps a node drained over boots, and gives it back.
const KEEP: &str = "request --keep --reason fan";
const GIVE_BACK: &str = "cancel";
/// What `ebb-hold.service` runs when it starts and when it stops.
const HOLD: &str = "hold";

/// The world of one history.
#[derive(Debug)]
struct World {
    cluster: FakeCluster,
    /// Another cluster, with Nodes of the same names, and the devices whose kubeconfig leads to it.
    other: Option<FakeCluster>,
    elsewhere: BTreeSet<usize>,
    devices: Vec<Device>,
    judge: Judge,
    plan: BTreeMap<(u64, u32), Happening>,
    planned: u32,
    /// What happens when a device comes into a phase: the phase, how much later, and what.
    aimed: Vec<(&'static str, u64, Fault)>,
    /// The last phase of each device.
    phases: BTreeMap<usize, String>,
    seen: Seen,
    /// The operator's settings of all devices, and what the judge has to know of them.
    settings: String,
    limits: Limits,
    /// The parts of the history that were drawn so far, and the numbers of those that are left out.
    parts: u32,
    left_out: BTreeSet<u32>,
    /// How many drains were whole, and how many faults were met.
    drains: u32,
    faults: u32,
    /// For so many nanoseconds a person keeps a node drained.
    kept_for: u64,
    /// The effect of the only fault on a request, until a request has met it.
    unmet: Option<Effect>,
    /// No agent is the first to watch: it might be killed while it starts notify's thread, which all share here.
    _watching: PathWatch,
}

/// What of a history is played.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The numbers of the parts that are left out.
    pub(crate) left_out: BTreeSet<u32>,
    /// No fault but this one.
    pub(crate) only: Option<Single>,
}

/// Runs one history. Returns what was wrong.
pub(crate) fn history(Plan { left_out, only }: Plan) -> Result<Vec<String>> {
    let mut world = World::new(left_out)?;
    world.draw_devices()?;
    kernel::draw_from(Stream::Faults);
    match only {
        None => world.draw_faults(),
        Some(single) => world.plan_only(single),
    }
    kernel::draw_from(Stream::Commands);
    world.draw_annotations();
    kernel::draw_from(Stream::Host);
    world.draw_host();
    world.draw_kept();
    kernel::draw_from(Stream::Times);
    world.draw_later();
    kernel::draw_from(Stream::Shutdowns);
    world.draw_shutdown();
    kernel::draw_from(Stream::World);
    world.run()?;
    if only.is_some() && (kernel::is_doomed() || world.unmet.is_some() || !world.aimed.is_empty()) {
        kernel::add_line(NEVER);
    }
    Ok(world.end())
}

pub(crate) fn is_unschedulable(node: &Value) -> bool {
    node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true)
}

/// The Node says which machine and which boot it is.
fn show_boot(cluster: &FakeCluster, device: &Device) -> Result<()> {
    let info = json!({"bootID": device.boot_id(), "machineID": device.machine_id()});
    cluster.edit("nodes", "", &device.node, |node| {
        if let Some(status) = node.get_mut("status").and_then(Value::as_object_mut) {
            status.insert("nodeInfo".to_owned(), info);
        }
    })?;
    Ok(())
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

impl World {
    fn new(left_out: BTreeSet<u32>) -> Result<Self> {
        programs::begin();
        let watching = PathWatch::new([kernel::ROOT]);
        let mut limits = Limits::draw();
        let mut settings = String::new();
        for (one_of, setting) in draw::SETTINGS {
            if chance(one_of) {
                settings.push_str(setting);
                settings.push('\n');
            }
        }
        kernel::draw_from(Stream::Commands);
        if chance(5) {
            settings.push_str(draw::FROM_CLUSTER);
        }
        kernel::draw_from(Stream::Host);
        if chance(5) {
            settings.push_str(draw::SENTINEL);
        }
        kernel::draw_from(Stream::Times);
        if settings.contains(draw::FROM_CLUSTER) || settings.contains(draw::SENTINEL) {
            limits.draw_window();
        }
        kernel::draw_from(Stream::Shutdowns);
        limits.draw_hold();
        settings.push_str(&limits.settings());
        kernel::draw_from(Stream::World);
        let (aimed, phases, seen) = (Vec::new(), BTreeMap::new(), Seen::default());
        // A client of the API server does not begin without a certificate of the system.
        let certificates = format!("{}/etc/ssl/certs/ca-certificates.crt", kernel::ROOT);
        kernel::put_file(&certificates, include_bytes!("../../../crates/cluster/src/connect/tests/ca.pem"));
        let detach = Duration::from_nanos(limits.detach);
        let settings_of_cluster = Settings { volume_detach_after: detach, ..Settings::default() };
        let cluster = FakeCluster::start_with(settings_of_cluster).context("cannot start the cluster")?;
        kernel::hide(cluster.server_url().trim_start_matches("http://"));
        let (devices, plan) = (Vec::new(), BTreeMap::new());
        Ok(Self {
            cluster,
            other: None,
            elsewhere: BTreeSet::new(),
            devices,
            judge: Judge::new(limits),
            plan,
            planned: 0,
            aimed,
            phases,
            seen,
            settings,
            limits,
            parts: 0,
            left_out,
            drains: 0,
            faults: 0,
            kept_for: 0,
            unmet: None,
            _watching: watching,
        })
    }

    fn at(&mut self, time: u64, what: Happening) {
        self.planned += 1;
        self.plan.insert((time, self.planned), what);
    }

    /// Begins the next part of the history: something that the history could be without. True if it is not left out.
    fn has_next_part(&mut self) -> bool {
        self.parts += 1;
        !self.left_out.contains(&self.parts)
    }

    /// Plans a part of the history.
    fn plan_part<const N: usize>(&mut self, happenings: [(u64, Happening); N]) {
        if self.has_next_part() {
            for (time, what) in happenings {
                self.at(time, what);
            }
        }
    }

    /// Looks which phase the device is in, after its report was written.
    fn look_at_phase(&mut self, device: usize) {
        let phase = self.devices[device].phase();
        let before = self.phases.insert(device, phase.clone()).unwrap_or_default();
        if before == phase {
            return;
        }
        self.drains += u32::from(before == "Attempting" && phase == "Complete");
        if ["Idle", "Failed"].contains(&phase.as_str()) && self.elsewhere.contains(&device) {
            // A drain that begins now would be the other cluster's, and the judge knows the pods of the first one only.
            self.at(kernel::now(), Happening::Fault(device, Fault::Person(Deed::OtherCluster(false))));
        }
        self.meet(device, &phase);
    }

    /// What was aimed at this phase happens to the device.
    fn meet(&mut self, device: usize, phase: &str) {
        let (now, others) =
            std::mem::take(&mut self.aimed).into_iter().partition(|(aimed, ..)| *aimed == phase);
        self.aimed = others;
        let now: Vec<(&str, u64, Fault)> = now;
        for (_, later, fault) in now {
            self.plan_fault(kernel::now() + later, device, fault);
        }
    }

    /// Plans a fault for a device, and its end, if it does not pass by itself.
    fn plan_fault(&mut self, at: u64, device: usize, fault: Fault) {
        let what = |fault| Happening::Fault(device, fault);
        match fault {
            Fault::Lasting(trouble, nanos) => {
                self.at(at + nanos, what(Fault::Cluster(trouble.end())));
                self.at(at, what(Fault::Cluster(trouble)));
            }
            Fault::Command(operation) => {
                let counter = situations::COUNTER + self.planned;
                self.at(at, Happening::Command { device, operation, counter, is_wanted: true });
            }
            Fault::Device(Mishap::Disk(Some(_))) => {
                self.at(at, what(fault));
                self.at(at + MINUTE, what(Fault::Device(Mishap::Disk(None))));
            }
            fault => self.at(at, what(fault)),
        }
    }

    fn run(&mut self) -> Result<()> {
        let mut rest = None;
        loop {
            let next = self.plan.keys().next().map(|(time, _)| *time);
            let is_all_over = self.plan.values().all(Happening::goes_on_by_itself);
            let until = if let Some(next) = next.filter(|_| !is_all_over) {
                next
            } else {
                if self.judge.missing(&self.cluster, &self.devices).is_empty() {
                    return Ok(());
                }
                // The end of all faults would also end the only one, and it would seem to have been met.
                if rest.is_none() && self.unmet.is_none() {
                    self.trouble(&Trouble::Over)?;
                }
                let rest = *rest.get_or_insert_with(|| kernel::now() + REST);
                if kernel::now() >= rest {
                    return Ok(());
                }
                rest.min(kernel::now() + MINUTE).min(next.unwrap_or(rest))
            };
            kernel::wait_for_change(until);
            self.observe();
            // The judge learns of the only fault when a request has met it: before that, nothing was wrong.
            if self.cluster.faults().waiting() == 0
                && let Some(effect) = self.unmet.take()
            {
                self.judge_trouble(&Trouble::Fault("*", "*", effect, 1));
            }
            self.judge.look(&self.cluster, &self.devices);
            while let Some(next) = self.plan.keys().next().copied().filter(|(time, _)| *time <= kernel::now())
            {
                if let Some(what) = self.plan.remove(&next) {
                    self.happen(what)?;
                }
            }
        }
    }

    /// Plans one fault and no other.
    fn plan_only(&mut self, single: Single) {
        self.aimed.clear();
        match single {
            Single::Death(agent, call) => {
                kernel::doom(&format!("{} {}", self.devices[0].node, agent.name()), call);
            }
            Single::Request(number) => {
                let effect = trouble::effect(below(trouble::EFFECTS) + number);
                tell("world", &format!("fault: the request after {number} others: {effect:?}"));
                self.unmet = Some(effect.clone());
                self.cluster.faults().add(fake_cluster::Fault::on("*", "*", effect).after(number));
            }
            Single::Storm(state, number) => self.plan_storm(state, number),
        }
    }

    /// The API server fails in this way for half an hour, from when the first device comes into this state.
    fn plan_storm(&mut self, state: Phase, number: u32) {
        let troubles = trouble::storms().into_iter().nth(number.try_into().unwrap_or(usize::MAX));
        for trouble in troubles.map_or_else(Vec::new, |(_, troubles)| troubles) {
            let fault = Fault::Lasting(trouble, HOUR / 2);
            match state {
                Phase::Idle => {
                    self.plan.retain(|_, what| !what.is_wanted());
                    self.at(MINUTE, Happening::Fault(0, fault));
                }
                Phase::Waiting => self.aimed.push(("Waiting", 0, fault)),
                Phase::Draining => self.aimed.push(("Attempting", 0, fault)),
            }
        }
    }

    /// Notes that the device meets a fault in its present phase, or that all devices do.
    fn note(&mut self, device: Option<usize>, fault: &str) {
        self.faults += 1;
        for (index, known) in self.devices.iter().enumerate() {
            if device.is_none_or(|device| device == index) {
                let phase = match &known.eve {
                    _ if self.judge.is_down(index) => "(down)".to_owned(),
                    Some(_) => format!("EVE's: {}", known.phase()),
                    None => known.phase(),
                };
                self.seen.add(&phase, fault);
            }
        }
    }

    fn happen(&mut self, what: Happening) -> Result<()> {
        if let Some((device, fault)) = what.fault() {
            self.note(device, &fault);
        }
        match what {
            Happening::Command { device, operation, counter, is_wanted } => {
                self.judge.commanded(device, operation, counter, is_wanted);
                let device = &mut self.devices[device];
                tell(&device.node, &format!("controller: {operation} {counter}, wanted: {is_wanted}"));
                device.command(operation, counter, is_wanted)?;
            }
            Happening::Repeat(device) => self.devices[device].repeat_commands()?,
            Happening::Image(device, version, retry) => {
                self.judge.wants_image(device, version);
                let device = &mut self.devices[device];
                tell(&device.node, &format!("controller: image {version}, retry {retry}"));
                device.want_image(version, retry)?;
            }
            Happening::GoesDown(device, boot, operation) => {
                if self.devices[device].boot() == boot {
                    self.boot(device, Down::Ordered(operation))?;
                }
            }
            Happening::Written(device, boot, number, version, works) => {
                programs::ended(number);
                let is_written = works && !programs::was_killed(number);
                if is_written && self.devices[device].boot() == boot {
                    tell(&self.devices[device].node, &format!("image {version} is written"));
                    self.devices[device].install(&version);
                }
            }
            Happening::Start(device, Agent::Zedkube) if self.devices[device].eve.is_some() => {
                self.devices[device].eve_starts();
                self.eve(device, eve::Step::Start)?;
            }
            // systemd starts nothing while the system goes down.
            Happening::Start(device, _) if self.devices[device].target().is_some() => {
                self.at(kernel::now() + 5 * SECOND, what);
            }
            Happening::Start(device, agent) => self.devices[device].start(agent),
            Happening::Eve(device, life, step) => {
                if self.devices[device].eve.as_ref().is_some_and(|eve| eve.life() == life) {
                    self.eve(device, step)?;
                }
            }
            Happening::NodeReady(device) => {
                self.judge.is_back(device);
                let device = &self.devices[device];
                tell(&device.node, "the Node is Ready again");
                show_boot(&self.cluster, device)?;
                self.cluster.faults().start_kubelet(&device.node);
            }
            Happening::Fault(device, fault) => self.strike(device, fault)?,
        }
        Ok(())
    }

    /// EVE's zedkube takes a step.
    fn eve(&mut self, index: usize, step: eve::Step) -> Result<()> {
        let is_away = self.judge.is_api_away();
        let Some(eve) = &mut self.devices[index].eve else { return Ok(()) };
        let next = eve.step(step, &self.cluster, is_away)?;
        self.plan_eve(index, next);
        Ok(())
    }

    fn plan_eve(&mut self, index: usize, next: Vec<(u64, eve::Step)>) {
        let life = self.devices[index].eve.as_ref().map_or(0, Eve::life);
        for (later, step) in next {
            self.at(kernel::now() + later, Happening::Eve(index, life, step));
        }
    }

    /// A fault meets the device.
    fn strike(&mut self, device: usize, fault: Fault) -> Result<()> {
        match fault {
            Fault::Kill(agent) => self.kill(device, agent, false),
            Fault::Away(agent) => self.kill(device, agent, true),
            Fault::KillSoon(agent, calls) => self.devices[device].kill_soon(agent, calls),
            Fault::Stop(agent, nanos) => {
                let until = kernel::now() + nanos;
                if self.devices[device].stop_still(agent, until) {
                    let words = format!("{} stands still for {} s", agent.name(), nanos / SECOND);
                    tell(&self.devices[device].node, &words);
                    self.judge.device_disturbed(device, until);
                }
            }
            Fault::PowerCut => {
                if !self.judge.is_down(device) {
                    self.boot(device, Down::PowerCut)?;
                }
            }
            Fault::TakeBack => self.take_back(device),
            Fault::Cluster(trouble) => self.trouble(&trouble)?,
            Fault::Person(deed) => self.deed(device, deed)?,
            Fault::Device(mishap) => self.mishap(device, mishap)?,
            Fault::Lasting(..) | Fault::Command(_) => self.plan_fault(kernel::now(), device, fault),
        }
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
        self.start_sentinel(device, from + SECOND);
        self.start_hold(device, from + 6 * SECOND);
    }

    /// `ebb-hold.service` is started where a site wants it.
    fn start_hold(&mut self, device: usize, at: u64) {
        if self.limits.hold.is_some() {
            self.at(at, Happening::Fault(device, Fault::Person(Deed::Verb(HOLD))));
        }
    }

    /// The sentinel is started where a site wants it.
    fn start_sentinel(&mut self, device: usize, at: u64) {
        if self.settings.contains(draw::SENTINEL) {
            self.at(at, Happening::Start(device, Agent::Sentinel));
        }
    }

    /// The device goes down and boots: nothing runs, `/run` is empty or kept, the Node is not Ready for a while.
    fn boot(&mut self, device: usize, why: Down) -> Result<()> {
        let node = self.devices[device].node.clone();
        let keeps_run = chance(8);
        let run = if keeps_run { "kept" } else { "emptied" };
        let reason = if why == Down::PowerCut { "by a power cut" } else { "as it is told" };
        tell(&node, &format!("the device goes down {reason}; /run is {run}"));
        self.stop(device);
        // What was written until now, and each program that was started, is of this boot.
        self.observe();
        self.judge.goes_down(device);
        let root = self.devices[device].root.path().to_string_lossy().into_owned();
        kernel::set_disk_fault(&format!("{root}/persist"), None);
        kernel::set_disk_fault(&format!("{root}{}", deeds::RECORD), None);
        match why {
            Down::PowerCut => kernel::cut_power(&root),
            Down::Ordered(_) => kernel::sync_all(&root),
        }
        self.cluster.faults().stop_kubelet(&node);
        self.lead_to(device, false)?;
        self.devices[device].begin_boot(keeps_run)?;
        self.judge.boots(device, keeps_run, self.devices[device].is_kept());
        // Whoever has powered a device off switches it on again.
        let off = if why == Down::Ordered(Operation::Poweroff) { kernel::below(self.limits.long) } else { 0 };
        let long = if chance(20) { self.limits.long / 2 } else { 0 };
        let up = kernel::now() + 20 * SECOND + kernel::below(MINUTE) + off + long;
        self.start_all(device, up);
        self.at(up + kernel::below(10 * SECOND), Happening::Repeat(device));
        self.at(up + kernel::below(30 * SECOND), Happening::NodeReady(device));
        Ok(())
    }

    /// Looks at what the agents have done.
    fn observe(&mut self) {
        for write in kernel::take_writes() {
            let of = |device: &Device| write.path.starts_with(&*device.root.path().to_string_lossy());
            let device = self.devices.iter().position(of);
            self.judge.written(&self.devices, device, &write);
            let Some(device) = device else { continue };
            if write.path.ends_with("/NodeDrainReport/global.json") || write.path.ends_with(eve::STATUS) {
                self.look_at_phase(device);
            }
            if let Some(moment) = situations::moment_of(&write) {
                self.meet(device, moment);
            }
            if let (Some(eve), Some(_)) = (&self.devices[device].eve, &write.content) {
                let next = eve.requested(&write.path);
                self.plan_eve(device, next);
            }
        }
        for evicted in self.cluster.take_evictions() {
            self.judge.evicted(&self.cluster, &self.devices, &evicted);
        }
        for asked in self.cluster.take_removals() {
            self.judge.asked_to_leave(&self.devices, &asked);
        }
        for started in programs::take_started() {
            self.program(started);
        }
        let (mut again, mut mended) = (Vec::new(), Vec::new());
        for index in 0..self.devices.len() {
            let device = &mut self.devices[index];
            for (agent, why) in device.take_ended() {
                match why {
                    None => {
                        tell(&device.node, &format!("{} is killed in the middle of a call", agent.name()));
                        self.seen.add(&device.phase(), &format!("{} killed in a call", agent.name()));
                        self.faults += 1;
                    }
                    Some(why) => self.judge.ended(device, agent, &why),
                }
                self.planned += 1;
                let at = kernel::now() + self.limits.draw_pause();
                self.plan.insert((at, self.planned), Happening::Start(index, agent));
            }
            for (words, is_done) in device.take_verbs() {
                let (next, mends) = self.verb_has_ended(index, words, is_done);
                again.extend(next.map(|(words, later)| (index, words, later)));
                mended.extend(mends.then_some(index));
            }
        }
        for (index, words, later) in again {
            self.at(kernel::now() + later, Happening::Fault(index, Fault::Person(Deed::Verb(words))));
        }
        for index in mended {
            self.at(kernel::now(), Happening::Fault(index, Fault::Device(Mishap::Disk(None))));
        }
    }

    /// A verb of a person has ended. Returns the verb that the person runs next, and when; and whether the disk is mended.
    fn verb_has_ended(
        &mut self,
        index: usize,
        words: &'static str,
        is_done: bool,
    ) -> (Option<(&'static str, u64)>, bool) {
        let device = &mut self.devices[index];
        tell(&device.node, &format!("ebb {words}: {}", if is_done { "done" } else { "refused" }));
        if words == HOLD {
            self.hold_has_ended(index, is_done);
            return (None, false);
        }
        // It may have been taken back before its verb has ended.
        let is_commanded = is_done && device.is_commanded_by_a_person();
        self.judge.verb(index, words, is_commanded);
        // Nobody forgets that a device is frozen, cannot be rebooted, or is kept drained.
        let next = match words {
            UNFREEZE | situations::WITHOUT_RECORD if !is_done => Some((words, MINUTE)),
            KEEP if device.is_kept() => Some((GIVE_BACK, self.kept_for)),
            GIVE_BACK if device.is_kept() => Some((GIVE_BACK, MINUTE)),
            _ => None,
        };
        // Whoever takes a reboot back has mended the disk, and whoever cannot unfreeze the device mends it.
        (next, words.starts_with("cancel") || (words == UNFREEZE && !is_done))
    }

    /// `ebb hold` has ended: the shutdown that it has kept back goes on. If there is none, the unit is active.
    fn hold_has_ended(&mut self, index: usize, is_done: bool) {
        let device = &mut self.devices[index];
        let Some(target) = device.target() else {
            device.holds = is_done;
            self.judge.holds(index, false);
            return;
        };
        let reason = device.text("/persist/reboot-reason").unwrap_or_default();
        tell(&device.node, &format!("the shutdown goes on: {reason}"));
        let boot = device.boot();
        self.judge.lets_go(&self.cluster, index, &self.devices[index], &reason);
        let goes_down = match target {
            "soft-reboot.target" => Happening::Fault(index, Fault::Device(Mishap::SoftReboot)),
            "poweroff.target" => Happening::GoesDown(index, boot, Operation::Poweroff),
            _ => Happening::GoesDown(index, boot, Operation::Reboot),
        };
        self.at(kernel::now() + kernel::below(5 * SECOND), goes_down);
    }

    /// An agent has started a program.
    fn program(&mut self, started: Started) {
        let Started { device: index, name, environment, fate, number } = started;
        let device = &self.devices[index];
        let (boot, ends_at) = (device.boot(), kernel::now() + fate.takes());
        let of = |key: &str| environment.get(key).cloned().unwrap_or_default();
        tell(
            &device.node,
            &format!("the program {name} {} {}: {fate:?}", of("EBB_OPERATION"), of("EBB_COUNTER")),
        );
        match name.as_str() {
            programs::TAKE_DOWN | programs::STOP_APPS => {
                let action = device.text("/run/nodeagent/DeviceAction/global.json").unwrap_or_default();
                let action: DeviceAction = parse(action.as_bytes()).unwrap_or_default();
                let Some(operation) = action.command else { return };
                let works = matches!(fate, Fate::Works(_));
                let acts = Action {
                    operation,
                    source: action.source,
                    counter: action.counter,
                    image: action.content_tree_uuid,
                    reason: of("EBB_REASON"),
                    works,
                };
                tell(&device.node, &format!("{operation} {}: {}", acts.counter, acts.reason));
                self.judge.acts(&self.cluster, index, device, &acts);
                if works && name == programs::TAKE_DOWN {
                    let later = if chance(2) { 0 } else { kernel::below(MINUTE) };
                    self.at(ends_at + later, Happening::GoesDown(index, boot, operation));
                } else if works {
                    // The applications are stopped for somebody who takes the power away.
                    self.at(
                        ends_at + MINUTE + kernel::below(self.limits.long / 2),
                        Happening::Fault(index, Fault::PowerCut),
                    );
                }
            }
            programs::ACTIVATE => {
                self.judge.activates(&self.cluster, index, device, (number, ends_at));
                self.meet(index, situations::ACTIVATING);
                let works = matches!(fate, Fate::Works(_));
                let version = of("EBB_BASEOS_VERSION");
                self.at(ends_at, Happening::Written(index, boot, number, version, works));
            }
            _ => {}
        }
    }

    fn end(mut self) -> Vec<String> {
        self.judge.at_rest(&self.cluster, &self.devices);
        for (verb, what) in [("patch", "nodes"), ("create", "pods"), ("patch", "configmaps")] {
            let count = self.other.as_ref().map_or(0, |other| other.requests().count("ebb/", verb, what));
            self.judge.changes_elsewhere(verb, what, count);
        }
        for device in &mut self.devices {
            device.kill_all();
        }
        self.seen.lines().for_each(|line| kernel::add_line(&line));
        kernel::add_line(&format!("{MOST_REQUESTS}{}", self.judge.most_asked));
        kernel::add_line(&Extent { parts: self.parts, drains: self.drains, faults: self.faults }.line());
        tell("world", &format!("the history ends after {} s", kernel::now() / SECOND));
        self.judge.into_wrong()
    }
}
