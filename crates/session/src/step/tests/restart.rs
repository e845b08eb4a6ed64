//! Scenarios of a zedkube that is killed and comes back, in the same boot and in another.

use super::*;
use crate::step::sim::{Fault, SECOND, Sim};
use crate::words;
use schemas::DrainOrder;

use crate::event::Order;
use crate::record::{Record, resume};
use schemas::DrainRequester::DeviceOp;

const MINUTE: Duration = Duration::from_mins(1);

/// Lets time pass, kills zedkube, lets time pass without it, and goes on.
#[track_caller]
fn check(
    prepare: impl Fn(&mut Sim),
    before: Duration,
    dead: Duration,
    phase: &str,
    status: DrainStatus,
) -> Sim {
    let mut sim = Sim::new();
    prepare(&mut sim);
    sim.reboot();
    sim.pass(before);
    assert_eq!(sim.state.phase.name(), phase);
    sim.now = sim.now + dead;
    sim.published.clear();
    sim.restart();
    assert_eq!(sim.state.published.status, status, "shown at once after the restart in {phase}");
    sim
}

#[test]
fn each_phase_goes_on() {
    let held = |sim: &mut Sim| sim.others_hold(&["peer"]);
    let refused = |sim: &mut Sim| sim.set(Fault::CordonRefused, true);
    let blocked = |sim: &mut Sim| sim.set(Fault::EvictionRefused, true);
    let nothing = |_: &mut Sim| {};
    let waiting = check(held, 10 * SECOND, MINUTE, "Waiting", DrainStatus::Requested);
    assert_eq!(waiting.state.session.number, 1, "the same drain");
    check(refused, 10 * SECOND, MINUTE, "Cordoning", DrainStatus::Starting);
    let mut attempting = check(blocked, 10 * SECOND, MINUTE, "Attempting", DrainStatus::Cordoned);
    attempting.set(Fault::EvictionRefused, false);
    attempting.pass(30 * SECOND);
    assert_eq!((attempting.outcome(), attempting.count("uncordon")), (Some(Outcome::Drained), 0));
    let mut complete = check(nothing, 10 * SECOND, MINUTE, "Complete", DrainStatus::Complete);
    complete.pass(MINUTE);
    assert!(
        complete.published.iter().all(|published| *published == (9, 2)),
        "stays answered: {:?}",
        complete.published
    );
}

#[test]
fn an_attempt_keeps_its_number_and_deadline() {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.reboot();
    sim.pass(Duration::from_hours(23));
    sim.restart();
    sim.pass(59 * MINUTE);
    assert_eq!(sim.state.phase.name(), "Attempting");
    sim.pass(2 * MINUTE);
    assert_eq!(sim.state.phase.name(), "Pausing", "24 h in all, not 24 h anew");
    sim.restart();
    assert_eq!(sim.state.published.status, DrainStatus::DrainRetrying);
    sim.pass(5 * MINUTE);
    assert!(matches!(sim.state.phase, Phase::Attempting { attempt: 2, .. }), "{:?}", sim.state.phase);
}

#[test]
fn a_cordon_lifted_while_zedkube_was_dead_costs_the_attempt() {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.reboot();
    sim.pass(10 * SECOND);
    sim.own.cordoned = false;
    sim.restart();
    sim.pass(10 * SECOND);
    assert_eq!(sim.state.phase.name(), "Pausing");
    assert_eq!(sim.own.cordoned_by, None, "our mark does not stay on a node that takes pods");
}

#[test]
fn a_request_withdrawn_while_zedkube_was_dead_is_a_cancel() {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.reboot();
    sim.pass(10 * SECOND);
    sim.restart();
    sim.ask(&[]);
    sim.pass(10 * SECOND);
    assert_eq!(
        (sim.own.cordoned, sim.holders(), sim.state.published.status),
        (false, vec![], DrainStatus::NotRequested)
    );
}

#[test]
fn without_a_record_a_new_drain_adopts_cordon_and_slot() {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.reboot();
    sim.pass(10 * SECOND);
    sim.lose_record();
    sim.set(Fault::EvictionRefused, false);
    sim.pass(30 * SECOND);
    assert_eq!((sim.outcome(), sim.count("uncordon")), (Some(Outcome::Drained), 0));
    assert_eq!(sim.holders(), ["own"]);
    sim.ask(&[]);
    sim.pass(10 * SECOND);
    assert!(!sim.own.cordoned);
}

/// A write to a node that is not known would never be carried out, and never be answered.
#[test]
fn nothing_is_written_before_a_look_has_told_which_node_is_ours() {
    let cordoning = Phase::Cordoning(Cordoning { attempt: 1, ..Cordoning::default() });
    for phase in [cordoning, Phase::Idle] {
        let mut sim = Sim::new();
        sim.reboot();
        let requests = sim.state.requests.iter().filter(|_| phase != Phase::Idle).cloned().collect();
        let left = Record { phase, may_be_cordoned: true, requests, ..Record::default() };
        sim.state = resume(left, Member::Yes, "boot".into(), sim.now);
        let (state, effects) = step(sim.state.clone(), Event::Tick, sim.now, &sim.policy);
        let writes = |effect: &Effect| matches!(effect, Effect::Cordon { .. } | Effect::Uncordon { .. });
        assert!(!effects.iter().any(writes), "{effects:?}");
        assert!(effects.iter().any(|effect| matches!(effect, Effect::ListNodes { .. })), "{:?}", state.phase);
    }
}

