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
use runtime::{AgentFlags, Stop};
use schemas::{
    Agent, BaseOsConfig, ContentTreeStatus, DeviceOpsCmd, EdgeNodeClusterConfig, Operation, SwState, agent,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::eve::Eve;
use crate::kernel::{self, Task};
use crate::programs;

/// The version that runs, in `/run` as on EVE.
const VERSION: &str = "/run/eve-release";
const SETTINGS: &str = "/etc/ebb/ebb.toml";
/// The file by which the host asks for a reboot.
const ASKS: &str = "/run/reboot-required";
/// Where a person asks for a drain.
const PERSONS_REQUEST: &str = "/run/ebb/NodeDrainRequest/global.json";
/// Where a person asks for a drain that outlasts boots.
const KEPT_REQUEST: &str = "/persist/status/ebb/NodeDrainRequest/global.json";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MACHINE_ID: &str = "/etc/machine-id";
/// Says that the device is in a cluster; on EVE its zedagent publishes it.
const CLUSTER_CONFIG: &str = "/run/zedagent/EdgeNodeClusterConfig/global.json";
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
    controller: Option<Controller>,
    /// The controller's last command of each operation: counter, and whether it is wanted.
    commanded: BTreeMap<&'static str, (u32, bool)>,
    /// The image that the controller wants: its version, and the counter of its retries.
    wanted_image: Option<(String, u32)>,
    /// The version that runs, and the one that the next boot will run.
    version: String,
    next_version: String,
    verbs: Vec<Verb>,
    /// The verbs that ended with the device.
    lost_verbs: Vec<&'static str>,
    /// How long zedkube did not run in this boot, in nanoseconds, until it was started last, and since when it does not.
    zedkube_away: (u64, Option<u64>),
    /// From when until when zedkube stands still, or stood still last.
    zedkube_stands: (u64, u64),
    /// EVE's zedkube runs here in the place of ours.
    pub(crate) eve: Option<Eve>,
    /// `ebb-hold.service` is active: it is the first that a shutdown stops.
    pub(crate) holds: bool,
}

/// What the controller publishes on the device.
#[derive(Debug)]
struct Controller {
    commands: Publisher<DeviceOpsCmd>,
    images: Publisher<BaseOsConfig>,
    contents: Publisher<ContentTreeStatus>,
    _locks: [AgentLock; 2],
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
            commanded: BTreeMap::new(),
            wanted_image: None,
            version: "1".to_owned(),
            next_version: "1".to_owned(),
            verbs: Vec::new(),
            lost_verbs: Vec::new(),
            zedkube_away: (0, None),
            zedkube_stands: (0, 0),
            eve: None,
            holds: false,
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
        AgentFlags {
            root: self.root.path().to_owned(),
            node: Some(self.node.clone()),
            kubeconfig: Some(self.root.join(KUBECONFIG)),
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
        self.version.clone_from(&self.next_version);
        self.zedkube_away = (0, Some(kernel::now()));
        kernel::boots(self.machine);
        self.write(BOOT_ID, &self.boot_id())?;
        self.write(VERSION, &self.version)?;
        self.begin_userspace()
    }

    /// Begins userspace, again after a soft reboot: `/run` and the kernel's boot id stay.
    pub(crate) fn begin_userspace(&mut self) -> Result<()> {
        self.controller = None;
        programs::set_target(self.machine, None);
        let lock = AgentLock::acquire(&self.root, agent::CONTROLLER)?;
        let volatile = Persistence::Volatile;
        let commands = Publisher::open(&self.root, agent::CONTROLLER, volatile, &lock)?;
        let images = Publisher::open(&self.root, agent::CONTROLLER, volatile, &lock)?;
        let volumes = AgentLock::acquire(&self.root, agent::VOLUMEMGR)?;
        let contents = Publisher::open(&self.root, agent::VOLUMEMGR, volatile, &volumes)?;
        self.controller = Some(Controller { commands, images, contents, _locks: [lock, volumes] });
        if self.eve.is_some() {
            let config =
                EdgeNodeClusterConfig { initialized: true, valid: true, ..EdgeNodeClusterConfig::default() };
            self.write(CLUSTER_CONFIG, &serde_json::to_string(&config)?)?;
        }
        Ok(())
    }

    /// EVE's zedkube has started.
    pub(crate) fn eve_starts(&mut self) {
        self.zedkube_away = (self.zedkube_was_away(), None);
    }

