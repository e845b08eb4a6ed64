use std::cell::RefCell;

use drain::state::Failure;
use drain::{Snapshot, progress};
use fake_cluster::{Effect as FaultEffect, FakeCluster, Fault, Limit, Reply, objects};
use serde_json::json;

use super::*;
use crate::testing::{cordoned, live_cluster, soon, still_cluster, until};

fn policy() -> Policy {
    Policy { attempt_timeout: Duration::from_mins(1), settle: Duration::from_millis(10), ..Policy::device() }
}

async fn drain_edge_a(cluster: &Cluster, policy: Policy) -> Result<Outcome, CordonFailure> {
    soon(Drainer::new(cluster.clone(), policy).owned_by("zedkube", "test").drain("edge-a").outcome()).await
}

/// Drains edge-a and gives every state to the test.
async fn watched(drainer: &Drainer, mut see: impl FnMut(&State)) -> Result<Outcome, CordonFailure> {
    let mut drain = drainer.drain("edge-a");
    while drain.next().await.is_some() {
        see(drain.state());
    }
    drain.outcome().await
}

async fn deployment(fake: &FakeCluster, replicas: u32) {
    fake.deployment("web", replicas, "edge-a").unwrap();
    let wanted = usize::try_from(replicas).unwrap();
    let is_ready = |pod: &serde_json::Value| pod["status"]["phase"] == "Running";
    until(fake, |fake| fake.pods_on("edge-a").iter().filter(|pod| is_ready(pod)).count() == wanted).await;
}

#[tokio::test]
async fn a_hundred_pods_leave_within_the_promised_number_of_calls() {
    let (fake, cluster) = live_cluster();
    deployment(&fake, 100).await;
    assert_eq!(drain_edge_a(&cluster, policy()).await, Ok(Outcome::Drained));
    assert_eq!(fake.pods_on("edge-a").len(), 0);
    assert_eq!(fake.get("nodes", "", "edge-a").unwrap()["spec"]["unschedulable"], json!(true));
    let asked = fake.requests().count("ebb/", "*", "*");
    assert!(asked <= 112, "{asked} calls: {:?}", fake.requests().counts());
    assert!(fake.requests().peak("create", "pods/eviction") <= 16);
}

#[tokio::test]
async fn a_budget_is_kept_and_a_freed_place_is_used_at_once() {
    let (fake, cluster) = live_cluster();
    deployment(&fake, 5).await;
    fake.budget("web", Limit::MaxUnavailable("1")).unwrap();
    // A retry by time alone would take far longer than the test may take.
    let slow = Policy { retry: Duration::from_hours(1), ..policy() };
    assert_eq!(drain_edge_a(&cluster, slow).await, Ok(Outcome::Drained));
    assert_eq!(fake.pods_on("edge-a").len(), 0);
}

#[tokio::test]
async fn an_empty_node_is_proven_empty() {
    let (fake, cluster) = live_cluster();
    assert_eq!(drain_edge_a(&cluster, policy()).await, Ok(Outcome::Drained));
    let fresh: Vec<_> =
        fake.requests().recent().into_iter().filter(|r| r.verb == "list" && r.resource == "pods").collect();
    assert_eq!(fresh.len(), 2, "the watch's list, and the final check");
}

#[tokio::test]
async fn an_outage_in_the_middle_is_waited_for() {
    let (fake, cluster) = live_cluster();
    deployment(&fake, 3).await;
    fake.budget("web", Limit::MinAvailable("3")).unwrap();
    until(&fake, |fake| fake.get("pdb", "default", "web").unwrap()["status"]["currentHealthy"] == json!(3))
        .await;
    let states = RefCell::new(Vec::new());
    let watch = |state: &State| {
        let attempt = progress::attempt(state);
        states.borrow_mut().push(attempt.map(|attempt| attempt.away_since().is_some()));
        let blocked = attempt.map_or(0, |attempt| progress::progress(attempt).blocked);
        let was_away = states.borrow().contains(&Some(true));
        let is_away = states.borrow().last() == Some(&Some(true));
        if blocked == 3 && !was_away {
            // No call is in flight now: only the watches can show it.
            fake.faults().api_down().unwrap();
        } else if is_away {
            fake.faults().api_up().unwrap();
        } else if was_away {
            // The server is back: now the pods may go.
            fake.delete("poddisruptionbudgets", "default", "web");
        }
    };
    let drainer = Drainer::new(cluster.clone(), policy());
    let drain = watched(&drainer, watch);
    // After an outage the verification waits a minute: it is enough to see that all pods have left.
    tokio::select! {
        outcome = drain => panic!("{outcome:?}"),
        () = until(&fake, |fake| fake.pods_on("edge-a").is_empty()) => {}
    }
    assert!(states.borrow().contains(&Some(true)));
}

