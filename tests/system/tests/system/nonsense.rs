//! Every file that any agent reads is made bad in every way: all agents keep running, report it, take nothing down, and
//! go on when the files are good again.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use fake_cluster::FakeCluster;
use schemas::Operation;
use system::Device;

use crate::PROGRAM;
use crate::bad_input::{WRONG, write};

/// Files of others that agents read, and so have to name when they are bad.
const OF_OTHERS: [&str; 22] = [
    "/run/zedagent/NodeDrainRequest/global.json",
    "/run/baseosmgr/NodeDrainRequest/global.json",
    "/run/ebb/NodeDrainRequest/global.json",
    "/run/zedagent/EdgeNodeClusterConfig/global.json",
    "/run/zedagent/EdgeNodeInfo/global.json",
    "/run/zedagent/ConfigItemValueMap/global.json",
    "/run/zedagent/BaseOsConfig/11111111-1111-1111-1111-111111111111.json",
    "/run/controller/BaseOsConfig/11111111-1111-1111-1111-111111111111.json",
    "/run/volumemgr/ContentTreeStatus/11111111-1111-1111-1111-111111111111.json",
    "/run/controller/DeviceOpsCmd/reboot.json",
    "/run/controller/DeviceOpsCmd/shutdown.json",
    "/run/controller/DeviceOpsCmd/poweroff.json",
    "/persist/status/rebootConfig",
    "/persist/status/shutdownConfig",
    "/persist/status/poweroffConfig",
    "/persist/kube-status/force-NodeDrainStatus-global.json",
    "/run/kube-status/kubeforce-NodeDrainStatus-global.json",
    "/usr/lib/ebb/ebb.toml",
    "/etc/ebb/ebb.toml",
    "/etc/ebb/ebb.d/10-site.toml",
    "/persist/reboot-reason",
    "/etc/rancher/k3s/k3s.yaml",
];

/// Files that agents have written themselves and read after a restart.
const OF_THEIR_OWN: [&str; 13] = [
    "/run/zedkube/NodeDrainStatus/global.json",
    "/run/zedkube/NodeDrainReport/global.json",
    "/run/zedkube/DrainRecord/global.json",
    "/persist/status/zedkube/Membership/global.json",
    "/run/zedagent/ZedAgentStatus/zedagent.json",
    "/run/zedagent/DeviceOpStatus/global.json",
    "/persist/status/zedagent/OperationRecord/global.json",
    "/run/nodeagent/DeviceAction/global.json",
    "/run/nodeagent/NodeAgentStatus/nodeagent.json",
    "/run/baseosmgr/BaseOsHold/global.json",
    "/run/baseosmgr/BaseOsStatus/11111111-1111-1111-1111-111111111111.json",
    "/persist/status/baseosmgr/ActivationRecord/global.json",
    "/run/zedagent/restarted",
];

/// A device in a cluster of two, with a pod that can leave.
fn site() -> Result<(FakeCluster, Device, tempfile::TempDir)> {
    let cluster = FakeCluster::start()?;
    for node in ["edge-a", "edge-b"] {
        cluster.node(node)?;
    }
    cluster.deployment("web", 1, "edge-a")?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    write(&kubeconfig, cluster.kubeconfig().as_bytes())?;
    let device = Device::new(PROGRAM, &kubeconfig, "edge-a")?;
    Ok((cluster, device, folder))
}

fn remove(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(fs::remove_dir_all(path)?),
        Ok(_) => Ok(fs::remove_file(path)?),
        Err(_) => Ok(()),
    }
}

fn all_logs(device: &Device) -> String {
    ["zedkube", "device-op", "nodeagent", "baseos"]
        .map(|agent| device.log(agent).unwrap_or_default())
        .concat()
}

/// Tries one kind of bad file, for all files at once.
fn check(name: &str, make: fn(&Path) -> Result<()>) -> Result<()> {
    let (cluster, mut device, _folder) = site()?;
    // A folder in the place of an agent's own file is an obstacle like a full disk: it is reported, and the write is
    // tried again.
    let own = if name == "a directory" { &[] } else { OF_THEIR_OWN.as_slice() };
    for path in OF_OTHERS.iter().chain(own) {
        let path = device.path(path);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        make(&path)?;
    }
    device.start_all()?;
    let unnamed = || {
        let logs = all_logs(&device);
        let is_said = |path: &&&str| logs.contains(&device.path(path).display().to_string());
        let silent = OF_OTHERS.iter().filter(|path| !may_be_silent(path, name) && !is_said(path));
        silent.copied().collect::<Vec<_>>()
    };
    let all_named = device.until("each file is named", || Ok(unnamed().is_empty().then_some(())));
    all_named.with_context(|| format!("{name}: no agent names {:?}", unnamed()))?;
    assert_eq!(device.actions()?, [], "{name}");
    assert_eq!(cluster.pods_on("edge-a").len(), 1, "{name}: nothing was drained");
    for path in OF_OTHERS {
        remove(&device.path(path))?;
    }
    device.command(Operation::Reboot, 1)?;
    device.until(&format!("{name}: the reboot is recorded"), || Ok(device.actions()?.into_iter().next()))?;
    assert_eq!(cluster.pods_on("edge-a").len(), 0, "{name}");
    for agent in ["zedkube", "device-op", "nodeagent", "baseos"] {
        assert!(device.agent(agent)?.ended()?.is_none(), "{name}: {agent} runs");
    }
    Ok(())
}

/// True for files that need not be reported: a kubeconfig that a flag overrides is not read, an empty TOML file is a
/// good one, and the reason that another boot left is used only if it is good.
fn may_be_silent(path: &str, name: &str) -> bool {
    let is_toml = Path::new(path).extension().is_some_and(|extension| extension == "toml");
    path.ends_with("k3s.yaml") || path.ends_with("reboot-reason") || (name == "empty" && is_toml)
}

#[test]
fn every_file_that_any_agent_reads_may_be_bad() -> Result<()> {
    // The others are wrong only for a request: for other topics they are an item with unknown fields.
    let everywhere = WRONG
        .iter()
        .filter(|(name, ..)| !["wrong type", "unknown requester", "another's requester"].contains(name));
    for (name, make, _) in everywhere {
        check(name, *make)?;
    }
    Ok(())
}
