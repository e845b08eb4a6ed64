//! The agents of another version go on in the middle of a drain, with what the version before has written down; and those of
//! the version before go on again with what the newer one has written down.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use control_plane::ControlPlane;
use schemas::Operation;
use system::{Device, create_blocked_pool};

use crate::PROGRAM;

const REPORT: &str = "/run/zedkube/NodeDrainReport/global.json";

/// The drain that a budget holds, as the agents that run now report it.
fn held(device: &Device) -> Result<String> {
    device.until("zedkube reports the drain that a budget holds", || {
        let held = device.report().filter(|report| !report.blockers.is_empty());
        Ok(held.map(|report| report.drain_id))
    })
}

fn restart(device: &mut Device, program: &Path) -> Result<()> {
    device.use_program(program);
    device.stop_all();
    // What the agents before have reported counts no more.
    fs::remove_file(device.path(REPORT))?;
    device.start_agents()
}

#[test]
#[ignore = "needs the program of the release before: scripts/upgrade"]
fn a_drain_goes_on_under_the_next_version_and_under_the_one_before() -> Result<()> {
    let before = std::env::var_os("EBB_BEFORE").context("EBB_BEFORE names no program")?;
    let (before, now) = (PathBuf::from(before), PathBuf::from(PROGRAM));
    let plane = ControlPlane::shared()?;
    let pool = create_blocked_pool(&plane, "upgrade")?;
    let namespace = pool.name.as_str();
    let mut device = Device::in_pool(PROGRAM, &plane, &pool, &pool.nodes[0])?;
    device.use_program(&before);
    device.set("evict.retry=1s");
    device.start_all()?;
    device.command(Operation::Reboot, 1)?;
    let drain = held(&device)?;
    for program in [&now, &before, &now] {
        restart(&mut device, program)?;
        assert_eq!(held(&device)?, drain, "{}: another drain", program.display());
    }
    plane.run(&["delete", "poddisruptionbudget", "web", "--namespace", namespace])?;
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    // The device comes back with the version before, and later with this one again.
    for program in [&before, &now] {
        device.boot()?;
        device.use_program(program);
        device.start_all()?;
        device.until("the node is schedulable again", || {
            Ok(plane.get(&["node", &pool.nodes[0]])?["spec"]["unschedulable"].is_null().then_some(()))
        })?;
    }
    assert_eq!(device.actions()?.len(), 1, "the reboot was carried out once");
    Ok(())
}
