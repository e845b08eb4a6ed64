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

/// In its place this process cannot publish: what is told as failed must not count later.
#[tokio::test]
async fn an_order_that_cannot_be_carried_out_without_zedkube_is_taken_back() -> Result<()> {
    let device = Device::new()?;
    drop(Zedkube::new(&device)?);
    device.write("/run/zedkube/DrainRecord", "a file where a folder should be")?;
    device.refuses(&["force", "complete", "--reason", "r"], 1, "the order is taken back").await?;
    assert!(!file(&device).exists());
    Ok(())
}

#[tokio::test]
async fn without_zedkube_nothing_is_written() -> Result<()> {
    let device = Device::new()?;
    let part = "nothing would happen: zedkube does not run here and has not run in this boot; start it with";
    device.refuses(&["force", "complete", "--reason", "r"], 1, part).await?;
    assert!(!device.path("/persist").exists());
    Ok(())
}

/// zedkube holds its lock and makes no progress: it takes no override, and the device waits for it.
#[tokio::test]
async fn beside_a_zedkube_that_hangs_the_request_that_stands_passes() -> Result<()> {
    let mut device = Device::new()?;
    let _zedkube = Zedkube::new(&device)?;
    let touch = device.root.touch(agent::ZEDKUBE);
    device.write("/run/ebb/lock/zedkube/touch", "00000000000000000000\n")?;
    std::fs::File::options().write(true).open(touch)?.set_modified(std::time::SystemTime::UNIX_EPOCH)?;
    let part = "there is no request that could pass without it";
    let said = device.ebb(&["force", "complete", "--reason", "too early"]).await?;
    assert!(said.code == 1 && said.out.contains(part), "{said:?}");
    assert!(!file(&device).exists(), "an order that was told as failed must not count later");

    device.start_device_op().await?;
    device.json(&["reboot"]).await?;
    let shown = || device.item::<DeviceOpStatus>(agent::ZEDAGENT, "global");
    let hangs = |status: &DeviceOpStatus| status.blocked_by.starts_with("zedkube hangs: its touch file is ");
    device.until("device-op sees that it hangs", || shown().filter(hangs)).await?;
    let status = device.ebb(&["status"]).await?;
    let parts = ["WITHOUT a drain in ", "\nzedkube HANGS: its touch file is "];
    assert!(status.code == 7 && parts.iter().all(|part| status.out.contains(part)), "{status:?}");

    let said = device.ebb(&["force", "complete", "--reason", "the disk does not answer"]).await?;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("device-op's request passes without it, this once: this node is NOT drained"),
        "{said:?}"
    );
    assert!(!file(&device).exists(), "it must not count for another request when zedkube goes on");
    let handed_over = |status: &DeviceOpStatus| status.state == DeviceOpState::HandedOver;
    let status = device.until("the reboot is handed over", || shown().filter(handed_over)).await?;
    assert!(
        status.release.ends_with(&format!("({}: the disk does not answer)", peers::user())),
        "{status:?}"
    );
    Ok(())
}
