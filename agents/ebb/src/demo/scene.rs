//! The stage of the demonstration: a root folder, and a cluster of three nodes with some work on the first.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use fake_cluster::{FakeCluster, Limit};
use pubsub::Root;
use runtime::AgentFlags;
use runtime::flags::Assignment;

/// The node that is "this machine".
pub(crate) const NODE: &str = "edge-a";

/// Where the agents look for a kubeconfig first (k3s on EVE).
const KUBECONFIG: &str = "/run/.kube/k3s/k3s.yaml";

/// A root and a cluster; the cluster ends with this value, the root stays.
#[derive(Debug)]
pub(crate) struct Scene {
    root: Root,
    _cluster: FakeCluster,
}

impl Scene {
    /// Sets the stage with so many pods on the node.
    pub(crate) fn set(pods: u16) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("ebb-demo-").tempdir().context("cannot make a folder")?;
        let root = Root::new(folder.keep());
        let cluster = FakeCluster::start().context("cannot start the cluster in memory")?;
        populate(&cluster, pods)?;
        write_private(&root.join(KUBECONFIG), &cluster.kubeconfig())?;
        Ok(Self { root, _cluster: cluster })
    }

    /// Below which the agents live.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// The agents' flags: this root, this node, and nothing that takes the machine down.
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

/// Three nodes; on ours a web shop that may lose two pods at a time, a database that may lose one, a daemon, and a
/// pod that nobody would make anew.
fn populate(cluster: &FakeCluster, pods: u16) -> anyhow::Result<()> {
    for node in [NODE, "edge-b", "edge-c"] {
        cluster.node(node)?;
    }
    let database = if pods > 3 { 2 } else { 0 };
    let web = u32::from(pods).saturating_sub(database + 1).max(1);
    cluster.deployment("web", web, NODE)?;
    cluster.budget("web", Limit::MaxUnavailable("2"))?;
    if database > 0 {
        cluster.deployment("db", database, NODE)?;
        cluster.budget("db", Limit::MaxUnavailable("1"))?;
    }
    cluster.daemon_set("sensor")?;
    cluster.pod("one-off", NODE)?;
    Ok(())
}

/// A file for our eyes only: agents refuse what others could have written.
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
