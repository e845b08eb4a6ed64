//! Fixture of the demonstration: a root folder, and a cluster of three nodes with pods on the first.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use fake_cluster::{FakeCluster, Limit};
use pubsub::Root;
use runtime::AgentFlags;
use runtime::flags::Assignment;
use serde_json::{Value, json};

/// The Node of this device.
pub(crate) const NODE: &str = "edge-a";

/// First path where the agents look for a kubeconfig (k3s on EVE).
const KUBECONFIG: &str = "/run/.kube/k3s/k3s.yaml";

/// A root folder and a cluster. The cluster ends when this value is dropped; the folder stays.
#[derive(Debug)]
pub(crate) struct Fixture {
    root: Root,
    _cluster: FakeCluster,
}

impl Fixture {
    /// Makes the folder and the cluster, with this many pods on the node.
    pub(crate) fn set(pods: u16) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("ebb-demo-").tempdir().context("cannot make a folder")?;
        let root = Root::new(folder.keep());
        let cluster = FakeCluster::start().context("cannot start the cluster in memory")?;
        populate(&cluster, pods)?;
        write_private(&root.join(KUBECONFIG), &cluster.kubeconfig())?;
        Ok(Self { root, _cluster: cluster })
    }

    /// Root folder of the agents' files.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// The agents' flags: this root, this node, and dry-run mode, so that the machine is not rebooted.
    pub(crate) fn flags(&self) -> AgentFlags {
        let set = |key: &str, value: &str| Assignment { key: key.to_owned(), value: value.to_owned() };
        AgentFlags {
            root: self.root.path().to_owned(),
            node: Some(NODE.to_owned()),
            kubeconfig: Some(self.root.join(KUBECONFIG)),
            set: vec![set("device.dry-run", "true"), set("baseos.dry-run", "true")],
            ..AgentFlags::default()
        }
    }
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
    if one_off > 0 {
        cluster.pod("one-off", NODE)?;
    }
    Ok(())
}

/// Writes a file that only our user may read and write: agents refuse a file that others could have written.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)
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