    /// Publishes a command of the controller.
    pub(crate) fn command(&mut self, operation: Operation, counter: u32, is_wanted: bool) -> Result<()> {
        self.commanded.insert(operation.name(), (counter, is_wanted));
        self.repeat_commands()
    }

    /// The controller wants this image to run.
    pub(crate) fn want_image(&mut self, version: &str, retry: u32) -> Result<()> {
        self.wanted_image = Some((version.to_owned(), retry));
        self.repeat_commands()
    }

    /// The counter of this operation, if the controller wants it.
    pub(crate) fn wanted_command(&self, operation: Operation) -> Option<u32> {
        self.commanded.get(operation.name()).filter(|(_, is_wanted)| *is_wanted).map(|(counter, _)| *counter)
    }

    /// Publishes the controller's last commands, and the image that it wants, again.
    pub(crate) fn repeat_commands(&mut self) -> Result<()> {
        let Some(controller) = &mut self.controller else { return Ok(()) };
        for (operation, (counter, desired_state)) in &self.commanded {
            let (counter, desired_state) = (*counter, *desired_state);
            let command = DeviceOpsCmd { counter, desired_state, ..DeviceOpsCmd::default() };
            controller.commands.publish(&TopicKey::parse(operation)?, &command)?;
        }
        if let Some((version, retry)) = &self.wanted_image {
            let uuid = image_id(version);
            let image = BaseOsConfig {
                base_os_version: version.clone(),
                content_tree_uuid: uuid.clone(),
                retry_update_counter: *retry,
                activate: true,
                ..BaseOsConfig::default()
            };
            let content = ContentTreeStatus {
                content_id: uuid.clone(),
                state: SwState::LOADED,
                ..ContentTreeStatus::default()
            };
            controller.contents.publish(&TopicKey::parse(&uuid)?, &content)?;
            controller.images.publish(&TopicKey::parse(&uuid)?, &image)?;
        }
        Ok(())
    }

