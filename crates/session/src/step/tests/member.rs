//! Scenarios of membership: the stored value, the first list of this boot, and requests meanwhile.

use drain::view::NodeView;

use super::*;
use crate::membership::{Facts, Mode};
use crate::phase::Failed;
use crate::step::sim::{Fault, SECOND, Sim};
use schemas::DrainRequester::DeviceOp;

const MINUTE: Duration = Duration::from_mins(1);

/// A device whose membership is stored as `no`, before its first list in this boot.
fn stored_no(prepare: impl Fn(&mut Sim)) -> Sim {
    let mut sim = Sim::new();
    prepare(&mut sim);
    sim.state = State::new(Member::No, "boot".into(), sim.now).knowing(sim.state.slots.others);
    sim
}

fn reboot() -> Vec<Request> {
    let mut sim = Sim::new();
    sim.reboot();
    sim.state.requests.iter().cloned().map(|request| Request { answer: Answer::None, ..request }).collect()
}

#[test]
fn a_stored_no_does_not_outrank_a_request_that_stands_at_the_start() {
    let mut sim = stored_no(|_| {});
    sim.start(reboot());
    assert_eq!(sim.statuses().get(..2), Some([2, 3].as_slice()), "never NOTSUPPORTED");
    sim.pass(10 * SECOND);
    assert_eq!((sim.state.member, sim.outcome()), (Member::Yes, Some(Outcome::Drained)));
}

#[test]
fn a_stored_no_that_a_look_confirms_lets_the_device_go() {
    let mut sim = stored_no(|sim| sim.others.clear());
    sim.start(reboot());
    sim.pass(10 * SECOND);
    assert_eq!(
        (sim.state.member_now(), sim.published.last(), sim.count("cordon")),
        (Member::No, Some(&(1, 2)), 0)
    );
}

/// Before the first list of this boot the membership is not known: the report says `unknown`, and the gate waits.
#[test]
fn a_stored_no_releases_nobody_before_one_look_of_this_boot() {
    let mut sim = stored_no(|sim| sim.set(Fault::Unreachable, true));
    sim.start(vec![]);
    assert_eq!((sim.state.member_now(), sim.published.last()), (Member::Unknown, Some(&(2, 1))));
    sim.reboot();
    sim.pass(299 * SECOND);
    assert_eq!((sim.state.member_now(), sim.published.last()), (Member::Unknown, Some(&(3, 2))));
    sim.restart();
    assert_eq!(sim.state.member_now(), Member::Unknown);
    sim.pass(10 * SECOND);
    assert_eq!(
        (sim.state.member_now(), sim.published.last()),
        (Member::No, Some(&(1, 2))),
        "an outage is one too"
    );
    sim.restart();
    assert_eq!(sim.state.member_now(), Member::No, "it was in this boot");
    sim.boot("next");
    assert_eq!(sim.state.member_now(), Member::Unknown);
}

/// With `api-unreachable = wait` no outage lets the device go undrained, however long it lasts.
#[test]
fn a_stored_no_waits_for_the_api_server_if_the_policy_says_so() {
    let mut sim = stored_no(|sim| {
        sim.policy.on_unreachable = OnUnavailable::Wait;
        sim.others.clear();
        sim.set(Fault::Unreachable, true);
    });
    sim.start(reboot());
    sim.pass(12 * 60 * MINUTE);
    assert_eq!((sim.state.member_now(), sim.published.last()), (Member::Unknown, Some(&(3, 2))));
    sim.faults.clear();
    sim.pass(40 * SECOND);
    assert_eq!(
        (sim.state.member_now(), sim.published.last()),
        (Member::No, Some(&(1, 2))),
        "the server says so"
    );
}

#[test]
fn without_a_cluster_to_look_at_a_stored_no_counts_at_once() {
    let nothing: [fn(&mut Facts); 2] =
        [|facts| facts.has_kubeconfig = false, |facts| facts.mode = Mode::Never];
    for change in nothing {
        let mut sim = stored_no(|sim| sim.set(Fault::Unreachable, true));
        change(&mut sim.facts);
        sim.start(reboot());
        assert!(sim.statuses().iter().all(|status| *status == 1), "{:?}", sim.published);
    }
}

/// One request that is never withdrawn must not hide that the cluster grows.
#[test]
fn a_request_that_stands_does_not_keep_a_no() {
    let mut sim = Sim::new();
    let others = std::mem::take(&mut sim.others);
    sim.pass(2 * MINUTE);
    sim.reboot();
    sim.pass(2 * MINUTE);
    assert_eq!((sim.state.member_now(), sim.outcome()), (Member::No, None));
    sim.others = others;
    sim.pass(2 * MINUTE);
    assert_eq!((sim.state.member, sim.outcome()), (Member::Yes, Some(Outcome::Drained)));
}

/// A plain single device, asked before it knows that it is one, is not made to wait for peers.
#[test]
fn who_does_not_know_yet_learns_it_while_somebody_asks() {
    let mut sim = Sim::new();
    sim.others.clear();
    sim.state = State::new(Member::Unknown, "boot".into(), sim.now);
    sim.start(reboot());
    sim.pass(10 * SECOND);
    assert_eq!((sim.state.member_now(), sim.statuses()), (Member::No, vec![2, 3, 1]));
}

#[test]
fn yes_becomes_no_only_while_nobody_asks() {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.reboot();
    sim.pass(10 * SECOND);
    sim.others.clear();
    sim.pass(10 * MINUTE);
    assert_eq!(sim.state.member, Member::Yes);
    sim.ask(&[]);
    sim.pass(2 * MINUTE);
    assert_eq!(sim.state.member, Member::No);
}

/// k3s has not registered the node yet.
#[test]
fn a_node_that_is_still_joining_is_waited_for() {
    let mut sim = Sim::new();
    sim.has_own_node = false;
    sim.state = State::new(Member::Unknown, "boot".into(), sim.now);
    sim.others.push(NodeView {
        name: "third".into(),
        uid: "third".into(),
        ready: true,
        ..NodeView::default()
    });
    sim.start(reboot());
    sim.pass(4 * MINUTE);
    assert_eq!(sim.published.last(), Some(&(3, 2)));
    let reason = crate::words::reason(&sim.state);
    assert!(reason.contains("this machine") && reason.contains("joining"), "{reason}");
    sim.has_own_node = true;
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

#[test]
fn a_node_that_never_joins_fails_with_words() {
    for (may_join, minutes) in [(true, 6), (false, 0)] {
        let mut sim = Sim::new();
        sim.has_own_node = false;
        sim.may_join = may_join;
        sim.start(vec![]);
        sim.ask(&[(DeviceOp, "9")]);
        sim.pass(minutes * MINUTE);
        assert!(
            matches!(&sim.state.phase, Phase::Failed(Failed::Cordon(text)) if text.contains("this machine")),
            "may join {may_join}: {:?}",
            sim.state.phase
        );
    }
}
