//! Scenarios of a COMPLETE whose reason is gone: it is taken back, unless the device can no longer be stopped.

use super::*;
use crate::membership::NodeAgent;
use crate::phase::Recheck;
use crate::step::sim::{Fault, SECOND, Sim};

const MINUTE: Duration = Duration::from_mins(1);

/// Makes a device COMPLETE without a drain, and then removes the reason for it.
struct Way {
    outcome: Outcome,
    breaks: fn(&mut Sim),
    mends: fn(&mut Sim),
}

const WAYS: [Way; 2] = [
    Way {
        outcome: Outcome::ApiUnreachable,
        breaks: |sim| sim.set(Fault::Unreachable, true),
        mends: |sim| sim.set(Fault::Unreachable, false),
    },
    Way {
        outcome: Outcome::NoSchedulablePeer,
        breaks: |sim| sim.others[0].cordoned = true,
        mends: |sim| sim.others[0].cordoned = false,
    },
];

fn complete(way: &Way, policy: Policy) -> Sim {
    let mut sim = Sim::with(policy);
    sim.pass(10 * SECOND);
    (way.breaks)(&mut sim);
    sim.reboot();
    sim.pass(6 * MINUTE);
    assert_eq!((sim.outcome(), sim.published.last()), (Some(way.outcome), Some(&(9, 2))));
    sim
}

#[test]
fn an_undrained_complete_is_taken_back_when_its_reason_is_gone() {
    for nodeagent in [NodeAgent::Silent, NodeAgent::NotActing] {
        for way in &WAYS {
            let mut sim = complete(way, Policy::device());
            sim.facts.nodeagent = nodeagent;
            sim.send(Event::Facts(sim.facts));
            sim.published.clear();
            (way.mends)(&mut sim);
            sim.pass(MINUTE + 20 * SECOND);
            assert_eq!(sim.published.first(), Some(&(3, 2)), "{:?}: {:?}", way.outcome, sim.published);
            assert_eq!((sim.outcome(), sim.published.last()), (Some(Outcome::Drained), Some(&(9, 2))));
            assert_eq!((sim.holders(), sim.own.cordoned), (vec!["own"], true), "{:?}", way.outcome);
        }
    }
}

#[test]
fn a_restarted_zedkube_takes_it_back_as_well() {
    for way in &WAYS {
        let mut sim = complete(way, Policy::device());
        sim.restart();
        (way.mends)(&mut sim);
        sim.pass(MINUTE + 20 * SECOND);
        assert_eq!(sim.outcome(), Some(Outcome::Drained), "{:?}", way.outcome);
    }
}

#[test]
fn as_long_as_the_reason_stands_complete_does() {
    for way in &WAYS {
        let mut sim = complete(way, Policy::device());
        sim.published.clear();
        sim.pass(60 * MINUTE);
        assert_eq!((sim.outcome(), sim.published.as_slice()), (Some(way.outcome), [].as_slice()));
    }
}

#[test]
fn nothing_is_taken_back_once_nodeagent_is_acting() {
    for way in &WAYS {
        let mut sim = complete(way, Policy::device());
        sim.facts.nodeagent = NodeAgent::Acting(DrainRequester::DeviceOp);
        sim.send(Event::Facts(sim.facts));
        (way.mends)(&mut sim);
        sim.pass(10 * MINUTE);
        assert_eq!(sim.outcome(), Some(way.outcome));
        assert_eq!(sim.state.session.number, 1);
    }
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(10 * SECOND);
    sim.facts.nodeagent = NodeAgent::Acting(DrainRequester::DeviceOp);
    sim.send(Event::Facts(sim.facts));
    (sim.own.cordoned, sim.own.cordoned_by) = (false, None);
    sim.pass(MINUTE);
    assert_eq!(
        (sim.published.last(), sim.state.session.number),
        (Some(&(9, 2)), 1),
        "drained: not undone either"
    );
}

