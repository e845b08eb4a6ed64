//! Agents are killed in the middle of a drain: nothing is lost, and nothing goes down too early.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use anyhow::Result;
use fake_cluster::{FakeCluster, Limit};
use schemas::{DrainStatus, Operation};
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

#[test]
fn each_agent_killed_in_mid_drain_goes_on_after_a_restart() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    for agent in ["zedkube", "device-op", "nodeagent", "baseos"] {
        device.kill(agent);
        device.start(agent)?;
        until_blocked(&device)?;
        assert_eq!(device.actions()?, [], "{agent}: no reboot while pods are there");
    }
    cluster.budget("web", Limit::MinAvailable("0"))?;
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    assert_eq!(device.status(), DrainStatus::Complete);
    assert_eq!(cluster.pods_on("edge-a").len(), 0);
    assert_eq!(device.actions()?.len(), 1, "once");
    Ok(())
}

#[test]
fn with_zedkube_dead_the_reboot_waits_and_a_restart_drains() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    device.kill("zedkube");
    device.command(Operation::Reboot, 1)?;
    device.until("device-op holds the reboot back", || {
        let status = device.item::<schemas::DeviceOpStatus>(schemas::agent::ZEDAGENT);
        Ok(status.filter(|status| status.state == schemas::DeviceOpState::Deferred))
    })?;
    assert_eq!(device.actions()?, []);
    device.start("zedkube")?;
    until_blocked(&device)?;
    cluster.budget("web", Limit::MinAvailable("0"))?;
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    assert_eq!(cluster.pods_on("edge-a").len(), 0);
    Ok(())
}
