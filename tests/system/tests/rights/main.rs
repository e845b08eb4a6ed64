//! Least privilege: `packaging/kubernetes` grants exactly the rights that zedkube uses.
//!
//! zedkube runs through everything that a drain can meet, on a control plane of its own, as a user with exactly those
//! rights. The API server's audit log then shows its requests.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod commands;
mod confined;
mod daemonset;
mod granted;
mod site;

use anyhow::Result;
use control_plane::{AuditMark, Requests};
use schemas::{DrainStatus, Operation};

use site::Site;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");

/// The requests that zedkube has sent on the whole path.
fn whole_path(site: &mut Site) -> Result<Requests> {
    let mark = site.plane.audit_mark()?;
    drain_with_everything_in_the_way(site)?;
    wait_for_a_slot(site, mark)?;
    cancel_and_boot(site)?;
    site.device.kill("zedkube");
    Ok(site.plane.audit_since(mark)?.of_user(&site.user.name))
}

/// Obstacles: volumes, a DaemonSet, budgets that allow nothing, a virtual machine, Longhorn's instance-manager, a
/// webhook that answers with a conflict. In the end the remaining pods are deleted against their budgets.
fn drain_with_everything_in_the_way(site: &mut Site) -> Result<()> {
    site.device.start_all()?;
    site.device.command(Operation::Reboot, 1)?;
    site.until_asked_about_blocked_pods()?;
    site.webhook_goes()?;
    site.device.until("the reboot is recorded", || Ok(site.device.actions()?.into_iter().next()))?;
    site.device.take_back(Operation::Reboot, 1)?;
    site.until_in_service()
}

/// Another node has the only slot, and gives it back.
fn wait_for_a_slot(site: &mut Site, began: AuditMark) -> Result<()> {
    site.give_the_slot_to_another()?;
    site.device.command(Operation::Reboot, 2)?;
    site.device.until("the slot is waited for", || {
        Ok(site.device.report().filter(|report| !report.slot.holders.is_empty()))
    })?;
    // The status follows the report.
    site.device.until_status(DrainStatus::Requested)?;
    site.until_watching_the_slots(began)?;
    site.free_the_slot()?;
    site.device.until_status(DrainStatus::Complete)
}

/// The command is withdrawn in the middle of the drain; then the node is drained again, and the device boots.
fn cancel_and_boot(site: &mut Site) -> Result<()> {
    site.device.take_back(Operation::Reboot, 2)?;
    site.until_in_service()?;
    site.device.command(Operation::Reboot, 3)?;
    site.device.until("the reboot is recorded", || {
        Ok(site.device.actions()?.into_iter().find(|action| action.counter == 3))
    })?;
    site.device.boot()?;
    site.device.start_all()?;
    site.until_in_service()
}

fn refused(asked: &Requests) -> Vec<String> {
    let is_refusal = |code: Option<u16>| matches!(code, Some(401 | 403));
    let refused = asked.iter().filter(|request| is_refusal(request.code));
    refused.map(|request| format!("{} {}", request.verb, request.uri)).collect()
}