/// An outage costs a minute before the final check, so two refused calls that are soon over must not count as one.
#[tokio::test]
async fn two_calls_that_fail_for_a_moment_are_no_outage() {
    let (fake, cluster) = live_cluster();
    deployment(&fake, 1).await;
    let policy = Policy { retry: Duration::from_millis(50), ..policy() };
    let mut drain = Drainer::new(cluster.clone(), policy).drain_cordoned(cordoned(&cluster).await);
    let refused = || FaultEffect::Answer(Reply::text(503, "not now"));
    fake.faults().add(Fault::on("create", "pods/eviction", refused()));
    fake.faults().add(Fault::on("get", "nodes", refused()));
    while soon(drain.next()).await.is_some() {
        let attempt = progress::attempt(drain.state());
        assert!(attempt.is_none_or(|attempt| attempt.away_since().is_none()), "it counts as away");
    }
    assert_eq!(drain.outcome().await, Ok(Outcome::Drained));
    assert_eq!(fake.faults().waiting(), 0, "both calls were refused");
}

#[tokio::test]
async fn while_nothing_is_in_flight_the_watches_tell_of_an_outage() {
    let (fake, cluster) = still_cluster();
    let drainer = Drainer::new(cluster.clone(), policy());
    let mut drain = drainer.drain_cordoned(cordoned(&cluster).await);
    soon(drain.next()).await;
    let mut next = async || {
        loop {
            let event = soon(drain.event()).await;
            if !matches!(event, Event::Snapshot(_)) {
                return event;
            }
        }
    };
    fake.faults().api_down().unwrap();
    assert_eq!(next().await, Event::ApiAway);
    fake.faults().api_up().unwrap();
    assert_eq!(next().await, Event::ApiBack);
}

#[tokio::test]
async fn failures_of_the_attempt() {
    let (fake, cluster) = live_cluster();
    fake.pod("bare", "edge-a").unwrap();
    assert_eq!(drain_edge_a(&cluster, Policy::kubectl()).await, Ok(Outcome::Failed(Failure::Refused)));
    fake.apply({
        let mut pod = objects::pod("stuck", "edge-a");
        pod["metadata"]["finalizers"] = json!(["example.org/hold"]);
        pod
    })
    .unwrap();
    let short = Policy { attempt_timeout: Duration::from_millis(300), ..policy() };
    assert_eq!(drain_edge_a(&cluster, short).await, Ok(Outcome::Failed(Failure::Deadline)));
    let by_hand = |state: &State| {
        let snapshot = progress::attempt(state)
            .and_then(|attempt| attempt.snapshot().map(|snapshot| Snapshot::clone(snapshot)));
        if snapshot.and_then(|snapshot: Snapshot| snapshot.node).is_some_and(|node| node.cordoned) {
            fake.edit("nodes", "", "edge-a", |node| node["spec"] = json!({})).unwrap();
        }
    };
    let drainer = Drainer::new(cluster.clone(), policy());
    assert_eq!(soon(watched(&drainer, by_hand)).await, Ok(Outcome::Failed(Failure::Uncordoned)));
}

#[tokio::test]
async fn a_node_that_goes_away() {
    let (fake, cluster) = still_cluster();
    fake.pod("web", "edge-a").unwrap();
    fake.budget("web", Limit::MinAvailable("1")).unwrap();
    let remove = |state: &State| {
        if progress::attempt(state).is_some_and(drain::state::Attempt::has_seen_cordon) {
            fake.delete("nodes", "", "edge-a");
            // The controller manager does the same with pods whose node is gone.
            drop(fake.edit("pods", "default", "web", |pod| pod["status"]["phase"] = "Failed".into()));
            fake.delete("pods", "default", "web");
        }
    };
    let drainer = Drainer::new(cluster.clone(), policy());
    assert_eq!(soon(watched(&drainer, remove)).await, Ok(Outcome::NodeGone));
    let failure = drain_edge_a(&cluster, policy()).await.unwrap_err();
    assert_eq!(failure, CordonFailure::NodeGone { node: "edge-a".to_owned() });
}

#[tokio::test]
async fn a_dropped_drain_sends_nothing_more() {
    let (fake, cluster) = live_cluster();
    deployment(&fake, 4).await;
    fake.faults().add(Fault::on("create", "pods/eviction", FaultEffect::Hang).always());
    let drainer = Drainer::new(cluster, policy());
    let sent = async {
        while fake.requests().peak("create", "pods/eviction") < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        outcome = drainer.drain("edge-a").outcome() => panic!("{outcome:?}"),
        () = soon(sent) => {}
    }
    fake.faults().clear();
    assert_eq!(fake.pods_on("edge-a").len(), 4);
}
