//! An operator's orders, by the verb, against a drain that does not end, because a budget lets no pod leave.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use anyhow::Result;
use fake_cluster::{FakeCluster, Limit};
use schemas::Operation;
use system::Device;

use crate::PROGRAM;

/// Two nodes; on ours three pods whose budget allows nothing.
fn blocked_site() -> Result<(FakeCluster, Device, tempfile::TempDir)> {
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

fn until_blocked(device: &Device) -> Result<()> {
    device.until("three pods are blocked", || {
        Ok(device.report().filter(|report| report.blocked.len() == 3).map(|_| ()))
    })
}

fn ebb(device: &Device, words: &[&str]) -> Result<(i32, String)> {
    let root = device.path("/").display().to_string();
    let said = Command::new(PROGRAM).args(words).args(["--root", &root]).output()?;
    let text = [said.stdout, said.stderr].concat();
    Ok((said.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned()))
}

fn until_rebooted(device: &Device) -> Result<()> {
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next().map(|_| ())))
}

/// D27.
#[test]
fn the_verb_forces_at_once_and_says_so() -> Result<()> {
    let (_cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    let (code, text) =
        ebb(&device, &["force", "complete", "--for", "device-op", "--reason", "store closed"])?;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("device-op's request is answered COMPLETE: this node is NOT drained"), "{text}");
    until_rebooted(&device)
}

#[test]
fn with_zedkube_dead_the_request_passes_this_once() -> Result<()> {
    let (_cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    device.kill("zedkube");
    let (code, text) = ebb(&device, &["force", "complete", "--reason", "zedkube is dead"])?;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("device-op's request passes without it, this once: this node is NOT drained"),
        "{text}"
    );
    until_rebooted(&device)?;
    let actions = device.actions()?;
    let reasons: Vec<&str> = actions.iter().map(|action| action.reason.as_str()).collect();
    assert!(
        matches!(reasons[..], [reason] if reason.contains("NOT DRAINED: an operator let it pass without zedkube")
            && reason.contains("zedkube is dead")),
        "{reasons:?}"
    );
    // The next zedkube goes on with the drain: the pass was for the gate.
    device.start("zedkube")?;
    until_blocked(&device)
}
