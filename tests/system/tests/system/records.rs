//! A restarted zedkube goes on from its record.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use fake_cluster::Limit;
use schemas::{DrainStatus, NodeDrainReport, Operation, Outcome};
use system::Device;

use crate::blocked::{blocked_site, until_blocked};
use crate::overrides::ebb;

#[test]
fn a_killed_zedkube_goes_on_in_the_same_drain_attempt_and_deadline() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    let before = device.report().context("a report")?;
    device.kill("zedkube");
    device.start("zedkube")?;
    let after = device.until("the attempt goes on", || {
        let is_new = |report: &NodeDrainReport| report.phase == "Attempting" && report.blocked.len() == 3;
        Ok(device.report().filter(is_new).filter(|report| report.since != before.since))
    })?;
    assert_eq!(device.status(), DrainStatus::Cordoned);
    assert_eq!((&after.drain_id, after.drain_attempt), (&before.drain_id, before.drain_attempt));
    let moved = after.deadline.set().context("a deadline")? - before.deadline.set().context("a deadline")?;
    // Published times are computed from the wall clock again.
    assert!(moved.get_seconds().abs() < 2, "the deadline moved by {moved}");
    cluster.budget("web", Limit::MinAvailable("0"))?;
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    Ok(())
}

#[test]
fn nothing_begins_that_cannot_be_put_on_record() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    let folder = device.path("/run/zedkube/DrainRecord");
    fs::remove_dir_all(&folder)?;
    fs::File::create(&folder)?;
    device.command(Operation::Reboot, 1)?;
    device.until("the report says so", || {
        Ok(device.report().filter(|report| report.reason.contains("before the DrainRecord can be written")))
    })?;
    let node = || cluster.get("nodes", "", "edge-a").unwrap_or_default();
    assert_eq!(node()["spec"]["unschedulable"], serde_json::Value::Null, "no cordon");
    device.until_status(DrainStatus::Requested)?;
    fs::remove_file(&folder)?;
    cluster.budget("web", Limit::MinAvailable("0"))?;
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    Ok(())
}

/// Replaces the record's folder by a file: nothing can be written there.
fn break_record(device: &Device) -> Result<PathBuf> {
    let folder = device.path("/run/zedkube/DrainRecord");
    fs::remove_dir_all(&folder)?;
    fs::File::create(&folder)?;
    Ok(folder)
}

#[test]
fn a_withdrawal_is_heard_while_the_record_cannot_be_written() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    let broken = break_record(&device)?;
    device.take_back(Operation::Reboot, 1)?;
    let node = || cluster.get("nodes", "", "edge-a").unwrap_or_default();
    device.until("the node is given back", || Ok(node()["spec"]["unschedulable"].is_null().then_some(())))?;
    device.until_status(DrainStatus::NotRequested)?;
    device.until("the slot is given back, and the report says what is wrong", || {
        let is_told = |report: &NodeDrainReport| {
            !report.slot.held && report.reason.contains("before the DrainRecord can be written")
        };
        Ok(device.report().filter(is_told))
    })?;
    // The next request is not drained before it can be recorded; then it is.
    device.command(Operation::Reboot, 2)?;
    cluster.budget("web", Limit::MinAvailable("0"))?;
    device
        .until("a slot is waited for", || Ok(device.report().filter(|report| report.phase == "Waiting")))?;
    assert!(node()["spec"]["unschedulable"].is_null(), "no cordon");
    fs::remove_file(&broken)?;
    let action = device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    assert_eq!((action.counter, cluster.pods_on("edge-a").len()), (2, 0));
    Ok(())
}

#[test]
fn an_order_is_heard_while_the_record_cannot_be_written() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    break_record(&device)?;
    let (code, text) = ebb(&device, &["force", "complete", "--reason", "the disk fails"])?;
    assert!(code == 0 && text.contains("NOT drained"), "{code} {text}");
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    assert_eq!(cluster.pods_on("edge-a").len(), 3);
    let report = device.report().context("a report")?;
    let line = report.requests.first().context("a request")?;
    assert_eq!(line.outcome, Some(Outcome::Forced));
    assert!(line.by.contains("the disk fails"), "{line:?}");
    Ok(())
}

#[test]
fn without_persist_zedkube_starts_and_an_order_goes_by_way_of_run() -> Result<()> {
    let (_cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    device.kill("zedkube");
    for folder in ["/persist/status/zedkube", "/persist/kube-status"] {
        fs::remove_dir_all(device.path(folder))?;
        fs::File::create(device.path(folder))?;
    }
    device.start("zedkube")?;
    device.until("the report says what cannot be stored", || {
        let is_told = |report: &NodeDrainReport| report.reason.contains("the membership cannot be stored");
        Ok(device.report().filter(is_told))
    })?;
    let (code, text) = ebb(&device, &["force", "complete", "--reason", "the disk fails"])?;
    assert!(code == 0 && text.contains("the order goes by way of"), "{code} {text}");
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    assert!(device.path("/run/kube-status/force-NodeDrainStatus-global.json.applied").exists());
    Ok(())
}

#[test]
fn a_request_of_60_kb_harms_nobody() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    let text = |length: usize| {
        let context = "x".repeat(length);
        format!("{{\"RequestedAt\":\"2026-08-22T16:10:11Z\",\"RequestedBy\":1,\"Context\":\"{context}\"}}")
    };
    let path = device.write_request(schemas::agent::EBB, &text(60_000))?;
    until_blocked(&device)?;
    let report = device.report().context("a report")?;
    assert_eq!(report.requests.first().map(|line| line.context.len()), Some(1024 + '…'.len_utf8()));
    // The request is far too long now: it is refused by name, and the accepted one stays.
    device.write_request(schemas::agent::EBB, &text(1024 * 1024))?;
    let refused = device.until("it is refused", || {
        Ok(device.report().and_then(|report| report.refused.into_iter().next()))
    })?;
    assert_eq!(refused.path, path.display().to_string());
    assert!(refused.reason.ends_with("bytes; accepted: at most 65536 bytes"), "{refused:?}");
    assert_eq!(device.status(), DrainStatus::Cordoned);
    fs::remove_file(path)?;
    device.until_status(DrainStatus::NotRequested)?;
    cluster.budget("web", Limit::MinAvailable("0"))?;
    device.command(Operation::Reboot, 1)?;
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    assert_eq!(cluster.pods_on("edge-a").len(), 0);
    Ok(())
}