/// Only a call of this process can show whether the API server answers now.
#[test]
fn an_outage_before_the_restart_alone_completes_nothing() {
    let mut sim = Sim::new();
    sim.set(Fault::Unreachable, true);
    sim.reboot();
    sim.pass(MINUTE);
    sim.now = sim.now + 10 * MINUTE;
    sim.set(Fault::Unreachable, false);
    sim.restart();
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    assert!(!sim.statuses().is_empty());
    let mut sim = Sim::new();
    sim.set(Fault::Unreachable, true);
    sim.reboot();
    sim.pass(MINUTE);
    sim.now = sim.now + 10 * MINUTE;
    sim.restart();
    sim.pass(10 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable), "it is still away: on end");
}

#[test]
fn a_kill_while_returning_leaves_no_cordon() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(10 * SECOND);
    sim.set(Fault::Unreachable, true);
    sim.ask(&[]);
    sim.restart();
    sim.set(Fault::Unreachable, false);
    sim.pass(10 * SECOND);
    assert_eq!((sim.own.cordoned, sim.holders()), (false, vec![]));
}

#[test]
fn disabled_lasts_until_the_next_boot() {
    let mut sim = Sim::new();
    sim.send(Event::Override(Order { what: DrainOrder::Disable, by: "root".into() }));
    sim.restart();
    assert_eq!(sim.state.published.status, DrainStatus::NotSupported);
    sim.lose_record();
    assert_eq!(sim.state.published.status, DrainStatus::NotRequested);
}

#[test]
fn an_unannotated_cordon_is_adopted_where_no_zedkube_of_ours_ever_ran() {
    for (adopts, tie_breaker, left) in [(true, false, false), (false, false, true), (true, true, true)] {
        let mut sim = Sim::new();
        (sim.own.cordoned, sim.own.tie_breaker) = (true, tie_breaker);
        sim.state = State { adopts, ..State::new(Member::Yes, "boot".into(), sim.now) };
        sim.start(vec![]);
        sim.pass(2 * MINUTE);
        assert_eq!(sim.own.cordoned, left, "adopts {adopts}, tie-breaker {tie_breaker}");
        assert!(!sim.state.adopts, "once");
    }
}

/// R5: somebody has removed the annotation while the node was down.
#[test]
fn a_cordon_without_its_annotation_is_taken_back_if_the_server_says_that_it_is_ours() {
    for (is_ours, boots) in [(true, true), (false, true), (false, false)] {
        let mut sim = Sim::new();
        sim.reboot();
        sim.pass(10 * SECOND);
        assert_eq!(sim.outcome(), Some(Outcome::Drained));
        sim.set(Fault::CordonOfOthers, !is_ours);
        sim.own.cordoned_by = None;
        let remembered = sim.state.remembered.clone();
        if boots {
            sim.boot("next");
        } else {
            sim.restart();
        }
        sim.state.remembered = remembered;
        sim.ask(&[]);
        sim.pass(10 * MINUTE);
        assert_eq!((sim.own.cordoned, sim.state.is_cordoned()), (!is_ours, !is_ours));
        assert_eq!((sim.state.remembered.is_none(), sim.holders()), (true, vec![]));
        let asked = sim.done.iter().filter(|done| *done == "adopt").count();
        assert_eq!(asked, 1, "once");
        let said = "the node is cordoned, not by zedkube";
        assert_eq!(words::reason(&sim.state).contains(said), !is_ours);
        assert_eq!(words::hint(&sim.state, sim.now).contains("ebb uncordon --force own"), !is_ours);
    }
}

#[test]
fn a_new_boot_finds_its_cordon_and_slot_on_the_server() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(10 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    sim.own.ready = false;
    sim.boot("next");
    sim.pass(MINUTE);
    assert!(sim.own.cordoned, "not before it is Ready");
    (sim.own.ready, sim.own.boot_id) = (true, "next".into());
    sim.pass(2 * MINUTE);
    assert_eq!((sim.own.cordoned, sim.holders()), (false, vec![]));
    sim.ask(&[(DeviceOp, "2")]);
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

/// Pods may have come while nobody looked: the answer is not shown to our own agents before a list has confirmed it.
#[test]
fn an_answer_counts_again_when_a_list_has_confirmed_it() {
    let drained = || {
        let mut sim = Sim::new();
        sim.reboot();
        sim.pass(10 * SECOND);
        assert!(sim.outcome() == Some(Outcome::Drained) && sim.state.is_confirmed(DeviceOp));
        sim
    };
    let mut restarted = drained();
    restarted.set(Fault::ProofHangs, true);
    restarted.restart();
    restarted.pass(MINUTE);
    assert!(!restarted.state.is_confirmed(DeviceOp));

    let mut confirmed = drained();
    confirmed.restart();
    assert!(confirmed.outcome() == Some(Outcome::Drained) && confirmed.state.is_confirmed(DeviceOp));

    let mut stood_still = drained();
    stood_still.set(Fault::ProofHangs, true);
    stood_still.state.nobody_looked();
    stood_still.send(Event::Tick);
    assert!(!stood_still.state.is_confirmed(DeviceOp));

    let mut contradicted = drained();
    let number = contradicted.state.session.number;
    contradicted.pods = vec![pod("3")];
    contradicted.restart();
    assert!(number < contradicted.state.session.number, "a new drain");

    let mut away = drained();
    away.set(Fault::Unreachable, true);
    away.restart();
    away.pass(10 * MINUTE);
    assert_eq!(away.outcome(), Some(Outcome::ApiUnreachable));
}
