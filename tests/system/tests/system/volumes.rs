//! A device whose pods have volumes, on a real control plane.

use anyhow::Result;
use control_plane::{ControlPlane, Pool, objects, unique, until};
use schemas::{DrainStatus, Operation, Outcome};
use serde_json::Value;
use system::Device;

use crate::PROGRAM;

const PODS: u32 = 3;

/// Three nodes; all pods of a StatefulSet are on the first one, each with a volume that takes one second to detach.
fn site() -> Result<(ControlPlane, Pool, Device)> {
    let plane = ControlPlane::shared()?;
    let pool = plane.create_pool(&unique("disks"), &["a", "b", "c"])?;
    let driver = format!("detach-1s.{}.test", pool.name);
    let mut all = vec![objects::csi_driver(&driver)];
    all.extend(pool.nodes.iter().map(|node| objects::csi_node(node, &[&driver])));
    all.extend((0..PODS).flat_map(|n| objects::volume(&pool.name, &format!("data-db-{n}"), &driver)));
    for node in pool.nodes.iter().skip(1) {
        plane.run(&["cordon", node])?;
    }
    all.push(objects::stateful_set(&pool.name, "db", PODS));
    plane.apply(&all)?;
    plane.run(&["rollout", "status", "statefulset/db", "--namespace", &pool.name, "--timeout=5m"])?;
    until("the volumes are attached", std::time::Duration::from_mins(1), || {
        Ok((attached(&plane, &pool)? == PODS as usize).then_some(()))
    })?;
    for node in pool.nodes.iter().skip(1) {
        plane.run(&["uncordon", node])?;
    }
    let device = Device::in_pool(PROGRAM, &plane, &pool, &pool.nodes[0])?;
    Ok((plane, pool, device))
}

/// Number of VolumeAttachments of the first node, including those that are being deleted.
fn attached(plane: &ControlPlane, pool: &Pool) -> Result<usize> {
    let is_here = |one: &&Value| one["spec"]["nodeName"].as_str() == Some(&pool.nodes[0]);
    Ok(plane.list(&["volumeattachments"])?.iter().filter(is_here).count())
}

#[test]
fn a_reboot_waits_until_the_volumes_are_detached() -> Result<()> {
    let (plane, pool, mut device) = site()?;
    device.start_all()?;
    device.command(Operation::Reboot, 1)?;
    let told = device.until("a volume is waited for", || {
        Ok(device.report().filter(|report| !report.volumes.is_empty()))
    })?;
    let line = &told.volumes[0];
    assert!(line.pv.starts_with(&format!("{}-data-db-", pool.name)), "{line:?}");
    assert!(["Detaching", "Attaching"].contains(&line.stage.as_str()), "{line:?}");
    assert!(told.progress.terminating <= 1, "one after another: {:?}", told.progress);

    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    assert_eq!(attached(&plane, &pool)?, 0, "nothing is attached to a node that goes down");
    assert_eq!(device.status(), DrainStatus::Complete);
    let report = device.report().unwrap_or_default();
    assert_eq!((report.outcome, report.progress.gone), (Some(Outcome::Drained), PODS));
    Ok(())
}
