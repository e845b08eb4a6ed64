//! Deletion with grace 0.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::answer::Answer;
use crate::policy::{Method, UnhealthyNode};
use crate::state::Outcome;
use crate::view::Unhealthy;
use crate::view::{NodeView, PodView, Snapshot};
use crate::{Effect, Event};

fn killed(effects: &[Effect]) -> Vec<&str> {
    let is_kill = |effect: &&Effect| matches!(effect, Effect::Delete { grace: Some(Duration::ZERO), .. });
    let kills: Vec<&Effect> = effects.iter().filter(is_kill).collect();
    kills.into_iter().flat_map(|kill| evicted(std::slice::from_ref(kill))).collect()
}

#[test]
fn asked_for_all_pods_go_at_once_past_budgets_and_turns() {
    let policy = Policy { method: Method::ForceDelete, ..Policy::device() };
    let mut bench = Bench::with(policy, None);
    let effects = bench.snapshot(guarded(vec![pod("1"), terminating("2"), pod("3")], 0, "1"));
    assert_eq!(killed(&effects), ["1", "2", "3"]);
    for uid in ["1", "2", "3"] {
        bench.answer(uid, Answer::Accepted);
    }
    bench.snapshot(with(vec![]));
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn a_pod_that_stays_all_the_same_is_asked_again_slowly() {
    let mut bench = Bench::with(Policy { method: Method::ForceDelete, ..Policy::device() }, None);
    let held = || with(vec![terminating("1")]);
    assert_eq!(killed(&bench.snapshot(held())), ["1"]);
    bench.answer("1", Answer::Accepted);
    assert_eq!(killed(&bench.snapshot(held())), [""; 0]);
    assert_eq!(killed(&bench.after(Duration::from_secs(19))), [""; 0]);
    assert_eq!(killed(&bench.after(Duration::from_secs(1))), ["1"]);
}

#[test]
fn what_the_policy_refuses_is_not_forced() {
    let policy = Policy { method: Method::ForceDelete, ..Policy::kubectl() };
    let mut bench = Bench::with(policy, None);
    assert_eq!(
        killed(&bench.snapshot(with(vec![PodView { controller: None, ..pod("1") }, pod("2")]))),
        [""; 0]
    );
    assert!(matches!(bench.outcome(), Some(Outcome::Failed(_))));
}

fn unhealthy(lasting: u64) -> NodeView {
    let lasting = Duration::from_secs(lasting);
    NodeView { unhealthy: Some(Unhealthy { condition: "NotReady".into(), lasting }), ..node(true) }
}

#[test]
fn an_unhealthy_node_is_forced_after_five_minutes_and_only_if_allowed() {
    for (rule, lasting, expected) in [
        (UnhealthyNode::Off, 1_000, false),
        (UnhealthyNode::Force, 299, false),
        (UnhealthyNode::Force, 300, true),
    ] {
        let mut bench = Bench::with(Policy { unhealthy_node: rule, ..Policy::device() }, None);
        let effects = bench.snapshot(Snapshot { node: Some(unhealthy(lasting)), ..with(vec![pod("1")]) });
        assert_eq!(!killed(&effects).is_empty(), expected, "{rule:?} {lasting}");
        assert_eq!(evicted(&effects), ["1"], "evicted otherwise");
    }
}

#[test]
fn the_five_minutes_go_on_without_any_snapshot_and_end_with_the_condition() {
    let mut bench = Bench::with(Policy { unhealthy_node: UnhealthyNode::Force, ..Policy::device() }, None);
    bench.snapshot(Snapshot { node: Some(unhealthy(290)), ..with(vec![terminating("1")]) });
    let (_, effects) = crate::step(bench.state.clone(), Event::Tick, bench.now, &bench.policy);
    assert!(effects.contains(&Effect::WakeAt(bench.now + Duration::from_secs(10))), "{effects:?}");
    let (mut healthy, mut sick) = (bench.clone(), bench);
    assert_eq!(killed(&sick.after(Duration::from_secs(9))), [""; 0]);
    assert_eq!(killed(&sick.after(Duration::from_secs(1))), ["1"]);
    healthy.send(Event::Snapshot(Arc::new(with(vec![terminating("1")]))));
    assert_eq!(killed(&healthy.after(Duration::from_mins(10))), [""; 0]);
}

#[test]
fn a_busy_server_is_given_its_pause() {
    let mut bench = Bench::with(Policy { method: Method::ForceDelete, ..Policy::device() }, None);
    bench.snapshot(with(vec![pod("1")]));
    let after = Some(Duration::from_secs(8));
    assert_eq!(killed(&bench.answer("1", Answer::Throttled { after, text: "busy".into() })), [""; 0]);
    assert_eq!(killed(&bench.after(Duration::from_secs(7))), [""; 0]);
    assert_eq!(killed(&bench.after(Duration::from_secs(3))), ["1"]);
}
