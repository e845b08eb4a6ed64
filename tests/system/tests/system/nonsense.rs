//! Every file that any agent reads is made bad in every way: all agents keep running, report it, take nothing down, and
//! go on when the files are good again.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use anyhow::{Context, Result};
use fake_cluster::FakeCluster;
use schemas::{DrainStatus, Operation, agent};
use system::Device;

use crate::PROGRAM;

const GOOD: &str = r#"{"RequestedAt":"2026-08-22T16:10:11Z","RequestedBy":2,"Context":"reboot"}"#;

type Make = fn(&Path) -> Result<()>;

/// Kinds of bad files.
const WRONG: [(&str, Make); 6] = [
    ("half written", |path| write(path, &GOOD.as_bytes()[..30])),
    ("empty", |path| write(path, b"")),
    ("a directory", |path| Ok(fs::create_dir_all(path)?)),
    ("a symlink", |path| {
        let target = path.with_extension("target");
        write(&target, GOOD.as_bytes())?;
        Ok(symlink(target, path)?)
    }),
    ("10 MB", |path| write(path, &vec![b' '; 10 * 1024 * 1024])),
    ("world-writable", |path| {
        write(path, GOOD.as_bytes())?;
        Ok(fs::set_permissions(path, Permissions::from_mode(0o666))?)
    }),
];

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

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("a folder")?)?;
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    Ok(file.set_permissions(Permissions::from_mode(0o600))?)
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
fn check(name: &str, make: Make) -> Result<()> {
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
    for (name, make) in WRONG {
        check(name, make)?;
    }
    Ok(())
}

#[test]
fn as_root_every_file_that_any_agent_reads_may_be_somebody_elses() -> Result<()> {
    check("somebody else's", |path| {
        write(path, GOOD.as_bytes())?;
        Ok(chown(path, Some(12345), None)?)
    })
}

#[test]
fn a_bad_kubeconfig_is_said_and_zedkube_runs() -> Result<()> {
    let dead_port = r#"{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"u","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}"#;
    for (text, part) in [(None, "kubeconfig"), (Some(dead_port), "(API server 127.0.0.1:1)")] {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        if let Some(text) = text {
            write(&kubeconfig, text.as_bytes())?;
        }
        let mut device = Device::new(PROGRAM, &kubeconfig, "edge-a")?;
        device.set("cluster.mode=always");
        device.start("zedkube")?;
        device.until_status(DrainStatus::NotRequested)?;
        device.write_request(agent::ZEDAGENT, GOOD)?;
        device.until_status(DrainStatus::Requested)?;
        let report = device.until("it is said", || {
            Ok(device.report().filter(|report| report.reason.contains("cannot be reached")))
        })?;
        assert!(report.reason.contains(part), "{}", report.reason);
        assert!(device.agent("zedkube")?.ended()?.is_none(), "it runs");
    }
    Ok(())
}
