//! `ebb request` and `ebb cancel` with a real zedkube on a cluster in memory.

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use pubsub::AgentLock;
use schemas::{
    Disabled, DrainRequester, DrainStatus, Member, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, agent,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::device::Device;
use crate::site::Site;

/// zedkube in service on `edge-a`.
async fn in_service(site: &Site, flags: &[&str]) -> Result<Device> {
    let mut device = Device::new()?;
    let kubeconfig = site.kubeconfig().display().to_string();
    let own = ["--kubeconfig", &kubeconfig, "--node", "edge-a"];
    device.start("zedkube", agent::ZEDKUBE, &[&own, flags].concat()).await?;
    let is_member = || report(&device).filter(|report| report.member == Member::Yes);
    device.until("zedkube knows its cluster", is_member).await?;
    Ok(device)
}

fn report(device: &Device) -> Option<NodeDrainReport> {
    device.item(agent::ZEDKUBE, "global")
}

fn request(device: &Device) -> Option<NodeDrainRequest> {
    device.item(agent::EBB, "global")
}

fn status(device: &Device) -> Option<DrainStatus> {
    device.item::<NodeDrainStatus>(agent::ZEDKUBE, "global").map(|status| status.status)
}

#[tokio::test]
async fn a_node_is_drained_for_a_person_and_given_back() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    let device = in_service(&site, &[]).await?;
    let said = device.ebb(&["request", "--reason", "fan swap", "--wait"]).await?;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with("this node is drained (") && said.out.lines().count() == 1, "{said:?}");
    assert!(said.out.ends_with("stays drained until `ebb cancel` or the next boot\n"), "{said:?}");
    let current = request(&device).context("no request stands")?;
    assert_eq!((current.requested_by, current.context.as_str()), (DrainRequester::None, "fan swap"));
    assert!(site.is_cordoned("edge-a") && site.cluster.pods_on("edge-a").is_empty());

    device.refuses(&["request"], 1, "a drain is requested already (fan swap, ").await?;

    // The same request, kept from now on.
    let said = device.ebb(&["request", "--keep"]).await?;
    assert!(said.code == 0 && said.out.contains("over boots too, until `ebb cancel`"), "{said:?}");
    assert_eq!((request(&device), device.record(agent::EBB)), (None, Some(current)));
    device.until("its slot is given back", || site.holders().is_empty().then_some(())).await?;
    let is_kept = || Some(report(&device)?.requests.first()?.kept);
    device.until("the report says that it is kept", || is_kept().filter(|kept| *kept)).await?;
    let said = device.ebb(&["status"]).await?;
    assert!(said.out.contains("asked: ebb for \"fan swap\", kept over boots, answered COMPLETE"), "{said:?}");
    for again in [&["request"][..], &["request", "--keep"]] {
        device.refuses(again, 1, ", kept over boots), answered COMPLETE; ").await?;
    }
    let said = device.ebb(&["cancel"]).await?;
    let start = "the drain request (fan swap) is withdrawn: zedkube returns the node to service";
    assert!(said.code == 0 && said.out.starts_with(start), "{said:?}");
    assert_eq!(device.record::<NodeDrainRequest>(agent::EBB), None);
    device.until("the node is given back", || (!site.is_cordoned("edge-a")).then_some(())).await?;
    device.refuses(&["cancel"], 1, "no drain is requested from here").await
}

