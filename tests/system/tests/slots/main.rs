//! Nodes that are told to reboot at the same time. With `slots.limit = 1` they go one after another, each through its
//! whole drain and boot. Whole devices, real control plane.
//!
//! The API server's audit log, not the agents' own words, shows that two nodes never drain at the same time.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod fleet;
mod order;

use std::time::Duration;

use anyhow::Result;
use schemas::DrainStatus;

use fleet::Fleet;
use order::are_apart;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");

/// How long the other one is given to go too early: longer than the retry interval of those who wait, which is 5 s.
const AWAY: Duration = Duration::from_secs(12);

#[test]
fn three_nodes_go_one_after_another() -> Result<()> {
    let mut fleet = Fleet::start("three", 3)?;
    let mark = fleet.plane.audit_mark()?;
    fleet.reboot_all()?;
    fleet.until_all_are_back()?;
    assert_eq!(are_apart(&fleet.plane.audit_since(mark)?, &fleet.nodes()), Ok(()));
    Ok(())
}

/// While a group is upgraded, nodes of the older version have their slots in a Lease.
#[test]
fn a_holder_of_the_version_before_is_waited_for() -> Result<()> {
    let mut fleet = Fleet::start("upgrade", 2)?;
    fleet.give_the_old_slot(0, 1)?;
    fleet.reboot_all()?;
    fleet.until_is_back(1)?;
    fleet.tend_for(AWAY)?;
    assert_eq!(fleet.devices[0].status(), DrainStatus::Requested, "it waits for the other one's old entry");
    fleet.give_the_old_slot_back()?;
    fleet.until_all_are_back()
}