/// While nodeagent acts for one requester nothing is taken back. Its command fails: what the other one was told counts only
/// after a new look, also if no watch tells what has come meanwhile.
#[test]
fn what_another_requester_was_told_counts_only_after_a_look_when_an_action_has_failed() {
    use DrainRequester::{DeviceOp, Update};
    let acting = |sim: &mut Sim, nodeagent| {
        sim.facts.nodeagent = nodeagent;
        sim.send(Event::Facts(sim.facts));
        [DeviceOp, Update].map(|requester| sim.state.is_confirmed(requester))
    };
    let list = |sim: &mut Sim, listed| {
        let Phase::Complete { recheck: Some(Recheck { serial: attempt, .. }), .. } = sim.state.phase else {
            panic!("{:?}", sim.state.phase)
        };
        sim.send(Event::Drain(drain::Event::Relisted { attempt, result: Ok(listed) }));
    };
    for (pods, number) in [(vec![], 1), (vec![pod("3")], 2)] {
        let mut sim = Sim::new();
        sim.ask(&[(DeviceOp, "1"), (Update, "1")]);
        sim.pass(20 * SECOND);
        assert_eq!(acting(&mut sim, NodeAgent::NotActing), [true, true]);
        sim.set(Fault::ProofHangs, true);
        sim.pass(MINUTE);
        let before = sim.snapshot();
        assert_eq!(acting(&mut sim, NodeAgent::Acting(Update)), [false, true]);
        sim.pods = pods;
        assert_eq!(acting(&mut sim, NodeAgent::NotActing), [false, false]);
        list(&mut sim, before);
        assert_eq!(acting(&mut sim, NodeAgent::NotActing), [false, false], "it was on its way before");
        sim.set(Fault::ProofHangs, false);
        let now = sim.snapshot();
        list(&mut sim, now);
        sim.pass(MINUTE);
        assert_eq!(acting(&mut sim, NodeAgent::NotActing), [true, true]);
        assert_eq!((sim.outcome(), sim.state.session.number), (Some(Outcome::Drained), number));
    }
    for way in &WAYS {
        let mut sim = Sim::new();
        sim.pass(10 * SECOND);
        (way.breaks)(&mut sim);
        sim.ask(&[(DeviceOp, "1"), (Update, "1")]);
        sim.pass(6 * MINUTE);
        assert_eq!(acting(&mut sim, NodeAgent::Acting(Update)), [false, true], "{:?}", way.outcome);
        (way.mends)(&mut sim);
        sim.pass(MINUTE);
        acting(&mut sim, NodeAgent::NotActing);
        assert!(sim.state.requests.iter().all(|request| request.answer == Answer::None), "{:?}", way.outcome);
        sim.pass(MINUTE);
        assert_eq!((sim.outcome(), sim.state.session.number), (Some(Outcome::Drained), 2));
    }
}

/// EVE's nodeagent does not publish whether it has begun to act.
#[test]
fn beside_eves_nodeagent_it_is_taken_back_for_five_seconds() {
    let policy = || Policy { beside_zedbox: true, ..Policy::device() };
    for way in &WAYS {
        for (pause, is_taken_back) in [(Duration::ZERO, true), (6 * SECOND, false)] {
            let mut sim = Sim::with(policy());
            sim.pass(20 * SECOND);
            (way.breaks)(&mut sim);
            sim.reboot();
            while sim.outcome().is_none() {
                sim.pass(SECOND);
            }
            sim.pass(pause);
            (way.mends)(&mut sim);
            // The list that is due by now, whenever that was.
            sim.state.api.next = sim.now;
            sim.send(Event::Tick);
            assert_eq!(sim.state.session.number == 2, is_taken_back, "{:?} after {pause:?}", way.outcome);
        }
    }
}

/// The Node was deleted and exists again.
#[test]
fn a_node_that_is_gone_and_comes_back_is_drained() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(10 * SECOND);
    sim.has_own_node = false;
    sim.show_snapshot();
    sim.pass(10 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::NodeGone));
    sim.has_own_node = true;
    (sim.own.cordoned, sim.own.cordoned_by) = (false, None);
    sim.pass(MINUTE);
    assert_eq!((sim.outcome(), sim.own.cordoned), (Some(Outcome::Drained), true));
}

/// One list without the Node is no proof: pods are bound to the Node, or the watch still has it.
#[test]
fn a_node_is_gone_only_when_everything_agrees() {
    let contradictions: [(&str, fn(&mut Sim)); 2] = [
        ("a pod is bound to it", |sim| sim.pods = vec![pod("3")]),
        ("the watch still has it", |sim| sim.set(Fault::WatchIsOld, true)),
    ];
    for (how, contradict) in contradictions {
        let mut sim = Sim::new();
        sim.reboot();
        sim.pass(10 * SECOND);
        contradict(&mut sim);
        sim.has_own_node = false;
        sim.ask(&[(DrainRequester::DeviceOp, "1"), (DrainRequester::Update, "1")]);
        sim.pass(10 * SECOND);
        assert_ne!(sim.outcome(), Some(Outcome::NodeGone), "{how}");
    }
}

/// All watches fail, or say nothing: a pod comes, and no event tells of it.
#[test]
fn what_no_watch_tells_is_found_by_the_next_list_and_a_list_that_fails_takes_nothing_back() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    sim.set(Fault::ListsFail, true);
    sim.pass(10 * MINUTE);
    assert_eq!((sim.outcome(), sim.state.session.number), (Some(Outcome::Drained), 1));
    sim.set(Fault::ListsFail, false);
    sim.pods = vec![pod("3")];
    sim.pass(40 * SECOND);
    assert_eq!((sim.state.session.number, sim.count("evict a/3")), (2, 1), "{:?}", sim.done);
}
