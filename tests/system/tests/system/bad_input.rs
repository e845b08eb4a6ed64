//! Invalid input from outside is refused with one clear line, and the agents keep running.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use anyhow::{Context, Result};
use fake_cluster::FakeCluster;
use schemas::{DrainStatus, agent};
use system::Device;

use crate::PROGRAM;

pub(crate) const GOOD: &str = r#"{"RequestedAt":"2026-08-22T16:10:11Z","RequestedBy":2,"Context":"reboot"}"#;

/// zedkube alone on a cluster in memory. The drain cannot end, so the request stays active.
fn zedkube() -> Result<(FakeCluster, Device)> {
    let cluster = FakeCluster::start()?;
    for node in ["edge-a", "edge-b"] {
        cluster.node(node)?;
    }
    cluster.pod("held", "edge-a")?;
    cluster.budget("held", fake_cluster::Limit::MinAvailable("1"))?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    write(&kubeconfig, cluster.kubeconfig().as_bytes())?;
    let mut device = Device::new(PROGRAM, &keep(&kubeconfig, folder)?, "edge-a")?;
    device.start("zedkube")?;
    device.until_in_service()?;
    // A pod that is not Ready yet may be evicted although its budget allows nothing.
    device.until("the budget counts its pod", || {
        let budget = cluster.get("poddisruptionbudgets", "default", "held").unwrap_or_default();
        Ok((budget["status"]["currentHealthy"] == 1).then_some(()))
    })?;
    Ok((cluster, device))
}

/// Copies the kubeconfig, because it must exist longer than the function that wrote it; it is removed with the
/// machine's temporary files.
fn keep(kubeconfig: &Path, folder: tempfile::TempDir) -> Result<std::path::PathBuf> {
    let name = kubeconfig.file_name().context("a file name")?;
    Ok(folder.keep().join(name))
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    fs::create_dir_all(path.parent().context("a folder")?)?;
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(())
}

pub(crate) type Make = fn(&Path) -> Result<()>;

/// Kinds of wrong requests, each with a part of the refusal.
pub(crate) const WRONG: [(&str, Make, &str); 12] = [
    ("half written", |path| write(path, &GOOD.as_bytes()[..30]), "not JSON"),
    ("empty", |path| write(path, b""), "the text is empty"),
    ("not JSON", |path| write(path, b"reboot please"), "not JSON"),
    ("wrong type", |path| write(path, br#"{"RequestedAt":7,"RequestedBy":2}"#), "RequestedAt"),
    ("a list", |path| write(path, b"[]"), "a JSON object"),
    ("unknown requester", |path| write(path, br#"{"RequestedBy":9}"#), "9 is out of range"),
    ("another's requester", |path| write(path, br#"{"RequestedBy":3}"#), "RequestedBy is 3 UPDATE"),
    ("a directory", |path| Ok(fs::create_dir_all(path)?), "it is a folder"),
    (
        "a symlink",
        |path| {
            let target = path.with_extension("target");
            write(&target, GOOD.as_bytes())?;
            Ok(symlink(target, path)?)
        },
        "a symbolic link",
    ),
    ("10 MB", |path| write(path, &vec![b' '; 10 * 1024 * 1024]), "at most 65536 bytes"),
    (
        "world-writable",
        |path| {
            write(path, GOOD.as_bytes())?;
            Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o666))?)
        },
        "lets group or others write",
    ),
    (
        "somebody else's",
        |path| {
            write(path, GOOD.as_bytes())?;
            Ok(chown(path, Some(12345), None)?)
        },
        "owned by user 12345",
    ),
];

/// Replaces the request in one step by the file that `make` creates.
fn replace(request: &Path, make: Make) -> Result<()> {
    if request.is_dir() {
        fs::remove_dir(request)?;
    }
    let aside = request.with_file_name("aside");
    make(&aside)?;
    if aside.is_dir() && request.exists() {
        fs::remove_file(request)?;
    }
    Ok(fs::rename(aside, request)?)
}

#[test]
fn a_bad_request_is_refused_in_log_and_report() -> Result<()> {
    let (_cluster, device) = zedkube()?;
    let request = device.path("/run/zedagent/NodeDrainRequest/global.json");
    fs::create_dir_all(request.parent().context("a folder")?)?;
    for (name, make, reason) in WRONG {
        replace(&request, make)?;
        let refused = device.until(&format!("{name} is refused"), || {
            let refused = device.report().map(|report| report.refused).unwrap_or_default();
            Ok(refused.into_iter().find(|refused| refused.reason.contains(reason)))
        })?;
        assert_eq!(refused.path, request.display().to_string(), "{name}");
        assert!(refused.reason.contains("accepted: "), "{name}: {refused:?}");
        assert_eq!(device.status(), DrainStatus::NotRequested, "{name}");
        assert!(device.log("zedkube")?.contains(reason), "{name}: the log says it too");
    }
    // zedkube keeps running: a good request is accepted.
    replace(&request, |path| write(path, GOOD.as_bytes()))?;
    device.until_status(DrainStatus::Cordoned)?;
    let refused = device.until("nothing is refused any more", || {
        Ok(device.report().map(|report| report.refused).filter(Vec::is_empty))
    })?;
    assert!(refused.is_empty());
    Ok(())
}

#[test]
fn a_bad_kubeconfig_is_said_and_zedkube_runs() -> Result<()> {
    let dead_port = r#"{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"u","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}"#;
    let cases: [(&str, Option<&str>); 4] = [
        ("missing", None),
        ("empty", Some("")),
        ("not YAML", Some("\u{1}{{{{")),
        ("a dead port", Some(dead_port)),
    ];
    for (name, text) in cases {
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
        let report = device.until(&format!("{name} is said"), || {
            Ok(device.report().filter(|report| report.reason.contains("cannot be reached")))
        })?;
        let names_it =
            report.reason.contains("kubeconfig") || report.reason.contains("(API server 127.0.0.1:1)");
        assert!(names_it, "{name}: {}", report.reason);
        assert!(device.agent("zedkube")?.ended()?.is_none(), "{name}: it runs");
    }
    Ok(())
}

#[test]
fn no_agent_runs_twice() -> Result<()> {
    let (_cluster, mut device) = zedkube()?;
    let first = device.agent("zedkube")?.id();
    let second = std::process::Command::new(PROGRAM)
        .args(["zedkube", "--root", &device.root().path().display().to_string(), "--log-format", "text"])
        .output()?;
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("already running as process {first}")), "{said}");
    Ok(())
}

#[test]
fn a_bad_flag_is_exit_2_and_a_bad_file_is_said() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().display().to_string();
    for arguments in [vec!["--set", "drain.attempts=0"], vec!["--set", "drain.atempts=3"], vec!["--nonsense"]]
    {
        let output = std::process::Command::new(PROGRAM)
            .args(["zedkube", "--root", &root])
            .args(&arguments)
            .output()?;
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

#[test]
fn sigterm_ends_it_cleanly() -> Result<()> {
    let (_cluster, mut device) = zedkube()?;
    let status = device.agent("zedkube")?.terminate()?;
    assert_eq!(status.code(), Some(0));
    Ok(())
}
