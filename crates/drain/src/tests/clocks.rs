//! When an attempt wakes by itself, and what it looks at then.

use super::*;
use crate::answer::Answer;
use crate::policy::{MaxRetries, UnhealthyNode};
use crate::state::{Failure, Outcome};
use crate::view::{NodeView, PodView, Snapshot, Unhealthy};
use crate::volumes::tests::{here, snapshot, storage, using};
use crate::{Effect, Event, step};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// In how long the attempt wakes after a tick now.
fn wakes_in(bench: &Bench) -> Duration {
    let (_, effects) = step(bench.state.clone(), Event::Tick, bench.now, &bench.policy);
    let wakes = effects
        .iter()
        .filter_map(|effect| if let Effect::WakeAt(at) = effect { Some(bench.now.until(*at)) } else { None });
    wakes.min().expect("a wake-up")
}

fn short() -> Policy {
    let mut policy = Policy { attempt_timeout: Duration::from_mins(10), ..Policy::device() };
    policy.volumes.detach_timeout = seconds(9);
    policy.volumes.reattach_timeout = seconds(7);
    policy
}

#[test]
fn a_silent_watch_is_checked_by_a_relist_every_30_s() {
    let mut bench = Bench::with(short(), None);
    bench.snapshot(with(vec![terminating("1")]));
    assert_eq!(wakes_in(&bench), seconds(30));
    bench.now = bench.now + seconds(29);
    assert_eq!(wakes_in(&bench), seconds(1));
}

#[test]
fn a_detach_timeout_wakes() {
    let mut bench = Bench::with(short(), None);
    let attached = || storage(&["1", "2"], vec![here("1"), here("2")]);
    let other = || PodView { terminating: terminating("2").terminating, ..using("2", &["2"]) };
    bench.snapshot(snapshot(vec![using("1", &["1"]), other()], attached()));
    bench.snapshot(snapshot(vec![other()], attached()));
    assert_eq!(wakes_in(&bench), seconds(9) / 2, "a relist checks it");
    bench.after(seconds(9) / 2);
    assert_eq!(wakes_in(&bench), seconds(9) / 2);
    bench.after(seconds(9) / 2);
    bench.answer_relist(snapshot(vec![other()], attached()));
    assert_eq!(wakes_in(&bench), seconds(30), "it has timed out; the watch is next");
}

#[test]
fn a_reattach_timeout_wakes() {
    let mut bench = Bench::with(short(), None);
    bench.snapshot(snapshot(
        vec![using("1", &["1"]), using("2", &["2"])],
        storage(&["1", "2"], vec![here("1"), here("2")]),
    ));
    bench.snapshot(snapshot(vec![using("2", &["2"])], storage(&["1", "2"], vec![here("2")])));
    assert_eq!(wakes_in(&bench), seconds(7));
}

#[test]
fn a_turn_that_lasts_too_long_wakes() {
    let mut bench = Bench::with(short(), None);
    let quick = |uid: &str| PodView { grace: seconds(2), ..using(uid, &[uid]) };
    bench.snapshot(snapshot(vec![quick("1"), quick("2")], storage(&["1", "2"], vec![here("1"), here("2")])));
    assert_eq!(wakes_in(&bench), seconds(11), "its grace and the detach time-out");
}

#[test]
fn a_retry_and_an_escalation_wake() {
    let mut bench =
        Bench::with(Policy { max_retries: MaxRetries::Times(1), retry: seconds(8), ..short() }, None);
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    bench.answer("1", refusal());
    assert_eq!(wakes_in(&bench), seconds(8), "the retry comes later, spread by a quarter");
    let mut bench = Bench::with(short(), None);
    bench.snapshot(with(vec![pod("1")]));
    bench.answer("1", Answer::Throttled { after: Some(seconds(4)), text: "busy".into() });
    assert!(wakes_in(&bench) >= seconds(4) && wakes_in(&bench) <= seconds(5));
}

