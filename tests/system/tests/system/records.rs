//! What a restarted zedkube goes on from.

use std::fs;

use anyhow::{Context, Result};
use fake_cluster::Limit;
use schemas::{DrainStatus, Operation};

use crate::kills::{blocked_site, until_blocked};

#[test]
fn a_killed_zedkube_goes_on_in_the_same_drain_attempt_and_deadline() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    let before = device.report().context("a report")?;
    device.kill("zedkube");
    device.start("zedkube")?;
    let after = device.until("the attempt goes on", || {
        let is_new =
            |report: &schemas::NodeDrainReport| report.phase == "Attempting" && report.blocked.len() == 3;
        Ok(device.report().filter(is_new).filter(|report| report.since != before.since))
    })?;
    assert_eq!(device.status(), DrainStatus::Cordoned);
    assert_eq!((&after.drain_id, after.drain_attempt), (&before.drain_id, before.drain_attempt));
    let moved = after.deadline.set().context("a deadline")? - before.deadline.set().context("a deadline")?;
    // Shown times are anchored to the wall clock anew.
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
    assert_eq!(device.status(), DrainStatus::NotRequested, "nothing is shown that is not on record");
    fs::remove_file(&folder)?;
    cluster.budget("web", Limit::MinAvailable("0"))?;
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    Ok(())
}
