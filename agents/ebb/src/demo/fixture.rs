//! Fixture of the demonstration: a root folder, a cluster of three nodes with pods on the first, and the agents.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use fake_cluster::{FakeCluster, Limit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pubsub::Root;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::DemoArguments;
use super::scene::Scene;

/// The Node of this device.
pub(crate) const NODE: &str = "edge-a";

/// First path where the agents look for a kubeconfig (k3s on EVE).
const KUBECONFIG: &str = "/run/.kube/k3s/k3s.yaml";

/// The operator's settings of the device.
const SETTINGS: &str = "/etc/ebb/ebb.toml";

/// `ConfigMap` of the slots in namespace `kube-system`, for the group of the default settings.
pub(crate) const SLOTS: &str = "ebb-slots-default";

/// A pod without a controller: nobody creates it again.
const ONE_OFF: &str = "one-off";

/// A root folder and a cluster. The cluster ends when this value is dropped; the folder stays.
#[derive(Debug)]
pub(crate) struct Fixture {
    root: Root,
    pub(crate) cluster: FakeCluster,
    has_one_off: bool,
}

impl Fixture {
    /// Makes the folder and the cluster.
    pub(crate) fn set(arguments: &DemoArguments) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("ebb-demo-").tempdir().context("cannot make a folder")?;
        let root = Root::new(folder.keep());
        let cluster = FakeCluster::start().context("cannot start the cluster in memory")?;
        populate(&cluster, arguments.pods)?;
        let mut fixture = Self { root, cluster, has_one_off: false };
        fixture.has_one_off = fixture.has_the_one_off();
        write_private(&fixture.kubeconfig(), &fixture.cluster.kubeconfig())?;
        write_private(&fixture.root.join(SETTINGS), &fixture.settings(arguments.scene))?;
        Ok(fixture)
    }

    /// Root folder of the agents' files.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// The kubeconfig of the cluster.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.root.join(KUBECONFIG)
    }

    /// The file to which the agents log.
    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("/agents.log")
    }

    /// The settings of the device in this scene. They name the kubeconfig, because `KUBECONFIG` may be that of another
    /// cluster.
    fn settings(&self, scene: Option<Scene>) -> String {
        let kubeconfig = json!(self.kubeconfig());
        let of_scene = scene.map_or("", |scene| scene.script().settings);
        format!(
            "# The device of this demonstration.\n\
             node.name = \"{NODE}\"\n\
             cluster.kubeconfig = {kubeconfig}\n\
             # This machine is not rebooted, and gets no image: both are only written down.\n\
             device.dry-run = true\n\
             baseos.dry-run = true\n\
             # The cluster in memory checks no rights, so nothing confines a node to itself.\n\
             cluster.unconfined = true\n\
             {of_scene}"
        )
    }

    /// Starts the agents, as on a host without a service manager. They end with this process.
    pub(crate) fn start_agents(&self) -> anyhow::Result<Child> {
        let log = new_file(&self.log())?;
        let mut command = self.command(&["run", "--log-format=text"])?;
        command.arg(format!("--parent={}", Pid::this())).stdout(log.try_clone()?).stderr(log);
        command.spawn().context("cannot start the agents")
    }

    /// This program with these words, for this device.
    pub(crate) fn command(&self, words: &[&str]) -> anyhow::Result<Command> {
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let mut command = Command::new(program);
        command.args(words).arg("--root").arg(self.root.path()).stdin(Stdio::null());
        Ok(command)
    }

    /// True if pods that a drain has moved are not on this device's node.
    pub(crate) fn has_pods_away(&self) -> bool {
        self.has_one_off && !self.has_the_one_off() || !replicas_away(&self.cluster).is_empty()
    }

    /// Moves the pods back to this device's node as soon as it takes pods, as a descheduler does, and waits until they
    /// are there.
    pub(crate) async fn bring_pods_back(&self) -> anyhow::Result<()> {
        let is_in_service = |cluster: &FakeCluster| {
            let node = cluster.get("nodes", "", NODE)?;
            (node.pointer("/spec/unschedulable") != Some(&json!(true))).then_some(())
        };
        self.cluster.wait_for(is_in_service).await;
        for pod in replicas_away(&self.cluster) {
            self.cluster.delete("pods", "default", &pod);
        }
        if self.has_one_off && !self.has_the_one_off() {
            self.cluster.pod(ONE_OFF, NODE)?;
        }
        self.cluster.wait_for(|cluster| replicas_away(cluster).is_empty().then_some(())).await;
        Ok(())
    }

    fn has_the_one_off(&self) -> bool {
        self.cluster.get("pods", "default", ONE_OFF).is_some()
    }
}