    /// The next boot runs this version.
    pub(crate) fn install(&mut self, version: &str) {
        version.clone_into(&mut self.next_version);
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Number of the boot.
    pub(crate) const fn boot(&self) -> u32 {
        self.boot
    }

    /// The operator's settings.
    pub(crate) fn set(&self, text: &str) -> Result<()> {
        self.write(SETTINGS, text)
    }

    /// Replaces the kubeconfig.
    pub(crate) fn set_kubeconfig(&self, text: &str) -> Result<()> {
        self.write(KUBECONFIG, text)
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

    /// How long zedkube did not run in this boot, or stood still, in nanoseconds.
    pub(crate) fn zedkube_was_away(&self) -> u64 {
        let (before, since) = self.zedkube_away;
        before + since.map_or(0, |since| kernel::now() - since) + self.zedkube_stood_still()
    }

    /// How long zedkube has stood still, or stood still last, in nanoseconds.
    fn zedkube_stood_still(&self) -> u64 {
        let (from, until) = self.zedkube_stands;
        until.min(kernel::now()) - from
    }

    /// For so many nanoseconds zedkube has stood still and does so still; 0 if it does not.
    pub(crate) fn zedkube_stands_still(&self) -> u64 {
        if kernel::now() < self.zedkube_stands.1 { self.zedkube_stood_still() } else { 0 }
    }

    /// zedkube stands still until this time; now, if it goes on or has ended.
    fn zedkube_stands_until(&mut self, until: u64) {
        self.zedkube_away.0 += self.zedkube_stood_still();
        self.zedkube_stands = (kernel::now(), until);
    }

    fn take_running(&mut self, agent: Agent) -> Option<Running> {
        let running = self.running.remove(agent.name())?;
        if agent == Agent::Zedkube {
            self.zedkube_stands_until(kernel::now());
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
        let ended = over.into_iter().map(|verb| (verb.words, verb.thread.join().unwrap_or(false)));
        self.lost_verbs.drain(..).map(|words| (words, false)).chain(ended).collect()
    }

    /// Somebody removes the files that zedkube publishes.
    pub(crate) fn remove_files(&self) {
        for topic in ["NodeDrainStatus", "NodeDrainReport"] {
            // They may not be there yet.
            fs::remove_file(self.root.join(format!("/run/zedkube/{topic}/global.json"))).unwrap_or_default();
        }
    }

    /// Somebody writes a request for a drain by hand, and fails.
    pub(crate) fn write_nonsense(&self) -> Result<()> {
        self.write(PERSONS_REQUEST, "{\"RequestedBy\":")
    }

    /// The host asks for a reboot by a file with this text, or asks no more.
    pub(crate) fn ask_for_reboot(&self, text: Option<&str>) -> Result<()> {
        if let Some(text) = text {
            return self.write(ASKS, text);
        }
        // It may not be there.
        fs::remove_file(self.root.join(ASKS)).unwrap_or_default();
        Ok(())
    }

    /// Somebody removes the lock file of an agent.
    pub(crate) fn remove_lock(&self, agent: Agent) {
        // It may not be there.
        fs::remove_file(self.root.lock(agent.wire_name())).unwrap_or_default();
    }

    pub(crate) fn has_lock_file(&self, agent: Agent) -> bool {
        self.root.lock(agent.wire_name()).exists()
    }

    /// A person asks for a drain by a file, with this text; or asks no more.
    pub(crate) fn request(&self, is_there: bool, context: &str) -> Result<()> {
        if !is_there {
            fs::remove_file(self.root.join(PERSONS_REQUEST)).unwrap_or_default();
            return Ok(());
        }
        let requested_at = runtime::clock::wall().to_string();
        let request = json!({"RequestedAt": requested_at, "RequestedBy": 1, "Context": context});
        // As `mv` does: the file is complete when it is there.
        let beside = "/run/ebb/NodeDrainRequest/.tmp.person";
        self.write(beside, &request.to_string())?;
        fs::rename(self.root.join(beside), self.root.join(PERSONS_REQUEST))?;
        Ok(())
    }

    /// A person has asked to keep the node drained over boots.
    pub(crate) fn is_kept(&self) -> bool {
        self.text(KEPT_REQUEST).is_some()
    }

    /// The file of a person's request is written once more, and not whole yet.
    /// True if there was one.
    pub(crate) fn write_half_a_request(&self) -> Result<bool> {
        let is_there = self.text(PERSONS_REQUEST).is_some();
        if is_there {
            self.write(PERSONS_REQUEST, "{\"RequestedAt\":")?;
        }
        Ok(is_there)
    }

    /// The agent stands still until this time. True if it runs.
    pub(crate) fn stop_still(&mut self, agent: Agent, until: u64) -> bool {
        let running = self.running.get(agent.name());
        let runs = running.map(|running| kernel::stand_still(running.task, until)).is_some();
        if runs && agent == Agent::Zedkube {
            self.zedkube_stands_until(until);
        }
        runs
    }

    /// The target by which systemd takes the device down.
    pub(crate) fn target(&self) -> Option<&'static str> {
        programs::target_of(self.machine)
    }

    /// All that runs on the device dies.
    pub(crate) fn kill_all(&mut self) {
        self.holds = false;
        for agent in Agent::ALL.into_iter().chain([Agent::Sentinel]) {
            self.kill(agent);
        }
        if let Some(eve) = &mut self.eve {
            eve.end();
            self.zedkube_away.1 = Some(kernel::now());
        }
        for verb in self.verbs.drain(..) {
            kernel::stop(verb.task);
            self.lost_verbs.push(verb.words);
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

    /// The reboot that a person has given stands.
    pub(crate) fn is_commanded_by_a_person(&self) -> bool {
        self.text("/run/ebb/DeviceOpsCmd/reboot.json")
            .is_some_and(|text| text.contains(r#""DesiredState":true"#))
    }

    /// The phase of zedkube's state machine, as its report says.
    pub(crate) fn phase(&self) -> String {
        if let Some(eve) = &self.eve {
            return eve.phase().to_owned();
        }
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
}

/// The id of an image's content, as the controller names it.
pub(crate) fn image_id(version: &str) -> String {
    format!("6ba7b810-9dad-11d1-80b4-{version:0>12}")
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
        Agent::Sentinel => {
            Box::pin(started.run(stop, sentinel::run)).await.map(|result| result.map_err(said))
        }
        Agent::Baseos => Box::pin(started.run(stop, baseos::run)).await.map(|result| result.map_err(said)),
    };
    ended.map_err(said)?
}

fn said(error: impl std::error::Error + 'static) -> String {
    runtime::error_chain(&error)
}