#[test]
fn questions_wake() {
    let mut bench = Bench::with(short(), None);
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    bench.answer("1", refusal());
    assert_eq!(wakes_in(&bench), seconds(10));
}

#[test]
fn an_unhealthy_node_wakes() {
    let mut bench = Bench::with(Policy { unhealthy_node: UnhealthyNode::Force, ..short() }, None);
    let unhealthy = Some(Unhealthy { condition: "NotReady".into(), lasting: seconds(297) });
    let node = Some(NodeView { unhealthy, ..node(true) });
    bench.snapshot(Snapshot { node, ..with(vec![terminating("1")]) });
    assert_eq!(wakes_in(&bench), seconds(3));
}

#[test]
fn the_deadline_wakes_and_stands_still_in_an_outage() {
    let mut bench =
        Bench::with(Policy { attempt_timeout: seconds(5), freeze_limit: seconds(20), ..short() }, None);
    bench.snapshot(with(vec![terminating("1")]));
    assert_eq!(wakes_in(&bench), seconds(5));
    bench.send(Event::ApiAway);
    assert_eq!(wakes_in(&bench), seconds(20) + Duration::from_millis(1));
    bench.now = bench.now + seconds(15);
    bench.send(Event::ApiBack);
    assert_eq!(wakes_in(&bench), seconds(5));
}

#[test]
fn volumes_that_no_watch_tells_of_are_listed_soon_and_then_ever_less_often() {
    let attached = || storage(&["1"], vec![here("1")]);
    let mut policy = short();
    policy.volumes.detach_timeout = Duration::from_mins(2);
    let left_volume = |last: Snapshot| {
        let mut bench = Bench::with(policy.clone(), None);
        bench.snapshot(snapshot(vec![using("1", &["1"])], attached()));
        bench.snapshot(last);
        bench
    };
    for last in [with(vec![]), with(vec![terminating("2")])] {
        let mut bench = left_volume(last.clone());
        let mut waits = vec![];
        for _ in 0..9 {
            let wait = wakes_in(&bench);
            assert_eq!(bench.after(wait), [RELIST]);
            bench.answer_relist(snapshot(last.pods.clone(), attached()));
            waits.push(wait.as_millis());
        }
        assert_eq!(waits, [1_000, 1_000, 1_000, 1_500, 2_250, 3_375, 5_062, 7_593, 11_390]);
    }
    assert_eq!(wakes_in(&left_volume(snapshot(vec![], attached()))), seconds(30), "a watch tells of it");
    let mut bench = Bench::with(policy.clone(), None);
    bench.snapshot(with(vec![terminating("2")]));
    assert_eq!(wakes_in(&bench), seconds(30), "no volume");
}

#[test]
fn a_commands_deadline_is_wall_time_also_in_an_outage() {
    let mut policy = Policy { attempt_timeout: seconds(15), ..Policy::kubectl() };
    policy.freeze_limit = Duration::from_mins(30);
    for away_from in [3, 14] {
        let mut bench = Bench::with(policy.clone(), None);
        bench.snapshot(with(vec![pod("1")]));
        bench.after(seconds(away_from));
        bench.send(Event::ApiAway);
        assert_eq!(wakes_in(&bench), seconds(15 - away_from), "the deadline wakes");
        bench.after(seconds(15 - away_from));
        assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::ApiAway)), "away from {away_from} s on");
    }
    let mut bench = Bench::with(policy, None);
    bench.snapshot(with(vec![pod("1")]));
    bench.send(Event::ApiAway);
    bench.after(seconds(10));
    bench.send(Event::ApiBack);
    bench.after(seconds(4));
    assert_eq!(bench.outcome(), None);
    bench.after(seconds(1));
    assert_eq!(
        bench.outcome(),
        Some(Outcome::Failed(Failure::Deadline)),
        "an outage that is over adds nothing"
    );
}
