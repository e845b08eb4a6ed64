//! Devices that are the nodes of one cluster and share its slots.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use control_plane::objects::{self, DELETE_DELAY};
use control_plane::{ControlPlane, Pool, unique};
use schemas::DrainStatus;
use serde_json::{Value, json};
use system::{Api, Device, ZedkubeUser};
use tempfile::TempDir;

use crate::PROGRAM;

/// Time limit of a wait: longer than any step.
const PATIENCE: Duration = Duration::from_secs(200);

const LOOK: Duration = Duration::from_millis(10);

const PODS: usize = 2;

/// device-op's counter of the cluster's last reboot.
const COUNTER: &str = "/persist/status/cluster/rebootConfig";

/// The devices, each with its node, its pods, and the credentials of its node's kubelet.
pub(crate) struct Fleet {
    pub(crate) plane: ControlPlane,
    pub(crate) devices: Vec<Device>,
    pub(crate) api: Api,
    pool: Pool,
    folder: TempDir,
    /// Devices whose reboot was seen and carried out.
    booted: Vec<bool>,
    /// The plugin of kubectl: a link to the program.
    plugin: PathBuf,
}

/// A running command. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Command {
    process: Child,
    said: PathBuf,
}

impl Command {
    /// Starts it; what it prints goes into this file.
    pub(crate) fn start(command: &mut process::Command, said: PathBuf) -> Result<Self> {
        let file = File::create(&said)?;
        let process = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { process, said })
    }

    /// What it has printed so far.
    pub(crate) fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.said)?)
    }
}

impl Drop for Command {
    /// If it cannot be killed, it has ended already.
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Fleet {
    /// So many devices, of which `limit` may be down at a time. The cluster can command them.
    pub(crate) fn start(name: &str, count: usize, limit: usize) -> Result<Self> {
        let plane = ControlPlane::shared()?;
        let suffixes: Vec<String> = (1..=count).map(|number| format!("{number:02}")).collect();
        let suffixes: Vec<&str> = suffixes.iter().map(String::as_str).collect();
        let pool = plane.create_pool(&unique(name), &suffixes)?;
        let folder = tempfile::tempdir()?;
        let plugin = folder.path().join("kubectl-ebb");
        std::os::unix::fs::symlink(PROGRAM, &plugin)?;
        let mut fleet = Self {
            api: Api::open(plane.kubeconfig())?,
            plane,
            devices: Vec::new(),
            booted: vec![false; count],
            pool,
            plugin,
            folder,
        };
        for node in fleet.pool.nodes.clone() {
            let user = ZedkubeUser::of_node(&fleet.plane, &fleet.pool.name, &node)?;
            fleet.add(&node, &user.kubeconfig, limit)?;
        }
        for device in &mut fleet.devices {
            device.start_all()?;
        }
        fleet.until("the counters before the first command are recorded", |fleet| {
            let is_recorded = |device: &Device| device.path(COUNTER).exists();
            Ok(fleet.devices.iter().all(is_recorded).then_some(()))
        })?;
        Ok(fleet)
    }

    fn add(&mut self, node: &str, kubeconfig: &Path, limit: usize) -> Result<()> {
        let mut device = Device::new(PROGRAM, kubeconfig, node)?;
        device.set(&format!("slots.limit={limit}"));
        device.set("commands.from-cluster=true");
        device.set(&format!("slots.namespace={}", self.pool.name));
        for setting in ["slots.group=default", "evict.retry=1s", "cordon.pause=1s", "peer.window=3s"] {
            device.set(setting);
        }
        for index in 0..PODS {
            self.api.create(&self.pods(), &pod(node, index))?;
        }
        self.report_boot(node, &device.boot_id()?)?;
        self.devices.push(device);
        Ok(())
    }

    /// Starts `kubectl get node -w`, which shows each version of this Node in this form.
    pub(crate) fn watch_node(&self, node: &str, form: &str) -> Result<Command> {
        Command::start(self.plane.kubectl().args(["get", "node", node, "-w", "-o", form]), self.path("shown"))
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        self.pool.nodes.clone()
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.pool.name)
    }

    /// Commands a reboot of all devices at the same time, as a person with a kubeconfig does.
    pub(crate) fn reboot_all(&mut self) -> Result<Command> {
        let mut command = self.plugin();
        command.arg("reboot").args(self.nodes()).args(["--wait", "--reason", "kernel"]);
        let command = Command::start(&mut command, self.path("said"))?;
        self.until("all devices are commanded", |fleet| {
            let count = command.said()?.lines().filter(|line| line.ends_with(" reboot commanded")).count();
            Ok((count == fleet.booted.len()).then_some(()))
        })?;
        Ok(command)
    }

    /// `kubectl ebb`, of an administrator.
    pub(crate) fn plugin(&self) -> process::Command {
        let mut command = process::Command::new(&self.plugin);
        command.env("KUBECONFIG", self.plane.kubeconfig()).stdin(Stdio::null());
        command
    }

    /// A file of this test.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A budget of all pods allows no eviction.
    pub(crate) fn forbid_evictions(&self) -> Result<()> {
        let mut budget = objects::disruption_budget(&self.pool.name, "all", ("minAvailable", 1000));
        budget["spec"]["selector"] = json!({});
        let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", self.pool.name);
        self.api.create(&path, &budget).map(drop)
    }

    /// Removes that budget.
    pub(crate) fn allow_evictions(&self) -> Result<()> {
        self.plane.run(&["delete", "pdb", "all", "-n", &self.pool.name]).map(drop)
    }

