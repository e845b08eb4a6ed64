//! A device: its files, and its agents, each on a thread with a runtime of its own, as a process would have.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use anyhow::Result;
use pubsub::{AgentLock, Persistence, Publisher, Root, TopicKey};
use runtime::flags::Assignment;
use runtime::{AgentFlags, Stop};
use schemas::{Agent, DeviceLine, DeviceOpsCmd, Operation, agent, parse};
use serde_json::Value;
use tokio::sync::Notify;

use crate::kernel::{self, Task};

/// The file in which nodeagent's dry run records its actions.
const ACTIONS: &str = "/persist/device-actions.jsonl";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MACHINE_ID: &str = "/etc/machine-id";
/// Not in `/run`, which a boot empties.
const KUBECONFIG: &str = "/etc/kubeconfig";

/// An agent that runs.
#[derive(Debug)]
struct Running {
    agent: Agent,
    task: Task,
    /// Simulated time of its start.
    since: u64,
    killed: Arc<Notify>,
    thread: JoinHandle<Result<(), String>>,
}

impl Running {
    /// Ends the thread: from now on nothing that it does has an effect.
    fn kill(self) {
        kernel::kill(self.task);
        self.killed.notify_one();
        // A panic of a dead agent means nothing: all its calls fail.
        drop(self.thread.join());
    }
}

/// A device, which is a node of the cluster.
#[derive(Debug)]
pub(crate) struct Device {
    /// The root of its files.
    pub(crate) root: Root,
    /// The name of its Node.
    pub(crate) node: String,
    /// The number of its machine, for the kernel.
    pub(crate) machine: u32,
    boot: u32,
    running: BTreeMap<&'static str, Running>,
    controller: Option<(Publisher<DeviceOpsCmd>, AgentLock)>,
    /// The controller's last command: counter, and whether it is wanted.
    commanded: Option<(u32, bool)>,
    verbs: Vec<Verb>,
    /// How long zedkube did not run in this boot, in nanoseconds, until it was started last, and since when it does not.
    zedkube_away: (u64, Option<u64>),
}

/// A verb of an operator that runs.
#[derive(Debug)]
struct Verb {
    words: &'static str,
    task: Task,
    thread: JoinHandle<bool>,
}

impl Device {
    /// A device before its first boot.
    pub(crate) fn new(root: Root, node: &str, machine: u32, kubeconfig: &str) -> Result<Self> {
        let (node, running) = (node.to_owned(), BTreeMap::new());
        let device = Self {
            root,
            node,
            machine,
            boot: 0,
            running,
            controller: None,
            commanded: None,
            verbs: Vec::new(),
            zedkube_away: (0, None),
        };
        device.write(KUBECONFIG, kubeconfig)?;
        device.write(MACHINE_ID, &device.machine_id())?;
        Ok(device)
    }

    pub(crate) fn machine_id(&self) -> String {
        format!("{:0>32}", self.node.replace('-', "0"))
    }

    pub(crate) fn boot_id(&self) -> String {
        format!("{}-boot-{}", self.node, self.boot)
    }

    fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.root.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        Ok(())
    }

    fn flags(&self) -> AgentFlags {
        let set = |key: &str| Assignment { key: key.to_owned(), value: "true".to_owned() };
        AgentFlags {
            root: self.root.path().to_owned(),
            node: Some(self.node.clone()),
            kubeconfig: Some(self.root.join(KUBECONFIG)),
            set: vec![set("device.dry-run"), set("baseos.dry-run")],
            ..AgentFlags::default()
        }
    }

    /// Begins a boot, with an empty `/run` unless it is kept.
    pub(crate) fn begin_boot(&mut self, keeps_run: bool) -> Result<()> {
        self.controller = None;
        let run = self.root.join("/run");
        fs::create_dir_all(&run)?;
        fs::create_dir_all(self.root.join("/persist"))?;
        if !keeps_run {
            kernel::clear(&run.to_string_lossy());
        }
        self.boot += 1;
        self.zedkube_away = (0, Some(kernel::now()));
        kernel::boots(self.machine);
        self.write(BOOT_ID, &self.boot_id())?;
        self.begin_userspace()
    }

    /// Begins userspace, again after a soft reboot: `/run` and the kernel's boot id stay.
    pub(crate) fn begin_userspace(&mut self) -> Result<()> {
        self.controller = None;
        let lock = AgentLock::acquire(&self.root, agent::CONTROLLER)?;
        let commands = Publisher::open(&self.root, agent::CONTROLLER, Persistence::Volatile, &lock)?;
        self.controller = Some((commands, lock));
        Ok(())
    }

    /// Publishes a command of the controller: a reboot.
    pub(crate) fn command(&mut self, counter: u32, is_wanted: bool) -> Result<()> {
        self.commanded = Some((counter, is_wanted));
        self.repeat_command()
    }

    /// Publishes the controller's last command again.
    pub(crate) fn repeat_command(&mut self) -> Result<()> {
        let (Some((commands, _)), Some((counter, is_wanted))) = (&mut self.controller, self.commanded) else {
            return Ok(());
        };
        let command = DeviceOpsCmd { counter, desired_state: is_wanted, ..DeviceOpsCmd::default() };
        commands.publish(&TopicKey::parse(Operation::Reboot.name())?, &command)?;
        Ok(())
    }

    /// Starts an agent, as a service manager would. Does nothing if it runs.
    pub(crate) fn start(&mut self, agent: Agent) {
        if self.running.contains_key(agent.name()) {
            return;
        }
        if agent == Agent::Zedkube {
            self.zedkube_away = (self.zedkube_was_away(), None);
        }
        let killed = Arc::new(Notify::new());
        let (flags, end) = (self.flags(), Arc::clone(&killed));
        let name = format!("{} {}", self.node, agent.name());
        let (task, thread) = kernel::spawn(&name, self.machine, move || run(agent, &flags, &end));
        self.running.insert(agent.name(), Running { agent, task, since: kernel::now(), killed, thread });
    }

    /// How long zedkube did not run in this boot, in nanoseconds.
    pub(crate) fn zedkube_was_away(&self) -> u64 {
        let (before, since) = self.zedkube_away;
        before + since.map_or(0, |since| kernel::now() - since)
    }

    fn take_running(&mut self, agent: Agent) -> Option<Running> {
        let running = self.running.remove(agent.name())?;
        if agent == Agent::Zedkube {
            self.zedkube_away.1 = Some(kernel::now());
        }
        Some(running)
    }

    /// Kills an agent. True if it ran.
    pub(crate) fn kill(&mut self, agent: Agent) -> bool {
        self.take_running(agent).map(Running::kill).is_some()
    }

    /// The agent dies soon, in the middle of a call that changes something.
    pub(crate) fn kill_soon(&self, agent: Agent, calls: u32) {
        if let Some(running) = self.running.get(agent.name()) {
            kernel::kill_after(running.task, calls);
        }
    }

    /// Runs a verb of `ebb`, as an operator would.
    pub(crate) fn run_verb(&mut self, words: &'static str) {
        let root = self.root.path().to_string_lossy().into_owned();
        let mut arguments: Vec<OsString> = vec!["ebb".into()];
        arguments.extend(words.split(' ').map(OsString::from));
        arguments.extend(["--root".into(), root.into()]);
        let run = move || ebb::run(arguments) == ExitCode::SUCCESS;
        let (task, thread) = kernel::spawn(&format!("{} ebb", self.node), self.machine, run);
        self.verbs.push(Verb { words, task, thread });
    }

    /// The verbs that have ended since the last call, and whether they succeeded.
    pub(crate) fn take_verbs(&mut self) -> Vec<(&'static str, bool)> {
        let (over, others) = self.verbs.drain(..).partition(|verb| verb.thread.is_finished());
        self.verbs = others;
        let over: Vec<Verb> = over;
        over.into_iter().map(|verb| (verb.words, verb.thread.join().unwrap_or(false))).collect()
    }

    /// All that runs on the device dies.
    pub(crate) fn kill_all(&mut self) {
        for agent in Agent::ALL {
            self.kill(agent);
        }
        for verb in self.verbs.drain(..) {
            kernel::stop(verb.task);
        }
    }

    /// The agents that run, and since when their touch files are not renewed, in nanoseconds of the wall clock.
    pub(crate) fn touched(&self) -> Vec<(Agent, Option<SystemTime>)> {
        let touched = |running: &Running| {
            let path = self.root.touch(running.agent.wire_name());
            (running.agent, fs::metadata(path).and_then(|found| found.modified()).ok())
        };
        self.running.values().map(touched).collect()
    }

    /// How long the agent runs, in nanoseconds; 0 if it does not.
    pub(crate) fn runs_for(&self, agent: Agent) -> u64 {
        self.running.get(agent.name()).map_or(0, |running| kernel::now() - running.since)
    }

    /// The text of one of its files.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// The phase of zedkube's state machine, as its report says.
    pub(crate) fn phase(&self) -> String {
        let report = self.text("/run/zedkube/NodeDrainReport/global.json").unwrap_or_default();
        let report: Value = serde_json::from_str(&report).unwrap_or_default();
        report.get("Phase").and_then(Value::as_str).unwrap_or("(no report)").to_owned()
    }

    /// An operator's order by a file.
    pub(crate) fn override_drain(&self, text: &str) -> Result<()> {
        self.write("/persist/kube-status/force-NodeDrainStatus-global.json", text)
    }

    /// The agents that have died or ended since the last call: None if it was killed, otherwise why it has ended.
    pub(crate) fn take_ended(&mut self) -> Vec<(Agent, Option<String>)> {
        let is_over = |running: &&Running| kernel::is_dead(running.task) || running.thread.is_finished();
        let over: Vec<Agent> = self.running.values().filter(is_over).map(|running| running.agent).collect();
        let mut ended = Vec::new();
        for agent in over {
            let Some(running) = self.take_running(agent) else { continue };
            if kernel::is_dead(running.task) {
                running.kill();
                ended.push((agent, None));
                continue;
            }
            let why = match running.thread.join() {
                Ok(Ok(())) => "without a reason".to_owned(),
                Ok(Err(error)) => error,
                Err(_) => "by a panic".to_owned(),
            };
            ended.push((agent, Some(why)));
        }
        ended
    }

    /// The actions that nodeagent has written down.
    pub(crate) fn actions(&self) -> Vec<DeviceLine> {
        let text = fs::read_to_string(self.root.join(ACTIONS)).unwrap_or_default();
        text.lines().filter_map(|line| parse(line.as_bytes()).ok()).collect()
    }
}

/// One agent, as a process would run it (`ebb::agents`).
fn run(agent: Agent, flags: &AgentFlags, killed: &Notify) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            () = killed.notified() => Ok(()),
            result = Box::pin(work(agent, flags)) => result,
        }
    });
    runtime.shutdown_background();
    result
}

async fn work(agent: Agent, flags: &AgentFlags) -> Result<(), String> {
    let stop = Stop::new();
    let started = runtime::Agent::start(agent.wire_name(), flags).await.map_err(said)?;
    let ended = match agent {
        Agent::Zedkube => Box::pin(started.run(stop, zedkube::run)).await.map(|result| result.map_err(said)),
        Agent::DeviceOp => {
            Box::pin(started.run(stop, device_op::run)).await.map(|result| result.map_err(said))
        }
        Agent::Nodeagent => {
            Box::pin(started.run(stop, nodeagent::run)).await.map(|result| result.map_err(said))
        }
        Agent::Baseos => Box::pin(started.run(stop, baseos::run)).await.map(|result| result.map_err(said)),
    };
    ended.map_err(said)?
}

fn said(error: impl std::error::Error + 'static) -> String {
    runtime::error_chain(&error)
}
