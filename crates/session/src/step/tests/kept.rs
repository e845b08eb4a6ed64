//! Scenarios of a request that is kept over boots (`ebb request --keep`).

use super::*;
use crate::OWNER;
use crate::step::sim::{Fault, SECOND, Sim};
use crate::words;
use drain::cordon::NO_SLOT;
use schemas::DrainRequester::{DeviceOp, None as Operator};

const MINUTE: Duration = Duration::from_mins(1);

/// A node that an operator has asked to be drained and kept drained; enough time has passed for that.
fn kept() -> Sim {
    let mut sim = asked(&[]);
    sim.pass(20 * SECOND);
    sim
}

/// The same, just asked for, with these faults.
fn asked(faults: &[Fault]) -> Sim {
    let mut sim = Sim { keeps: true, ..Sim::new() };
    sim.faults.extend(faults);
    sim.ask(&[(Operator, "1")]);
    sim
}

/// The node is cordoned for the request, holds no slot, and no other node counts it.
#[track_caller]
fn assert_set_aside(sim: &Sim) {
    let group = sim.own.slots_group.as_deref();
    assert_eq!((sim.own.is_cordoned_by(OWNER), group, sim.holders()), (true, Some(NO_SLOT), vec![]));
    assert!(!crate::slots::is_out_for(&sim.own, None));
}

#[test]
fn a_kept_node_gives_its_slot_back_once_it_is_drained() {
    let mut sim = kept();
    assert_eq!((sim.outcome(), sim.count("evict")), (Some(Outcome::Drained), 2));
    assert_set_aside(&sim);
    assert!(
        words::reason(&sim.state).contains("stays drained without a slot"),
        "{}",
        words::reason(&sim.state)
    );
    sim.pass(30 * MINUTE);
    assert_eq!((sim.outcome(), sim.count("cordon"), sim.count("mark")), (Some(Outcome::Drained), 1, 1));
    assert_set_aside(&sim);
    sim.restart();
    sim.pass(30 * MINUTE);
    assert_eq!((sim.outcome(), sim.count("cordon")), (Some(Outcome::Drained), 1), "after a restart");
    assert_set_aside(&sim);
    sim.ask(&[]);
    sim.pass(10 * SECOND);
    assert_eq!((sim.own.cordoned, &sim.own.slots_group), (false, &None), "cancelled");
}

/// Without the mark the cordon would count as one whose entry was lost: the slot would be gone, and free for nobody.
#[test]
fn the_slot_stays_until_the_mark_is_written() {
    let mut sim = Sim::new();
    sim.ask(&[(Operator, "1")]);
    sim.pass(20 * SECOND);
    assert_eq!(sim.holders(), ["own"], "a request that is not kept");
    sim.set(Fault::CordonRefused, true);
    sim.keeps = true;
    sim.ask(&[(Operator, "1")]);
    sim.pass(MINUTE);
    assert_eq!((sim.outcome(), sim.holders()), (Some(Outcome::Drained), vec!["own"]));
    let said = words::reason(&sim.state);
    assert!(said.ends_with("; its slot is being given back (cannot patch nodes)"), "{said}");
    sim.set(Fault::CordonRefused, false);
    sim.pass(5 * MINUTE);
    assert_set_aside(&sim);
}

#[test]
fn a_kept_node_stays_cordoned_over_a_boot() {
    for others in [&[][..], &["peer"]] {
        let mut sim = kept();
        sim.others_hold(others);
        sim.boot("next");
        sim.own.boot_id = "next".into();
        sim.pass(3 * MINUTE);
        let is_drained = others.is_empty();
        assert_eq!((sim.outcome().is_some(), sim.count("uncordon")), (is_drained, 0), "{others:?}");
        sim.others_hold(&[]);
        sim.send(Event::SlotsSeen(sim.slots.clone()));
        sim.pass(10 * MINUTE);
        assert_eq!((sim.outcome(), sim.count("uncordon")), (Some(Outcome::Drained), 0), "{others:?}");
        assert_set_aside(&sim);
    }
}

/// Two nodes whose cordons count, and that have no entry, would wait for each other.
#[test]
fn a_kept_node_that_loses_its_slot_stays_cordoned_and_counts_no_more() {
    let mut sim = asked(&[Fault::EvictionRefused]);
    sim.pass(20 * SECOND);
    sim.slots.holders.clear();
    sim.others_hold(&["peer"]);
    sim.pass(2 * MINUTE);
    assert_eq!((sim.state.phase.name(), sim.count("uncordon")), ("Waiting", 0));
    assert_eq!((sim.own.cordoned, sim.own.slots_group.as_deref()), (true, Some(NO_SLOT)));
}

#[test]
fn who_wants_to_go_down_needs_a_slot_again() {
    let mut sim = kept();
    sim.others_hold(&["peer"]);
    sim.ask(&[(Operator, "1"), (DeviceOp, "2")]);
    sim.pass(5 * MINUTE);
    assert_eq!((sim.state.phase.name(), sim.count("uncordon")), ("Waiting", 0));
    assert!(
        sim.state.requests.iter().all(|request| request.answer == Answer::None),
        "{:?}",
        sim.state.requests
    );
    sim.others_hold(&[]);
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.pass(MINUTE);
    let told = |sim: &Sim| sim.state.requests.iter().all(|request| request.answer == Answer::Complete);
    assert_eq!((told(&sim), sim.holders()), (true, vec!["own"]));
    assert_eq!(sim.own.slots_group, None, "its cordon counts");
    sim.ask(&[(Operator, "1")]);
    sim.pass(MINUTE);
    assert_set_aside(&sim);
}

/// Somebody has his hands in the machine, or will have: no pod may come.
#[test]
fn a_kept_node_stays_cordoned_after_a_drain_that_failed() {
    let mut sim = asked(&[Fault::EvictionRefused]);
    sim.pass(6 * Duration::from_hours(24));
    assert_eq!((sim.state.phase.name(), sim.count("uncordon")), ("Failed", 0));
    assert_set_aside(&sim);
    assert!(words::hint(&sim.state, sim.now).contains("ebb request --keep"));
    sim.set(Fault::EvictionRefused, false);
    sim.ask(&[(Operator, "2")]);
    sim.pass(MINUTE);
    assert_eq!(sim.outcome(), Some(Outcome::Drained), "asked again");
    sim.ask(&[]);
    sim.pass(MINUTE);
    assert!(!sim.own.cordoned, "cancelled");
}

/// The file may say that the node stays drained.
#[test]
fn a_kept_request_that_cannot_be_read_after_a_boot_keeps_the_node_cordoned() {
    let mut sim = kept();
    sim.facts.may_be_kept = true;
    sim.boot("next");
    sim.own.boot_id = "next".into();
    sim.pass(10 * MINUTE);
    assert_eq!((sim.own.cordoned, sim.count("uncordon")), (true, 0));
    assert!(
        words::reason(&sim.state).contains("kept over boots cannot be read"),
        "{}",
        words::reason(&sim.state)
    );
    sim.facts.may_be_kept = false;
    sim.send(Event::Facts(sim.facts));
    sim.pass(MINUTE);
    assert!(!sim.own.cordoned);
}