    /// Whether zedkube has told Events with each of these reasons, about a node of the fleet or a pod on it.
    pub(crate) fn has_events(&self, reasons: &[&str]) -> Result<Option<()>> {
        let is_ours = |event: &Value| {
            let host = event["source"]["host"].as_str().unwrap_or_default();
            event["source"]["component"] == "zedkube" && self.pool.nodes.iter().any(|node| node == host)
        };
        let events = self.api.list("/api/v1/events")?;
        let has = |reason: &&str| events.iter().any(|event| is_ours(event) && event["reason"] == **reason);
        Ok(reasons.iter().all(has).then_some(()))
    }

    /// Waits until the command has ended; returns its exit code and what it has printed.
    pub(crate) fn until_ended(&mut self, command: &mut Command) -> Result<(Option<i32>, String)> {
        let status = self.until("kubectl ebb has ended", |_| Ok(command.process.try_wait()?))?;
        Ok((status.code(), command.said()?))
    }

    /// The device is switched off: without a drain.
    pub(crate) fn switch_off(&mut self, index: usize) -> Result<()> {
        self.devices[index].boot()
    }

    /// The device is switched on again.
    pub(crate) fn switch_on(&mut self, index: usize) -> Result<()> {
        self.report_boot(&self.pool.nodes[index], &self.devices[index].boot_id()?)?;
        for agent in ["zedkube", "device-op", "nodeagent", "baseos"] {
            self.devices[index].start(agent)?;
        }
        Ok(())
    }

    /// True if no node has the slot.
    pub(crate) fn is_slot_free(&self) -> Result<bool> {
        let map = format!("/api/v1/namespaces/{}/configmaps/ebb-slots-default", self.pool.name);
        let map = self.api.find(&map)?.unwrap_or_default();
        Ok(map["data"].as_object().is_none_or(serde_json::Map::is_empty))
    }

    /// Waits until all have rebooted and take pods again, and no node has a slot.
    pub(crate) fn until_all_are_back(&mut self) -> Result<()> {
        for index in 0..self.devices.len() {
            self.until_is_back(index)?;
        }
        self.until("the slot is free", |fleet| Ok(fleet.is_slot_free()?.then_some(())))
    }

    /// Waits until the node has rebooted once and takes pods again.
    pub(crate) fn until_is_back(&mut self, index: usize) -> Result<()> {
        self.until(&format!("{} has booted", self.pool.nodes[index]), |fleet| {
            Ok(fleet.booted[index].then_some(()))
        })?;
        self.until_is_free(index)?;
        assert_eq!(self.devices[index].actions()?.len(), 1, "it went down once");
        Ok(())
    }

    /// Waits until the node takes pods, and nobody asks for a drain.
    pub(crate) fn until_is_free(&mut self, index: usize) -> Result<()> {
        let path = format!("/api/v1/nodes/{}", self.pool.nodes[index]);
        self.until(&format!("{} is back", self.pool.nodes[index]), |fleet| {
            if fleet.devices[index].status() != DrainStatus::NotRequested {
                return Ok(None);
            }
            let node = fleet.api.get(&path)?;
            let is_free = node["spec"]["unschedulable"].is_null()
                && node["metadata"]["annotations"]["ebb.dev/cordoned-by"].is_null();
            Ok(is_free.then_some(()))
        })
    }

    /// Waits until `look` finds something; devices boot meanwhile.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        #[expect(clippy::disallowed_methods, reason = "the test's own patience, not the agents' time")]
        let began = Instant::now();
        loop {
            self.tend()?;
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if began.elapsed() > PATIENCE {
                let all: Vec<String> = self.devices.iter().map(Device::describe).collect();
                bail!("waited {} s in vain until {what}\n{}", PATIENCE.as_secs(), all.join("\n=====\n"));
            }
            pause();
        }
    }

    /// Boots each device whose reboot was carried out.
    fn tend(&mut self) -> Result<()> {
        for index in 0..self.devices.len() {
            if !self.booted[index] && !self.devices[index].actions()?.is_empty() {
                self.booted[index] = true;
                self.boot(index)?;
            }
        }
        Ok(())
    }

    fn boot(&mut self, index: usize) -> Result<()> {
        let node = self.pool.nodes[index].clone();
        let left = self.pods_of(&node)?;
        assert!(left.is_empty(), "{node} goes down with pods on it: {left:?}");
        self.devices[index].boot()?;
        self.set_ready(&node, false)?;
        self.set_ready(&node, true)?;
        self.switch_on(index)
    }

    fn pods_of(&self, node: &str) -> Result<Vec<String>> {
        let pods = self.api.list(&format!("/api/v1/pods?fieldSelector=spec.nodeName={node}"))?;
        Ok(pods.iter().map(|pod| pod["metadata"]["name"].to_string()).collect())
    }

    /// Writes the boot id to the Node, as a kubelet does.
    fn report_boot(&self, node: &str, boot_id: &str) -> Result<()> {
        let patch = json!({"status": {"nodeInfo": {"bootID": boot_id}}});
        self.api.patch(&format!("/api/v1/nodes/{node}/status"), &patch).map(drop)
    }

    fn set_ready(&self, node: &str, is_ready: bool) -> Result<()> {
        let path = format!("/api/v1/nodes/{node}/status");
        let mut conditions = self.api.get(&path)?["status"]["conditions"].take();
        for condition in conditions.as_array_mut().into_iter().flatten() {
            if condition["type"] == "Ready" {
                condition["status"] = json!(if is_ready { "True" } else { "False" });
            }
        }
        self.api.patch(&path, &json!({"status": {"conditions": conditions}})).map(drop)
    }
}

/// A pod of a node that no controller creates again.
fn pod(node: &str, index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{node}-{index}"),
            "annotations": {DELETE_DELAY: "300ms"},
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "main"}]},
    })
}

fn pause() {
    #[expect(clippy::disallowed_methods, reason = "a blocking test has nothing else to do")]
    std::thread::sleep(LOOK);
}
