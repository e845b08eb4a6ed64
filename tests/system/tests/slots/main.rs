//! Nodes that are told to reboot at the same time. With `slots.limit = 1` they go one after another, each through its
//! whole drain and boot. Whole devices, real control plane.
//!
//! The API server's audit log, not the agents' own words, shows that two nodes never drain at the same time.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod conditions;
mod fleet;
mod kept;
mod order;
mod states;

use anyhow::Result;

use fleet::Fleet;
use order::most_at_once;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");

/// All nodes are commanded at the same time.
fn all_go(name: &str, count: usize, limit: usize) -> Result<()> {
    let mut fleet = Fleet::start(name, count, limit)?;
    let mark = fleet.plane.audit_mark()?;
    let mut command = fleet.reboot_all()?;
    fleet.until_all_are_back()?;
    let (code, said) = fleet.until_ended(&mut command)?;
    let rebooted = said.lines().filter(|line| line.ends_with(" rebooted")).count();
    assert_eq!((code, rebooted), (Some(0), count), "{said}");
    assert_eq!(most_at_once(&fleet.plane.audit_since(mark)?, &fleet.nodes()), Ok(limit));
    Ok(())
}

#[test]
fn three_nodes_go_one_after_another() -> Result<()> {
    all_go("three", 3, 1)
}

#[test]
#[ignore = "80 processes for minutes: scripts/nightly fleet"]
fn twenty_nodes_go_one_after_another() -> Result<()> {
    all_go("twenty", 20, 1)
}

#[test]
#[ignore = "80 processes for minutes: scripts/nightly fleet"]
fn twenty_nodes_go_three_at_a_time() -> Result<()> {
    all_go("by-three", 20, 3)
}

/// The device is off when it is commanded, and the terminal of whoever has commanded it dies.
#[test]
fn a_device_that_was_off_carries_out_what_was_commanded() -> Result<()> {
    let mut fleet = Fleet::start("off", 1, 1)?;
    fleet.switch_off(0)?;
    drop(fleet.reboot_all()?);
    fleet.switch_on(0)?;
    fleet.until_all_are_back()
}
