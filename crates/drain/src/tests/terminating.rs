//! Scenarios with pods that another client deletes already: they forbid a drain as live ones do, their grace period can
//! be shortened, and the drain waits for them as long as the policy says.

use std::sync::Arc;

use super::*;
use crate::answer::Answer;
use crate::policy::Method;
use crate::rule::Rule;
use crate::state::{Failure, Outcome, State};
use crate::view::{Controller, Existence};
use crate::{Effect, Event, step};

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// On its way out with this grace, which has just begun.
fn ending(uid: &str, grace: u64) -> PodView {
    let left = seconds(grace);
    PodView {
        terminating: Some(Terminating { grace: left, left, ..Terminating::default() }),
        grace: left,
        ..pod(uid)
    }
}

#[test]
fn a_terminating_pod_that_the_policy_refuses_forbids_the_drain() {
    let daemon = Controller {
        kind: "DaemonSet".into(),
        api_version: "apps/v1".into(),
        existence: Existence::Present,
        ..Controller::default()
    };
    let cases = [
        ("no controller", PodView { controller: None, ..terminating("2") }),
        ("DaemonSet", PodView { controller: Some(daemon), ..terminating("2") }),
        ("emptyDir", PodView { empty_dir: true, ..terminating("2") }),
    ];
    for (what, refused) in cases {
        let mut bench = Bench::with(Policy::kubectl(), None);
        assert_eq!(bench.snapshot(with(vec![pod("1"), refused.clone()])), [Effect::Abort], "{what}");
        assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Refused)), "{what}");
        let mut device = Bench::start();
        device.snapshot(with(vec![pod("1"), refused]));
        assert_eq!(device.outcome(), None, "{what}: the device's policy allows it");
    }
}

/// Nothing of it runs, and the controller of its finalizer may never come back.
#[test]
fn a_finished_pod_that_a_finalizer_keeps_holds_no_device() {
    for (policy, expected) in [(Policy::device(), &[RELIST][..]), (Policy::kubectl(), &[])] {
        let mut bench = Bench::with(policy, None);
        let finished = PodView { phase: Phase::Failed, ..pod("1") };
        assert_eq!(evicted(&bench.snapshot(with(vec![finished.clone()]))), ["1"]);
        bench.answer("1", Answer::Accepted);
        let kept = PodView {
            finalizers: vec!["job-tracking".into()],
            terminating: ending("1", 0).terminating,
            ..finished
        };
        assert_eq!(bench.snapshot(with(vec![kept])), expected);
    }
}

#[test]
fn a_refused_pod_that_comes_terminating_in_mid_drain_is_waited_for() {
    let mut bench = Bench::with(Policy::kubectl(), None);
    bench.snapshot(with(vec![pod("1")]));
    let bare = PodView { controller: None, ..terminating("2") };
    bench.snapshot(with(vec![bare.clone()]));
    assert_eq!((bench.outcome(), bench.stage("2")), (None, Some(Stage::Terminating)));
    assert_eq!(bench.snapshot(with(vec![])), [RELIST]);
}

#[test]
fn a_shorter_grace_is_asked_for_once() {
    for (method, grace, own, is_asked) in [
        (Method::Evict, Some(3), 600, true),
        (Method::Delete, Some(3), 600, true),
        (Method::Evict, Some(600), 600, false),
        (Method::Evict, Some(900), 600, false),
        (Method::Evict, None, 600, false),
        (Method::Delete, None, 600, false),
    ] {
        let policy = Policy { grace_period: grace.map(seconds), method, ..Policy::device() };
        let mut bench = Bench::with(policy, None);
        let case = format!("{method:?} {grace:?} {own}");
        let effects = bench.snapshot(with(vec![ending("1", own)]));
        assert_eq!(evicted(&effects).len(), usize::from(is_asked), "{case}");
        let by_deletion = matches!(effects.first(), Some(Effect::Delete { .. }));
        assert_eq!(by_deletion, is_asked && method == Method::Delete, "{case}");
        assert_eq!(evicted(&bench.snapshot(with(vec![ending("1", own)]))), [""; 0], "{case}: on its way");
        bench.answer("1", Answer::Accepted);
        assert_eq!(evicted(&bench.snapshot(with(vec![ending("1", own)]))), [""; 0], "{case}: accepted");
        if is_asked {
            bench.now = bench.now + bench.policy.retry;
            let again = bench.snapshot(with(vec![ending("1", own)]));
            assert_eq!(evicted(&again), ["1"], "{case}: the server has forgotten it");
            bench.answer("1", Answer::Accepted);
        }
        bench.now = bench.now + bench.policy.retry;
        assert_eq!(evicted(&bench.snapshot(with(vec![ending("1", 3)]))), [""; 0], "{case}: done");
        assert_eq!(bench.stage("1"), Some(Stage::Terminating), "{case}");
    }
}

