use drain::progress;
use fake_cluster::{Effect as FaultEffect, Fault, Reply};

use super::*;
use crate::testing::{cordoned, live_cluster, soon, still_cluster, until};

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
