//! A device: a root folder, its agents, and the content of their files.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use control_plane::{ControlPlane, Pool};
use pubsub::{Persistence, Root, TopicKey, read_items};
use schemas::{
    DeviceOpsCmd, DrainStatus, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, Operation, Topic, agent,
    parse,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::agents::Process;
use crate::controller::Controller;
use crate::rights::ZedkubeUser;

/// The file in which nodeagent's dry run records its actions.
pub const ACTIONS: &str = "/persist/device-actions.jsonl";

/// The file in which baseos' dry run records its actions.
const ACTIVATIONS: &str = "/persist/status/baseosmgr/device-actions.jsonl";

/// Time limit of a wait for something that normally takes a second or two: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(5);

/// Poll interval of files.
const LOOK: Duration = Duration::from_millis(2);

/// The file from which the agents learn the id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The four agents: the verb of the program, and EVE's name of the folder.
const AGENTS: [(&str, &str); 4] = [
    ("zedkube", agent::ZEDKUBE),
    ("device-op", agent::ZEDAGENT),
    ("nodeagent", agent::NODEAGENT),
    ("baseos", agent::BASEOSMGR),
];

/// A device. Dropping it kills its agents and removes its root.
#[derive(Debug)]
pub struct Device {
    folder: TempDir,
    root: Root,
    program: PathBuf,
    arguments: Vec<String>,
    agents: BTreeMap<&'static str, Process>,
    controller: Controller,
}

impl Device {
    /// A device whose agents use this program, this kubeconfig and this node. No agent runs yet; nothing can take the
    /// machine itself down.
    pub fn new(program: &str, kubeconfig: &Path, node: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("device-").tempdir()?;
        let root = Root::new(folder.path());
        let argument = |flag: &str, value: &str| [flag.to_owned(), value.to_owned()];
        let arguments = [
            argument("--root", &folder.path().display().to_string()),
            argument("--kubeconfig", &kubeconfig.display().to_string()),
            argument("--node", node),
            argument("--log-format", "text"),
            argument("--set", "device.dry-run=true"),
            argument("--set", "baseos.dry-run=true"),
            // Tests that share a control plane must not wait for each other's slots.
            argument("--set", &format!("slots.group={node}")),
        ];
        let device = Self {
            controller: Controller::open(&root)?,
            folder,
            root,
            program: program.into(),
            arguments: arguments.concat(),
            agents: BTreeMap::new(),
        };
        device.begin_boot()?;
        Ok(device)
    }

    /// A device that is a node of a pool on a real control plane. Its zedkube has exactly the rights that
    /// `packaging/kubernetes` grants. The devices of a pool share their slots.
    pub fn in_pool(program: &str, plane: &ControlPlane, pool: &Pool, node: &str) -> Result<Self> {
        let user = ZedkubeUser::of_node(plane, &pool.name, node)?;
        let mut device = Self::new(program, &user.kubeconfig, node)?;
        device.set(&format!("slots.namespace={}", pool.name));
        device.set("slots.group=default");
        Ok(device)
    }

    /// The agents that start from now on are those of another program.
    pub fn use_program(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    /// Kills all agents with SIGKILL.
    pub fn stop_all(&mut self) {
        self.agents.clear();
    }

    /// Starts all four agents.
    pub fn start_agents(&mut self) -> Result<()> {
        AGENTS.into_iter().try_for_each(|(verb, _)| self.start(verb))
    }

    /// Adds a setting for the agents that start from now on.
    pub fn set(&mut self, setting: &str) {
        self.arguments.extend(["--set".to_owned(), setting.to_owned()]);
    }

    /// The root folder.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Path of a file of the device.
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute)
    }

    /// Starts all four agents and waits until the node is in service.
    pub fn start_all(&mut self) -> Result<()> {
        self.start_agents()?;
        self.until_in_service()
    }

    /// Waits until zedkube knows that it is in a cluster and there is no request for a drain.
    pub fn until_in_service(&self) -> Result<()> {
        self.until("the node is in service", || {
            let is_member = self.report().is_some_and(|report| report.member == schemas::Member::Yes);
            Ok((is_member && self.status() == DrainStatus::NotRequested).then_some(()))
        })
    }

    /// Starts one agent.
    pub fn start(&mut self, verb: &'static str) -> Result<()> {
        let log = self.folder.path().join(format!("{verb}.log"));
        let process = Process::start(&self.program, verb, &self.arguments, &log)?;
        self.agents.insert(verb, process);
        Ok(())
    }

    /// Kills one agent with SIGKILL.
    pub fn kill(&mut self, verb: &str) {
        self.agents.remove(verb);
    }

    /// The device goes down at this moment and boots: all agents are killed, `run` is empty, and the boot id changes.
    /// No agent runs yet; the controller publishes its commands again.
    pub fn boot(&mut self) -> Result<()> {
        self.agents.clear();
        fs::remove_dir_all(self.path("/run"))?;
        self.begin_boot()?;
        self.controller.reopen(&self.root)
    }

    fn begin_boot(&self) -> Result<()> {
        let path = self.path(BOOT_ID);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
        Ok(file.write_all(format!("{}\n", Uuid::new_v4()).as_bytes())?)
    }

    /// Id of this boot.
    pub fn boot_id(&self) -> Result<String> {
        Ok(fs::read_to_string(self.path(BOOT_ID))?.trim_end().to_owned())
    }

    /// A running agent.
    pub fn agent(&mut self, verb: &str) -> Result<&mut Process> {
        self.agents.get_mut(verb).with_context(|| format!("{verb} does not run"))
    }

    /// The whole log of an agent.
    pub fn log(&self, verb: &str) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join(format!("{verb}.log")))?)
    }

    /// The controller commands an operation. Before that it publishes a command without effect, so that the first
    /// counter is recorded.
    pub fn command(&mut self, operation: Operation, counter: u32) -> Result<()> {
        if self.recorded_counter(operation).is_none() {
            self.controller.command(operation, 0, false)?;
            self.until("the first counter is recorded", || Ok(self.recorded_counter(operation).map(|_| ())))?;
        }
        self.controller.command(operation, counter, true)
    }

    /// Counter of the last accepted command of this kind, from the file that survives a boot.
    pub fn recorded_counter(&self, operation: Operation) -> Option<u32> {
        let path = self.path(&format!("/persist/status/{}", operation.counter_file()));
        parse::<DeviceOpsCmd>(&fs::read(path).ok()?).ok().map(|command| command.counter)
    }

    /// The controller withdraws its command.
    pub fn take_back(&mut self, operation: Operation, counter: u32) -> Result<()> {
        self.controller.command(operation, counter, false)
    }

    /// The controller, for single steps.
    pub fn controller(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// Writes a request as a person would by `echo`.
    pub fn write_request(&self, agent: &str, text: &str) -> Result<PathBuf> {
        let path = self.root.item::<NodeDrainRequest>(agent, Persistence::Volatile, &TopicKey::global());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(path)
    }

    /// The status in NodeDrainStatus; UNKNOWN if there is none.
    pub fn status(&self) -> DrainStatus {
        self.item::<NodeDrainStatus>(agent::ZEDKUBE).map(|status| status.status).unwrap_or_default()
    }

    /// The present NodeDrainReport.
    pub fn report(&self) -> Option<NodeDrainReport> {
        self.item(agent::ZEDKUBE)
    }

    /// The first item of an agent's topic.
    pub fn item<T: Topic>(&self, agent: &str) -> Option<T> {
        read_items(&self.root, agent, Persistence::Volatile).items.into_values().next()
    }

    /// The actions that dry runs have recorded.
    pub fn actions(&self) -> Result<Vec<schemas::DeviceLine>> {
        let mut actions = Vec::new();
        for path in [ACTIONS, ACTIVATIONS] {
            let bytes = match fs::read(self.path(path)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                read => read?,
            };
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                actions.push(parse(line)?);
            }
        }
        Ok(actions)
    }

    /// Time of the last write to a file, by the clock of its file system.
    pub fn written(&self, path: &str) -> Result<SystemTime> {
        let path = self.path(path);
        fs::metadata(&path).and_then(|data| data.modified()).with_context(|| path.display().to_string())
    }

    /// Waits until NodeDrainStatus has this value.
    pub fn until_status(&self, status: DrainStatus) -> Result<()> {
        self.until(&format!("NodeDrainStatus is {}", status.constant()), || {
            Ok((self.status() == status).then_some(()))
        })
    }

    /// Waits until `look` returns a value.
    pub fn until<T>(&self, what: &str, look: impl Fn() -> Result<Option<T>>) -> Result<T> {
        #[expect(clippy::disallowed_methods, reason = "a test's own patience, not the agents' time")]
        let began = Instant::now();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if began.elapsed() > PATIENCE {
                bail!("waited {} s in vain until {what}\n{}", PATIENCE.as_secs(), self.describe());
            }
            #[expect(clippy::disallowed_methods, reason = "a blocking test has nothing else to do")]
            std::thread::sleep(LOOK);
        }
    }

    /// The state of the device, for a failed test.
    pub fn describe(&self) -> String {
        let report = self.report().map(|report| format!("{report:#?}")).unwrap_or_default();
        let logs = AGENTS.map(|(verb, _)| format!("--- {verb}\n{}", self.log(verb).unwrap_or_default()));
        format!("status {}, report {report}\n{}", self.status().constant(), logs.join("\n"))
    }
}
