//! `ebb force`. zedkube is played here: its lock is held, its report is written, the file is taken as it would be.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::Result;
use pubsub::{AgentLock, Persistence, Publisher, TopicKey};
use runtime::peers;
use schemas::{
    DeviceOpState, DeviceOpStatus, Disabled, DrainOverride, DrainRequester, DrainStatus, NodeDrainReport,
    Outcome, PodLine, RefusedInput, agent, parse,
};
use serde_json::{Value, json};

use crate::device::Device;
use crate::site::Said;

/// A zedkube that takes one file.
struct Zedkube {
    reports: Publisher<NodeDrainReport>,
    _lock: AgentLock,
}

impl Zedkube {
    fn new(device: &Device) -> Result<Self> {
        let lock = AgentLock::acquire(&device.root, agent::ZEDKUBE)?;
        let mut reports = Publisher::open(&device.root, agent::ZEDKUBE, Persistence::Volatile, &lock)?;
        reports.publish(&TopicKey::global(), &NodeDrainReport::default())?;
        Ok(Self { reports, _lock: lock })
    }

    /// Runs the verb, takes its file under another name, and shows the report.
    async fn take(
        &mut self,
        device: &Device,
        words: &[&str],
        end: &str,
        report: NodeDrainReport,
    ) -> Result<(Said, DrainOverride)> {
        let child = device.spawn(words)?;
        let file = file(device);
        device.until("the file is there", || file.exists().then_some(())).await?;
        let text = std::fs::read(&file)?;
        assert_eq!(std::fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
        std::fs::rename(&file, format!("{}{end}", file.display()))?;
        self.reports.publish(&TopicKey::global(), &report)?;
        Ok((device.finish(child).await?, parse(&text)?))
    }
}

fn file(device: &Device) -> PathBuf {
    device.path("/persist/kube-status/force-NodeDrainStatus-global.json")
}

fn forced() -> NodeDrainReport {
    let pod = PodLine {
        namespace: "shop".into(),
        name: "db-0".into(),
        verdict: "Evict".into(),
        ..PodLine::default()
    };
    NodeDrainReport { outcome: Some(Outcome::Forced), pods: vec![pod], ..NodeDrainReport::default() }
}

#[tokio::test]
async fn what_is_ordered_and_what_became_of_it() -> Result<()> {
    let disabled = NodeDrainReport { disabled: Some(Disabled::default()), ..NodeDrainReport::default() };
    let device = Device::new()?;
    let mut zedkube = Zedkube::new(&device)?;
    let (all, device_op, update) = (DrainRequester::None, DrainRequester::DeviceOp, DrainRequester::Update);
    for (words, status, requested_by, report, line) in [
        ("complete", DrainStatus::Complete, all, forced(), "everybody's request is answered"),
        ("complete --for device-op", DrainStatus::Complete, device_op, forced(), "device-op's request is"),
        ("complete --for baseos", DrainStatus::Complete, update, forced(), "baseos's request is answered"),
        ("disable", DrainStatus::NotSupported, all, disabled, "drains are switched off until the next boot"),
        ("enable", DrainStatus::NotRequested, all, NodeDrainReport::default(), "drains are switched on"),
    ] {
        let words: Vec<&str> =
            ["force"].into_iter().chain(words.split(' ')).chain(["--reason", "dead disk"]).collect();
        let (said, order) = zedkube.take(&device, &words, ".applied", report).await?;
        assert!(said.code == 0 && said.out.starts_with(line), "{words:?}: {said:?}");
        let is_loud = said.err == "WARNING: the device may go down now although this node is NOT drained\n";
        assert_eq!(is_loud, status != DrainStatus::NotRequested, "{words:?}: {said:?}");
        assert_eq!(
            (order.status, order.requested_by, order.reason.as_str()),
            (status, requested_by, "dead disk")
        );
        assert!(!order.by.is_empty());
    }
    let mode = std::fs::metadata(device.path("/persist/kube-status"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_told_with_its_reason() -> Result<()> {
    let device = Device::new()?;
    let mut zedkube = Zedkube::new(&device)?;
    let refused = RefusedInput {
        path: format!("{}.refused", file(&device).display()),
        reason: "it was there before the first start in this boot".into(),
    };
    let report = NodeDrainReport { refused: vec![refused], ..NodeDrainReport::default() };
    let words = ["force", "complete", "--reason", "r", "--json"];
    let (said, _) = zedkube.take(&device, &words, ".refused", report).await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!(
        (said.code, &document["Taken"], &document["Override"]["Status"]),
        (1, &json!("Refused"), &json!(9))
    );
    assert_eq!(said.err, "error: it was there before the first start in this boot\n");
    Ok(())
}

#[tokio::test]
async fn a_zedkube_that_does_not_look_is_told() -> Result<()> {
    let device = Device::new()?;
    let zedkube = Zedkube::new(&device)?;
    // Files of earlier orders are not mistaken for the result of this one.
    for end in [".applied", ".refused"] {
        device.write(&format!("/persist/kube-status/force-NodeDrainStatus-global.json{end}"), "{}")?;
    }
    let words = ["force", "complete", "--reason", "r"];
    let said = device.ebb(&words).await?;
    assert_eq!(
        (said.code, said.out.as_str()),
        (1, "zedkube has not taken the override, so it was taken back: nothing was forced\n")
    );
    assert!(said.err.starts_with("error: zedkube runs, but did not look at /"), "{said:?}");
    assert!(!file(&device).exists(), "what was told as not done is not done later");
    // An order that somebody else gave waits there.
    device.write("/persist/kube-status/force-NodeDrainStatus-global.json", "{}")?;
    device.refuses(&words, 1, "an override waits there already: ").await?;
    std::fs::remove_file(file(&device))?;
    device.write("/run/kube-status/kubeforce-NodeDrainStatus-global.json", "{}")?;
    device.refuses(&words, 1, "an override waits there already: ").await?;
    drop(zedkube);
    Ok(())
}

#[tokio::test]
async fn where_persist_cannot_be_written_the_order_goes_by_way_of_run() -> Result<()> {
    let device = Device::new()?;
    let mut zedkube = Zedkube::new(&device)?;
    // A file where the folder should be, as a disk that does not let anybody write.
    device.write("/persist/kube-status", "")?;
    let by_run = device.path("/run/kube-status/force-NodeDrainStatus-global.json");
    let child = device.spawn(&["force", "complete", "--reason", "dead disk"])?;
    device.until("the file is there", || by_run.exists().then_some(())).await?;
    std::fs::rename(&by_run, format!("{}.applied", by_run.display()))?;
    zedkube.reports.publish(&TopicKey::global(), &forced())?;
    let said = device.finish(child).await?;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.err.contains("the order goes by way of") && said.err.contains("/run/kube-status"),
        "{said:?}"
    );
    Ok(())
}

#[tokio::test]
async fn without_zedkube_and_without_a_request_nothing_is_written() -> Result<()> {
    let device = Device::new()?;
    let no_request =
        "zedkube does not run, and there is no request that could pass without it: give the command";
    let only_zedkube = "zedkube does not run, and only zedkube switches drains off and on: start it again";
    for (order, part) in [("complete", no_request), ("disable", only_zedkube), ("enable", only_zedkube)] {
        device.refuses(&["force", order, "--reason", "r"], 1, part).await?;
    }
    assert!(!device.path("/persist/kube-status").exists() && !device.path("/run/kube-status").exists());
    Ok(())
}

/// What is told as failed must not count later.
#[tokio::test]
async fn a_pass_that_cannot_be_written_is_told() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    device.json(&["reboot"]).await?;
    device.write("/run/ebb/PassGate", "a file where a folder should be")?;
    device.refuses(&["force", "complete", "--reason", "r"], 1, "PassGate").await?;
    assert!(!file(&device).exists());
    Ok(())
}

/// Makes a zedkube that holds its lock one that makes no progress.
fn hang(device: &Device) -> Result<()> {
    device.write("/run/ebb/lock/zedkube/touch", "00000000000000000000\n")?;
    let touch = std::fs::File::options().write(true).open(device.root.touch(agent::ZEDKUBE))?;
    Ok(touch.set_modified(std::time::SystemTime::UNIX_EPOCH)?)
}

/// No zedkube takes the override, and the device waits for it.
#[tokio::test]
async fn without_a_zedkube_that_works_the_request_that_stands_passes() -> Result<()> {
    for (hangs, blocked_by, shown, trouble) in [
        (
            true,
            "zedkube hangs: its touch file is ",
            "\nzedkube HANGS: its touch file is ",
            "zedkube hangs: its touch",
        ),
        (false, "zedkube does not run (", "zedkube does NOT run", "zedkube does not run"),
    ] {
        let mut device = Device::new()?;
        let zedkube = Some(Zedkube::new(&device)?).filter(|_| hangs);
        if hangs {
            hang(&device)?;
        }
        let early = ["force", "complete", "--reason", "too early"];
        let part = format!("error: {trouble}");
        let said = device.ebb(&early).await?;
        assert!(said.code == 1 && said.err.starts_with(&part), "{said:?}");
        assert!(said.err.contains("there is no request that could pass without it"), "{said:?}");
        assert!(!file(&device).exists(), "an order that was told as failed must not count later");

        device.start_device_op().await?;
        let said = device.ebb(&["reboot"]).await?;
        assert!(said.code == 0 && said.err.starts_with(&format!("Warning: {trouble}")), "{said:?}");
        let status = || device.item::<DeviceOpStatus>(agent::ZEDAGENT, "global");
        let waits = |status: &DeviceOpStatus| status.blocked_by.starts_with(blocked_by);
        device.until("device-op waits for zedkube", || status().filter(waits)).await?;
        let said = device.ebb(&["status"]).await?;
        let is_shown = ["WITHOUT a drain in ", shown].iter().all(|part| said.out.contains(part));
        assert!(said.code == 7 && is_shown, "{said:?}");

        let said = device.ebb(&["force", "complete", "--reason", "the disk does not answer"]).await?;
        assert_eq!(said.code, 0, "{said:?}");
        let line = "device-op's request passes without it, this once: this node is NOT drained";
        assert!(said.out.starts_with(trouble) && said.out.contains(line), "{said:?}");
        assert!(said.err.contains("WARNING: the device may go down now"), "{said:?}");
        assert!(!file(&device).exists(), "it must not count for another request when zedkube goes on");
        let handed_over = |status: &DeviceOpStatus| status.state == DeviceOpState::HandedOver;
        let released = device.until("the reboot is handed over", || status().filter(handed_over)).await?;
        let by = format!("({}: the disk does not answer)", peers::user());
        assert!(released.release.ends_with(&by), "{released:?}");

        let said = device.ebb(&["force", "enable", "--reason", "it answers again"]).await?;
        assert!(said.code == 1 && said.err.contains("only zedkube switches drains off and on"), "{said:?}");
        assert!(said.err.starts_with("no request passes without zedkube any more\n"), "{said:?}");
        device.until("the reboot waits again", || status().filter(waits)).await?;
        drop(zedkube);
    }
    Ok(())
}
