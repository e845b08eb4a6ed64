//! A node that a person keeps drained over boots, for work on the machine (`ebb request --keep`).

use std::process::Command as Process;

use anyhow::{Result, ensure};
use schemas::DrainStatus;

use crate::PROGRAM;
use crate::fleet::Fleet;

/// Shows whether the node takes pods, in each version of it.
const CORDONED: &str = r#"jsonpath={.spec.unschedulable}{"\n"}"#;

/// Runs a verb on a device.
fn ebb(fleet: &Fleet, device: usize, verb: &[&str]) -> Result<()> {
    let root = fleet.devices[device].root().path().to_owned();
    let said = Process::new(PROGRAM).args(verb).arg("--root").arg(root).output()?;
    ensure!(said.status.success(), "ebb {verb:?}: {}", String::from_utf8_lossy(&said.stderr));
    Ok(())
}

/// Waits until the node is drained, and takes no slot.
fn until_set_aside(fleet: &mut Fleet, what: &str) -> Result<()> {
    let path = format!("/api/v1/nodes/{}", fleet.nodes()[0]);
    fleet.until(what, |fleet| {
        let is_drained = fleet.devices[0].status() == DrainStatus::Complete;
        let group = fleet.api.get(&path)?["metadata"]["annotations"]["ebb.dev/slots-group"].take();
        Ok((is_drained && group == "-" && fleet.is_slot_free()?).then_some(()))
    })
}

/// One node may be down at a time. The first node is kept; another one reboots meanwhile; the first one is switched off and on.
#[test]
fn a_kept_node_takes_no_pods_over_a_boot_and_holds_up_no_other() -> Result<()> {
    let mut fleet = Fleet::start("kept", 3, 1)?;
    let node = fleet.nodes().swap_remove(0);
    ebb(&fleet, 0, &["request", "--keep", "--reason", "fan swap"])?;
    until_set_aside(&mut fleet, "the node is drained")?;
    let watch = fleet.watch_node(&node, CORDONED)?;

    let other = fleet.nodes().swap_remove(1);
    assert!(fleet.plugin().args(["reboot", &other]).spawn()?.wait()?.success());
    fleet.until_is_back(1)?;

    fleet.switch_off(0)?;
    fleet.switch_on(0)?;
    until_set_aside(&mut fleet, "the node is drained after the boot")?;
    let shown = watch.said()?;
    assert!(!shown.is_empty() && shown.lines().all(|cordoned| cordoned == "true"), "{shown}");

    ebb(&fleet, 0, &["cancel"])?;
    fleet.until_is_free(0)
}
