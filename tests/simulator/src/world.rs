//! The world around the devices: the cluster, the controller and the faults of one history, drawn from its seed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fake_cluster::{Effect, FakeCluster, Fault, Limit, Reply, objects};
use pubsub::Root;
use schemas::{Agent, Operation};
use serde_json::{Value, json};

use crate::device::Device;
use crate::judge::Judge;
use crate::kernel;
use crate::story::{hide_address, tell};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;

/// The names of the devices' Nodes.
const NODES: [&str; 3] = ["edge-a", "edge-b", "edge-c"];

/// After the last fault everything has to come to rest within this time: a failed drain is tried again after half an
/// hour, and a node that is down gets half an hour to return.
const REST: u64 = 180 * MINUTE;

/// Something that happens at its time.
#[derive(Clone, Debug)]
enum Happening {
    Command {
        device: usize,
        counter: u32,
        is_wanted: bool,
    },
    Start(usize, Agent),
    Kill(usize, Agent),
    /// The agent dies in the middle of the next call but so many.
    KillSoon(usize, Agent, u32),
    PowerCut(usize),
    NodeReady(usize),
    ApiDown,
    ApiUp,
    ApiFault(&'static str, &'static str, Effect, u32),
    CutWatches,
    ForgetHistory,
}

/// The world of one history.
#[derive(Debug)]
struct World {
    cluster: FakeCluster,
    devices: Vec<Device>,
    judge: Judge,
    plan: BTreeMap<(u64, u32), Happening>,
    planned: u32,
    folder: PathBuf,
}

/// Runs one history, with the files of its devices in this folder. Returns what was wrong.
pub(crate) fn history(folder: &Path) -> Result<Vec<String>> {
    let mut world = World::new(folder)?;
    world.draw_devices()?;
    world.draw_faults();
    world.run()?;
    Ok(world.end())
}

/// One of these, by the seed.
fn pick<T: Copy>(of: &[T]) -> T {
    of[usize::try_from(kernel::below(of.len() as u64)).unwrap_or_default()]
}

/// A number below `limit`, by the seed.
fn below(limit: u32) -> u32 {
    u32::try_from(kernel::below(u64::from(limit))).unwrap_or_default()
}

/// True once in `one_of` times.
fn chance(one_of: u64) -> bool {
    kernel::below(one_of) == 0
}

impl World {
    fn new(folder: &Path) -> Result<Self> {
        let cluster = FakeCluster::start().context("cannot start the cluster")?;
        hide_address(cluster.server_url().trim_start_matches("http://"));
        let (devices, plan) = (Vec::new(), BTreeMap::new());
        Ok(Self { cluster, devices, judge: Judge::default(), plan, planned: 0, folder: folder.to_owned() })
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
            let root = Root::new(self.folder.join(node));
            let mut device = Device::new(root, node, &self.cluster.kubeconfig())?;
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
        if chance(3) {
            let from = any();
            self.at(from, Happening::ApiDown);
            self.at(from + kernel::below(pick(&[5, 60, 400, 2400]) * SECOND), Happening::ApiUp);
        }
        for _ in 0..below(4) {
            let effect = match below(8) {
                0 => Effect::Answer(Reply::too_many_requests()),
                1 => Effect::Answer(Reply::text(503, "upstream connect error")),
                2 => Effect::Answer(Reply::text(404, "404 page not found")),
                3 => Effect::Answer(Reply::timeout()),
                4 => Effect::ResetBefore,
                5 => Effect::ResetAfter,
                6 => Effect::Hang,
                _ => Effect::HangAfter,
            };
            let (verb, resource) = pick(&[
                ("create", "pods/eviction"),
                ("patch", "nodes"),
                ("get", "nodes"),
                ("list", "nodes"),
                ("list", "pods"),
                ("watch", "pods"),
                ("update", "configmaps"),
                ("get", "configmaps"),
                ("list", "volumeattachments"),
                ("*", "*"),
            ]);
            self.at(any(), Happening::ApiFault(verb, resource, effect, 1 + below(6)));
        }
        for what in [Happening::CutWatches, Happening::ForgetHistory] {
            if chance(4) {
                self.at(any(), what);
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
                self.cluster.faults().clear();
                let rest = *rest.get_or_insert_with(|| kernel::now() + REST);
                if kernel::now() >= rest {
                    return Ok(());
                }
                rest.min(kernel::now() + MINUTE)
            };
            kernel::wait_for_change(until);
            self.observe()?;
            while let Some(next) = self.plan.keys().next().copied().filter(|(time, _)| *time <= kernel::now())
            {
                if let Some(what) = self.plan.remove(&next) {
                    self.happen(what)?;
                }
            }
        }
    }

