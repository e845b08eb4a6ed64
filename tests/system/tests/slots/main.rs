//! Nodes that are told to reboot at the same time. With `slots.limit = 1` they go one after another, each through its
//! whole drain and boot, whatever happens to the node whose turn it is. Whole devices, real control plane.
//!
//! The API server's audit log, not the agents' own words, shows that two nodes never drain at the same time.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod fleet;
mod order;

use std::time::Duration;

use anyhow::Result;
use schemas::DrainStatus;

use fleet::{Fleet, Limit};
use order::{are_apart, overlap};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");

/// How long the node whose turn it is stays away: longer than the retry interval of those who wait, which is 5 s.
const AWAY: Duration = Duration::from_secs(12);

#[test]
fn three_nodes_go_one_after_another() -> Result<()> {
    let mut fleet = Fleet::start("three", 3, Limit::One)?;
    let mark = fleet.plane.audit_mark()?;
    fleet.reboot_all()?;
    fleet.until_all_are_back()?;
    assert_eq!(are_apart(&fleet.plane.audit_since(mark)?, &fleet.nodes()), Ok(()));
    Ok(())
}

#[test]
fn a_holder_that_is_killed_again_and_again_keeps_its_turn() -> Result<()> {
    let mut fleet = Fleet::start("killed", 2, Limit::One)?;
    let mark = fleet.plane.audit_mark()?;
    fleet.reboot_all()?;
    // The pauses are spread over a drain, which takes two to three seconds.
    for pause in [310, 40, 170, 650, 90, 480, 230, 800, 20, 350] {
        fleet.tend_for(Duration::from_millis(pause))?;
        if let Some(holder) = fleet.holder()? {
            fleet.kill_zedkube(holder)?;
        }
    }
    fleet.until_all_are_back()?;
    assert_eq!(are_apart(&fleet.plane.audit_since(mark)?, &fleet.nodes()), Ok(()));
    Ok(())
}

#[test]
fn a_holder_that_hangs_keeps_its_turn() -> Result<()> {
    let mut fleet = Fleet::start("hangs", 2, Limit::One)?;
    let mark = fleet.plane.audit_mark()?;
    fleet.block_all()?;
    fleet.reboot_all()?;
    let holder = fleet.until_holder_is_blocked()?;
    fleet.devices[holder].agent("zedkube")?.freeze()?;
    fleet.unblock_all()?;
    fleet.tend_for(AWAY)?;
    assert_eq!(fleet.devices[1 - holder].status(), DrainStatus::Requested, "the other one waits");
    fleet.devices[holder].agent("zedkube")?.thaw()?;
    fleet.until_all_are_back()?;
    assert_eq!(are_apart(&fleet.plane.audit_since(mark)?, &fleet.nodes()), Ok(()));
    Ok(())
}

#[test]
fn a_holder_that_is_cut_off_keeps_its_turn() -> Result<()> {
    let mut fleet = Fleet::start("cut-off", 2, Limit::One)?;
    let mark = fleet.plane.audit_mark()?;
    fleet.block_all()?;
    fleet.reboot_all()?;
    let holder = fleet.until_holder_is_blocked()?;
    fleet.cut_off(holder)?;
    fleet.unblock_all()?;
    fleet.tend_for(AWAY)?;
    assert_eq!(fleet.devices[1 - holder].status(), DrainStatus::Requested, "the other one waits");
    assert_eq!(fleet.devices[holder].actions()?, [], "it is not known whether its pods are gone");
    fleet.let_back(holder)?;
    fleet.until_all_are_back()?;
    assert_eq!(are_apart(&fleet.plane.audit_since(mark)?, &fleet.nodes()), Ok(()));
    Ok(())
}

#[test]
fn a_holder_whose_node_is_deleted_makes_room() -> Result<()> {
    let mut fleet = Fleet::start("deleted", 2, Limit::One)?;
    fleet.block_all()?;
    fleet.reboot_all()?;
    let holder = fleet.until_holder_is_blocked()?;
    let other = 1 - holder;
    fleet.delete_node(holder)?;
    fleet.unblock_all()?;
    fleet.until_is_back(other)?;
    assert_eq!(fleet.devices[other].actions()?.len(), 1);
    Ok(())
}

/// While a group is upgraded, nodes of the older version have their slots in a Lease.
#[test]
fn a_holder_of_the_version_before_is_waited_for() -> Result<()> {
    let mut fleet = Fleet::start("upgrade", 2, Limit::One)?;
    fleet.give_the_old_slot(0, 1)?;
    fleet.reboot_all()?;
    fleet.until_is_back(1)?;
    fleet.tend_for(AWAY)?;
    assert_eq!(fleet.devices[0].status(), DrainStatus::Requested, "it waits for the other one's old entry");
    fleet.give_the_old_slot_back()?;
    fleet.until_all_are_back()
}

/// Without slots two nodes can each drain the other's pods to itself; no node may hang because of that (EVE #5804).
#[test]
fn without_slots_all_go_at_once_and_nobody_hangs() -> Result<()> {
    for count in [2, 3] {
        let mut fleet = Fleet::start("no-slots", count, Limit::None)?;
        let mark = fleet.plane.audit_mark()?;
        fleet.block_all()?;
        fleet.reboot_all()?;
        fleet.until_all_are_cordoned_or_done()?;
        fleet.unblock_all()?;
        fleet.until_all_are_back()?;
        assert_eq!(fleet.holder()?, None);
        assert!(
            overlap(&fleet.plane.audit_since(mark)?, &fleet.nodes()),
            "{count} nodes: none of them waited"
        );
    }
    Ok(())
}