#[test]
fn half_a_second_of_a_rule_is_not_asked_for_for_ever() {
    let grace = Some(Duration::from_millis(2_500));
    let rule = Rule { name: "quick".into(), grace, ..Rule::default() };
    let mut bench = Bench::with(Policy { rules: vec![rule], ..Policy::device() }, None);
    assert_eq!(evicted(&bench.snapshot(with(vec![ending("1", 30)]))), ["1"], "a rule's grace counts as well");
    bench.answer("1", Answer::Accepted);
    bench.now = bench.now + bench.policy.retry;
    assert_eq!(evicted(&bench.snapshot(with(vec![ending("1", 3)]))), [""; 0], "what is sent is rounded up");
}

#[test]
fn a_refused_shortening_is_told_and_tried_again_and_fails_nothing() {
    let policy = Policy { grace_period: Some(seconds(3)), ..Policy::device() };
    for answer in [
        Answer::Rejected { text: "no".into() },
        Answer::Webhook { text: "no".into() },
        Answer::Retry { text: "no".into() },
    ] {
        let mut bench = Bench::with(policy.clone(), None);
        bench.snapshot(with(vec![ending("1", 600)]));
        bench.answer("1", answer.clone());
        assert_eq!(bench.outcome(), None, "{answer:?}");
        bench.snapshot(with(vec![ending("1", 600)]));
        assert!(matches!(bench.stage("1"), Some(Stage::Paused { text, .. }) if text == "no"), "{answer:?}");
        assert_eq!(evicted(&bench.after(bench.policy.retry)), ["1"], "{answer:?}");
        bench.snapshot(with(vec![]));
        bench.answer_relist(with(vec![]));
        assert_eq!(bench.outcome(), Some(Outcome::Drained), "{answer:?}: it ended by itself");
    }
}

#[test]
fn a_pod_that_stays_too_long_is_left_by_the_clock() {
    let policy = Policy { skip_wait_for_delete: Some(seconds(4)), ..Policy::kubectl() };
    let mut bench = Bench::with(policy, None);
    bench.snapshot(with(vec![ending("1", 10)]));
    assert_eq!(bench.after(seconds(14)), [], "its grace and 4 s are not over");
    assert_eq!(bench.after(seconds(2)), [RELIST], "no snapshot has come");
    let overdue = Terminating { grace: seconds(10), overdue: seconds(6), ..Terminating::default() };
    bench.answer_relist(with(vec![PodView { terminating: Some(overdue), ..ending("1", 10) }]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn the_clock_wakes_for_a_pod_that_stays_too_long() {
    let policy = Policy { skip_wait_for_delete: Some(seconds(4)), ..Policy::kubectl() };
    let now = Moment(1_000_000);
    let (state, _) = step(State::Idle, Event::Start { attempt: 1, api_back: None }, now, &policy);
    let snapshot = Event::Snapshot(Arc::new(with(vec![ending("1", 10)])));
    let (_, effects) = step(state, snapshot, now, &policy);
    assert_eq!(effects.last(), Some(&Effect::WakeAt(now + seconds(15))));
}
