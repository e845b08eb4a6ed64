//! A device whose drain cannot go on, because a budget lets no pod leave.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use anyhow::Result;
use fake_cluster::{FakeCluster, Limit};
use system::Device;

use crate::PROGRAM;

/// Two nodes; on ours three pods whose budget allows nothing.
pub(crate) fn blocked_site() -> Result<(FakeCluster, Device, tempfile::TempDir)> {
    let cluster = FakeCluster::start()?;
    for node in ["edge-a", "edge-b"] {
        cluster.node(node)?;
    }
    cluster.deployment("web", 3, "edge-a")?;
    cluster.budget("web", Limit::MinAvailable("3"))?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&kubeconfig)?;
    file.write_all(cluster.kubeconfig().as_bytes())?;
    let mut device = Device::new(PROGRAM, &kubeconfig, "edge-a")?;
    device.start_all()?;
    // A pod that is not Ready yet may be evicted although its budget allows nothing.
    device.until("the budget counts three healthy pods", || {
        let budget = cluster.get("poddisruptionbudgets", "default", "web").unwrap_or_default();
        Ok((budget["status"]["currentHealthy"] == 3).then_some(()))
    })?;
    Ok((cluster, device, folder))
}

pub(crate) fn until_blocked(device: &Device) -> Result<()> {
    device.until("three pods are blocked", || {
        Ok(device.report().filter(|report| report.blocked.len() == 3).map(|_| ()))
    })
}