    fn happen(&mut self, what: Happening) -> Result<()> {
        let faults = self.cluster.faults();
        match what {
            Happening::Command { device, counter, is_wanted } => {
                self.judge.commanded(device, (is_wanted && counter > 0).then_some(counter));
                let device = &mut self.devices[device];
                tell(&device.node, &format!("controller: reboot {counter}, wanted: {is_wanted}"));
                device.command(Operation::Reboot, counter, is_wanted)?;
            }
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
                    self.boot(device, "a power cut")?;
                }
            }
            Happening::NodeReady(device) => {
                self.judge.is_back(device);
                let device = &self.devices[device];
                tell(&device.node, "the Node is Ready again");
                self.show_boot(device)?;
                faults.start_kubelet(&device.node);
            }
            Happening::ApiDown => {
                tell("world", "the API server goes away");
                faults.api_down()?;
                self.judge.api_is_away();
            }
            Happening::ApiUp => {
                tell("world", "the API server is back");
                faults.api_up()?;
                self.judge.api_is_back();
            }
            Happening::ApiFault(verb, resource, effect, times) => {
                tell("world", &format!("fault: the next {times} of {verb} {resource}: {effect:?}"));
                faults.add(Fault::on(verb, resource, effect).times(times));
            }
            Happening::CutWatches => {
                tell("world", "all watches are cut");
                faults.cut_watches(None);
            }
            Happening::ForgetHistory => {
                tell("world", "the API server forgets its history");
                faults.forget_history();
            }
        }
        Ok(())
    }

    fn restart(&mut self, device: usize, agent: Agent) {
        let pause = pick(&[SECOND / 10, SECOND, 5 * SECOND, 30 * SECOND]);
        self.at(kernel::now() + pause, Happening::Start(device, agent));
    }

    /// The device goes down and boots: nothing runs, `/run` is empty or kept, the Node is not Ready for a while.
    fn boot(&mut self, device: usize, why: &str) -> Result<()> {
        let node = self.devices[device].node.clone();
        let keeps_run = chance(8);
        let run = if keeps_run { "kept" } else { "emptied" };
        tell(&node, &format!("the device goes down because of {why}; /run is {run}"));
        for agent in Agent::ALL {
            self.devices[device].kill(agent);
        }
        self.plan.retain(|_, what| !matches!(what, Happening::Start(other, _) if *other == device));
        self.cluster.faults().stop_kubelet(&node);
        self.devices[device].begin_boot(keeps_run)?;
        let up = kernel::now() + 20 * SECOND + kernel::below(MINUTE);
        for agent in Agent::ALL {
            self.at(up + kernel::below(5 * SECOND), Happening::Start(device, agent));
        }
        self.at(up + kernel::below(30 * SECOND), Happening::NodeReady(device));
        Ok(())
    }

    /// Looks at what the agents have done.
    fn observe(&mut self) -> Result<()> {
        for (who, path) in kernel::take_writes() {
            self.judge.written(&who, &path);
        }
        for index in 0..self.devices.len() {
            let device = &mut self.devices[index];
            for (agent, why) in device.take_ended() {
                let node = device.node.clone();
                match why {
                    None => tell(&node, &format!("{} is killed in the middle of a call", agent.name())),
                    Some(why) => self.judge.ended(&node, agent, &why),
                }
                let pause = pick(&[SECOND / 10, SECOND, 5 * SECOND, 30 * SECOND]);
                self.planned += 1;
                self.plan.insert((kernel::now() + pause, self.planned), Happening::Start(index, agent));
            }
            let actions = device.actions();
            if self.judge.acted(&self.cluster, index, device, &actions) {
                self.boot(index, "nodeagent")?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Vec<String> {
        self.judge.at_rest(&self.cluster, &self.devices);
        for device in &mut self.devices {
            for agent in Agent::ALL {
                device.kill(agent);
            }
        }
        tell("world", &format!("the history ends after {} s", kernel::now() / SECOND));
        self.judge.into_wrong()
    }
}
