//! The crash matrix: whatever dies at whatever moment, no device goes down too early, no command is lost, and no trace
//! of ours is left behind.
//!
//! An operation is commanded, the node is drained, the operation is carried out (`device.dry-run`), the command is
//! withdrawn, and the node returns. At each boundary between two effects of each agent (`pubsub::failure_point`) one
//! fault happens ([`plan::Column`]), and the end state is judged ([`judge`]). Real processes, real control plane; a
//! proxy cuts the connection of one device only.
//!
//! `sample` runs one boundary of each kind. `all`, which takes half an hour, runs all of them and prints the table:
//! `scripts/matrix`.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod judge;
mod plan;
mod run;
mod table;
mod trial;
mod work;

use anyhow::Result;
use control_plane::ControlPlane;

use plan::Plan;
use run::Scenario;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");

/// Number of devices at a time: they mostly wait. With more, inotify instances run out (26 for each device, 128 for
/// each user on most machines), and agents then poll their files twice a second.
const AT_A_TIME: usize = 4;

/// Number of devices at a time while the API server is away: they wait even more.
const AT_A_TIME_OFFLINE: usize = 24;

#[test]
fn sample() -> Result<()> {
    let plane = ControlPlane::shared()?;
    let places = work::places(&plane, AT_A_TIME)?;
    let mut plan = Plan::default();
    for scenario in Scenario::ALL {
        plan.add_sample(scenario, &work::boundaries(&places, scenario)?);
    }
    let results = work::all(&plan.cells, &places);
    assert!(table::failures(&results).is_empty(), "{}", table::render(&plan, &results));
    Ok(())
}

#[test]
#[ignore = "takes half an hour: scripts/matrix"]
fn all() -> Result<()> {
    let plane = ControlPlane::shared()?;
    let places = work::places(&plane, AT_A_TIME_OFFLINE)?;
    let mut plan = Plan::default();
    for scenario in Scenario::ALL {
        plan.add_all(scenario, &work::boundaries(&places, scenario)?);
    }
    if let Ok(only) = std::env::var("EBB_MATRIX_COLUMN") {
        plan.cells.retain(|cell| cell.column.title() == only);
    }
    let (offline, online): (Vec<_>, Vec<_>) =
        plan.cells.iter().cloned().partition(|cell| cell.column.is_outage());
    let mut results = work::all(&online, &places[..AT_A_TIME]);
    results.extend(work::all(&offline, &places));
    table::print(&table::render(&plan, &results));
    assert!(table::failures(&results).is_empty(), "not all is ok");
    Ok(())
}

#[test]
#[ignore = "prints the boundaries, for a person"]
fn boundaries() -> Result<()> {
    let plane = ControlPlane::shared()?;
    let places = work::places(&plane, 1)?;
    for scenario in Scenario::ALL {
        for boundary in work::boundaries(&places, scenario)? {
            table::print(&table::head(&boundary));
        }
    }
    Ok(())
}