/// Names of the pods of deployments that are on no node, or not on this device's.
fn replicas_away(cluster: &FakeCluster) -> Vec<String> {
    let text =
        |pod: &Value, path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_away = |pod: &Value| {
        text(pod, "/metadata/ownerReferences/0/kind") == "ReplicaSet" && text(pod, "/spec/nodeName") != NODE
    };
    let away = cluster.list("pods", Some("default")).into_iter().filter(is_away);
    away.map(|pod| text(&pod, "/metadata/name")).collect()
}

/// Asks the agents to end, and waits for it. They have a limit of their own.
pub(crate) async fn end(mut agents: Child) -> anyhow::Result<ExitStatus> {
    if let Some(id) = agents.id() {
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGTERM).context("cannot end the agents")?;
    }
    Ok(agents.wait().await?)
}

/// Three nodes, each with capacity for all pods. On the first: a web shop that may lose two pods at a time (of many
/// pods one in twenty), a database that may lose one, a pod without a controller, and a DaemonSet.
fn populate(cluster: &FakeCluster, pods: u16) -> anyhow::Result<()> {
    for node in [NODE, "edge-b", "edge-c"] {
        cluster.node(node)?;
        // The default capacity is 110 pods.
        let room = |node: &mut Value| {
            let Some(node) = node.as_object_mut() else { return };
            let status = node.entry("status").or_insert_with(|| json!({}));
            for field in ["capacity", "allocatable"] {
                let much = json!({"cpu": "100", "memory": "100Gi", "pods": "1000"});
                status.as_object_mut().map(|status| status.insert(field.to_owned(), much));
            }
        };
        cluster.edit("nodes", "", node, room)?;
    }
    let database = if pods > 3 { 2 } else { 0 };
    let one_off = u32::from(pods > 1);
    let web = u32::from(pods).saturating_sub(database + one_off);
    cluster.deployment("web", web, NODE)?;
    cluster.budget("web", Limit::MaxUnavailable(&(web / 20).max(2).to_string()))?;
    if database > 0 {
        cluster.deployment("db", database, NODE)?;
        cluster.budget("db", Limit::MaxUnavailable("1"))?;
    }
    cluster.daemon_set("sensor")?;
    // As the manifest of packaging/kubernetes makes it.
    cluster.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SLOTS, "namespace": "kube-system"},
    }))?;
    if one_off > 0 {
        cluster.pod(ONE_OFF, NODE)?;
    }
    Ok(())
}

/// Writes a file that only our user may read and write: agents refuse a file that others could have written.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    new_file(path)?.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Creates a file that only our user may read and write, and its folder.
fn new_file(path: &Path) -> anyhow::Result<File> {
    let cannot = || format!("cannot create {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).with_context(cannot)
}
#[cfg(test)]
mod tests {
    use fake_cluster::Settings;

    use super::*;

    #[test]
    fn every_accepted_number_of_pods_fits() {
        for wanted in [1, 2, 3, 4, 12, 500] {
            let cluster = FakeCluster::start_with(Settings::passive()).unwrap();
            populate(&cluster, wanted).unwrap();
            let number = |kind: &str, name: &str, field: &str| {
                let object = cluster.get(kind, "default", name);
                object.map_or(0, |object| object["spec"][field].as_u64().unwrap_or(1))
            };
            let pods = number("deployments", "web", "replicas")
                + number("deployments", "db", "replicas")
                + number("pods", "one-off", "none");
            assert_eq!(pods, u64::from(wanted));
            let node = cluster.get("nodes", "", "edge-b").unwrap();
            assert_eq!(node["status"]["allocatable"]["pods"], "1000");
        }
    }
}
