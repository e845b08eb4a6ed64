//! Nodes that are told to reboot at the same time. With `slots.limit = 1` they go one after another, each through its
//! whole drain and boot. Whole devices, real control plane.
//!
//! The API server's audit log, not the agents' own words, shows that two nodes never drain at the same time.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod fleet;
mod order;

use anyhow::Result;

use fleet::Fleet;
use order::are_apart;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");

#[test]
fn three_nodes_go_one_after_another() -> Result<()> {
    let mut fleet = Fleet::start("three", 3)?;
    let mark = fleet.plane.audit_mark()?;
    fleet.reboot_all()?;
    fleet.until_all_are_back()?;
    assert_eq!(are_apart(&fleet.plane.audit_since(mark)?, &fleet.nodes()), Ok(()));
    Ok(())
}