#[tokio::test]
async fn waiting_can_be_given_up_and_a_failure_is_told() -> Result<()> {
    let site = Site::quick()?;
    site.guarded_pod("db-0", "edge-a")?;
    let device =
        in_service(&site, &["--set", "drain.attempts=1", "--set", "drain.attempt-timeout=1h"]).await?;
    let mut child = device.spawn(&["request", "--wait"])?;
    let mut err = BufReader::new(child.stderr.take().context("no stderr")?).lines();
    while let Some(line) = err.next_line().await? {
        if line.starts_with("Attempting: ") {
            break;
        }
    }
    let said = device.signal(child, Signal::SIGINT).await?;
    assert_eq!((said.code, said.out.as_str()), (130, ""));
    assert!(request(&device).is_some(), "the request stands");
    device.ebb(&["cancel"]).await?;
    device
        .until("it is cancelled", || (status(&device) == Some(DrainStatus::NotRequested)).then_some(()))
        .await?;
    device.refuses(&["request", "--wait", "--timeout", "1s"], 1, "not waiting any more after 1 s: ").await?;
    assert!(request(&device).is_some(), "the request stands");

    let site = Site::quick()?;
    site.guarded_pod("db-0", "edge-a")?;
    let device =
        in_service(&site, &["--set", "drain.attempts=1", "--set", "drain.attempt-timeout=1s"]).await?;
    let said = device.ebb(&["request", "--wait", "--json"]).await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!((said.code, &document["Answer"], &document["Outcome"]), (1, &json!(8), &json!("DrainFailed")));
    assert!(said.err.contains("error: this node is not drained; "), "{said:?}");
    // The request is still active, and may be repeated.
    let first = request(&device).map(|request| request.requested_at);
    device.json(&["request", "--reason", "again"]).await?;
    let second = request(&device).context("no request stands")?.requested_at;
    assert_ne!(Some(second), first);
    // The status may still be that of the first one.
    let answer = || Some(report(&device)?.line_of(agent::EBB, second)?.answer);
    device.until("that fails too", || answer().filter(|answer| answer.is_failed())).await?;
    let said = device.ebb(&["request", "--keep", "--wait", "--reason", "fan swap"]).await?;
    assert!(
        said.code == 1 && said.err.contains("not drained, and stays cordoned until `ebb cancel`"),
        "{said:?}"
    );
    assert!(request(&device).is_none() && site.is_cordoned("edge-a"));
    let kubeconfig = site.kubeconfig().display().to_string();
    let give_back = ["uncordon", "--self", "--kubeconfig", &kubeconfig, "--node", "edge-a"];
    device.refuses(&give_back, 1, "a drain of this node is asked for by ebb (fan swap): ").await?;
    device.json(&["request", "--reason", "not kept"]).await?;
    assert_eq!((request(&device).is_some(), device.record::<NodeDrainRequest>(agent::EBB)), (true, None));
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_withdrawn_is_not_waited_for() -> Result<()> {
    let site = Site::quick()?;
    site.guarded_pod("db-0", "edge-a")?;
    let device = in_service(&site, &[]).await?;
    let child = device.spawn(&["request", "--wait"])?;
    device.until("it is accepted", || (status(&device) == Some(DrainStatus::Cordoned)).then_some(())).await?;
    device.ebb(&["cancel"]).await?;
    let said = device.finish(child).await?;
    assert!(said.code == 1 && said.err.contains("error: the request was withdrawn"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn nothing_is_asked_that_nobody_would_answer() -> Result<()> {
    let device = Device::new()?;
    device
        .refuses(&["request"], 1, "nothing would happen: zedkube does not run here; start it with `ebb")
        .await?;
    assert!(!device.path("/run/ebb").exists());
    let reports = [
        (
            NodeDrainReport { member: Member::No, ..NodeDrainReport::default() },
            "this device is in no cluster",
        ),
        (
            NodeDrainReport {
                disabled: Some(Disabled { by: "alice: bench".into(), ..Disabled::default() }),
                ..NodeDrainReport::default()
            },
            "drains are switched off (alice: bench); `ebb force enable`",
        ),
    ];
    for (report, part) in reports {
        device.publish(agent::ZEDKUBE, "global", &report)?;
        let _zedkube = AgentLock::acquire(&device.root, agent::ZEDKUBE)?;
        device.refuses(&["request"], 1, part).await?;
    }
    device.publish(agent::ZEDKUBE, "global", &NodeDrainReport::default())?;
    let _zedkube = AgentLock::acquire(&device.root, agent::ZEDKUBE)?;
    let foreign = NodeDrainRequest { requested_by: DrainRequester::Update, ..NodeDrainRequest::default() };
    device.publish(agent::EBB, "global", &foreign)?;
    device.refuses(&["request"], 1, "is not a request of a person").await?;
    device.refuses(&["cancel"], 1, "is not a person's (RequestedBy 3); remove it by hand").await?;
    device.write("/run/ebb/NodeDrainRequest/global.json", "{")?;
    for verb in ["request", "cancel"] {
        device.refuses(&[verb], 1, "cannot tell whether a drain is requested; remove that file").await?;
    }
    device.write("/persist/status/ebb/NodeDrainRequest/global.json", "[]")?;
    device.refuses(&["cancel"], 1, "/persist/status/ebb/NodeDrainRequest/global.json").await
}

/// Regression: the attempts waited for a whole day, five times, on a node that stayed cordoned.
#[tokio::test]
async fn a_right_that_stays_refused_fails_the_attempt_and_is_named() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    site.forbid("list", "poddisruptionbudgets");
    let device = in_service(&site, &["--set", "drain.attempts=1"]).await?;
    let said = device.ebb(&["request", "--wait"]).await?;
    assert_eq!(said.code, 1, "{said:?}");
    let named = "the node cannot be watched: cannot list poddisruptionbudgets";
    assert!(said.out.contains("the drain failed (FAILEDDRAIN)") && said.out.contains(named), "{said:?}");
    assert_eq!(site.cluster.pods_on("edge-a").len(), 1, "nothing was evicted");
    Ok(())
}
