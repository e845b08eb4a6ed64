use drain::storage::Attachments;
use drain::{Snapshot, progress};
use fake_cluster::{Effect as FaultEffect, FakeCluster, Fault, Limit, Reply, objects};
use serde_json::json;

use super::*;
use crate::testing::{attached, cordoned, live_cluster, pod_with_volume_on, soon, still_cluster, until};

fn policy() -> Policy {
    Policy { attempt_timeout: Duration::from_mins(1), settle: Duration::from_millis(10), ..Policy::device() }
}

/// An outage costs a minute before the final check, so two refused calls that are soon over must not count as one.
#[tokio::test]
async fn two_calls_that_fail_for_a_moment_are_no_outage() {
    let (fake, cluster) = live_cluster();
    fake.deployment("web", 1, "edge-a").unwrap();
    until(&fake, |fake| fake.pods_on("edge-a").iter().any(|pod| pod["status"]["phase"] == "Running")).await;
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

/// Waits until the watches of the drain show this.
async fn shows(drain: &mut Drain, what: impl Fn(&Snapshot) -> bool) {
    let is_shown = |event| matches!(event, Event::Snapshot(seen) if what(&seen));
    soon(async { while !is_shown(drain.driver.next().await) {} }).await;
}

/// In a cluster of 97,000 VolumeAttachments each node's drain listed all of them.
#[tokio::test]
async fn the_drains_of_a_drainer_list_once_what_is_not_of_one_node() {
    let (fake, cluster) = still_cluster();
    let drainer = Drainer::new(cluster, policy());
    let mut drains = Vec::new();
    let has = |seen: &Snapshot, these| seen.storage.attachments == Attachments::Listed(these);
    for node in ["edge-a", "edge-b", "edge-c"] {
        fake.node(node).unwrap();
        pod_with_volume_on(&fake, node, node);
    }
    for node in ["edge-a", "edge-b", "edge-c"] {
        drains.push((node, drainer.clone().drain(node)));
    }
    for (node, drain) in &mut drains {
        shows(drain, |seen| has(seen, vec![attached(&format!("vol-{node}"), node)])).await;
    }
    let mut late = drainer.drain("edge-a");
    shows(&mut late, |seen| has(seen, vec![attached("vol-edge-a", "edge-a")])).await;
    fake.delete("volumeattachments", "", "vol-edge-a-edge-a");
    for drain in [&mut late, &mut drains[0].1] {
        shows(drain, |seen| has(seen, vec![])).await;
    }
    fake.budget("db", Limit::MinAvailable("1")).unwrap();
    for drain in [&mut late, &mut drains[0].1] {
        shows(drain, |seen| seen.budgets.len() == 1).await;
    }
    let lists = |resource| fake.requests().count("ebb/", "list", resource);
    for (resource, expected) in
        [("poddisruptionbudgets", 1), ("volumeattachments", 1), ("persistentvolumeclaims", 0)]
    {
        assert_eq!(lists(resource), expected, "{resource}");
    }
    assert_eq!(lists("pods"), 4);
}

/// 200 nodes under one budget had 600 evictions in flight: they conflicted until the server gave up, and no drain ended.
#[tokio::test]
async fn the_drains_of_a_drainer_share_the_limit_of_evictions_under_one_budget() {
    let (fake, cluster) = live_cluster();
    let nodes = ["edge-a", "edge-b", "edge-c"];
    for node in nodes {
        fake.node(node).unwrap();
        for number in 0..3 {
            let mut pod = objects::pod(&format!("{node}-{number}"), node);
            pod["metadata"]["labels"] = json!({"app": "web"});
            fake.apply(pod).unwrap();
        }
    }
    fake.budget("web", Limit::MinAvailable("0")).unwrap();
    let allowed = |fake: &FakeCluster| fake.get("poddisruptionbudgets", "default", "web");
    until(&fake, |fake| allowed(fake).is_some_and(|budget| budget["status"]["disruptionsAllowed"] == 9))
        .await;
    let (go, held) = tokio::sync::watch::channel(false);
    fake.faults().add(Fault::on("create", "pods/eviction", FaultEffect::Until(held)).always());
    let drainer = Drainer::new(cluster, policy());
    let mut drains: Vec<Drain> = nodes.iter().map(|node| drainer.drain(node)).collect();
    for drain in &mut drains {
        let evicts = |line: &Line| line.stage == Some(drain::state::Stage::Evicting);
        while drain.lines().iter().filter(|line| evicts(line)).count() < 3 {
            soon(drain.next()).await;
        }
    }
    soon(async {
        while fake.requests().in_flight("create", "pods/eviction") < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    go.send(true).unwrap();
    let outcomes = soon(futures::future::join_all(drains.into_iter().map(Drain::outcome))).await;
    assert_eq!(outcomes, [Ok(Outcome::Drained), Ok(Outcome::Drained), Ok(Outcome::Drained)]);
    assert_eq!(fake.requests().peak("create", "pods/eviction"), 3);
}
