//! The API server is away, or no other node accepts pods.
//!
//! Only on the fake, because in the real server single reads cannot be made to fail or slow down (admission, by which
//! the other cases hold calls, sees only writes):
//! - `the_server_goes_before_the_proof`: lists of pods fail while the watches go on. On the real server both end
//!   together, and its pods do not end without it, because their kubelet needs the server too.
//! - `a_late_relist_brings_no_old_budget_back`: one read is late.

use std::time::Duration;

use anyhow::{Context, Result};
use cluster::CordonFailure;
use cluster::drainer::Drain;
use contract::PodState::{Ready, ReadyForLong};
use contract::objects::{self};
use contract::{Objects, Target};
use drain::Outcome;
use drain::progress::attempt;
use drain::state::Failure;
use fake_cluster::{Effect, Fault};
use serde_json::{Value, json};

use crate::disks::Disks;
use crate::scene::{Scene, end, is_blocked, is_half_proven, is_terminating, patient, turn, until};
use crate::stages::{At, reach};

pub(crate) const FAKE_ONLY: &str = "for the fake only";

pub(crate) async fn the_server_is_away_from_the_beginning(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t56").await?;
    scene.place.pods(&[("a", Ready)]).await?;
    target.stop_api_server().await?;
    let failure = scene.drain(patient()).outcome().await.unwrap_err();
    assert!(matches!(&failure, CordonFailure::Api(failure) if failure.is_unreachable()), "{failure}");
    target.start_api_server().await?;
    assert!(scene.is_untouched("a").await? && !scene.is_cordoned().await?);
    Ok(())
}

pub(crate) fn is_away(drain: &Drain) -> bool {
    attempt(drain.state()).is_some_and(|attempt| attempt.away_since().is_some())
}

/// The drain's clocks stop; afterwards the drain goes on, and believes an empty node only a minute later.
pub(crate) async fn the_server_goes_in_the_middle(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t56").await?;
    let mut drain = reach(&scene, At::Blocked).await?;
    let deadline = drain.record().context("no record")?.deadline;
    target.stop_api_server().await?;
    until(&mut drain, "it is seen", |drain| is_away(drain).then_some(())).await?;
    let pause = Duration::from_mins(20);
    turn(pause);
    target.start_api_server().await?;
    until(&mut drain, "it is back", |drain| (!is_away(drain)).then_some(())).await?;
    assert!(drain.record().context("no record")?.deadline >= deadline + pause);

    scene.free("p").await?;
    let is_on_its_way = |drain: &Drain| is_terminating(drain, "a") || drain.progress().left == 0;
    until(&mut drain, "a is on its way", |drain| is_on_its_way(drain).then_some(())).await?;
    // The kubelet may reach the server again only later, so the pod is deleted here.
    let now = json!({"gracePeriodSeconds": 0});
    scene.place.caller().delete(&scene.place.path("pods/a"), &now).await?;
    until(&mut drain, "the node looks empty", |drain| is_half_proven(drain).then_some(())).await?;
    assert_eq!(drain.progress().left, 0);
    turn(drain::policy::STALE_SCHEDULER);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

pub(crate) async fn the_server_stays_away(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t56").await?;
    let mut drain = reach(&scene, At::Blocked).await?;
    target.stop_api_server().await?;
    until(&mut drain, "it is seen", |drain| is_away(drain).then_some(())).await?;
    turn(patient().freeze_limit + Duration::from_secs(1));
    assert_eq!(end(&mut drain).await?, Outcome::Failed(Failure::ApiAway));
    target.start_api_server().await?;
    assert!(scene.is_untouched("a").await?);
    Ok(())
}

/// According to the watch all pods are gone, but no fresh list can be read: that is not enough.
pub(crate) async fn the_server_goes_before_the_proof(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t56").await?;
    let mut drain = reach(&scene, At::Terminating).await?;
    let fake = target.as_fake().context(FAKE_ONLY)?;
    fake.faults().add(Fault::on("list", "pods", Effect::ResetBefore).always());
    let looks = scene.sent("list", "pods")?;
    // The kubelet ends the pod now.
    fake.edit("pods", &scene.place.namespace, "a", |pod| {
        pod["metadata"]["annotations"][fake_cluster::GONE_AFTER] = json!("0");
    })?;
    let has_failed = || Some(()).filter(|()| scene.sent("list", "pods").unwrap() >= looks + 2);
    until(&mut drain, "two proofs have failed", |_| has_failed()).await?;
    assert_eq!((drain.progress().left, drain.ended()), (0, None));
    fake.faults().clear();
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

/// A relist contains the budgets of the snapshot that existed when it was sent. When its answer is late, the watches
/// may have shown newer budgets, and those must stay: nothing else tells a blocked pod that its budget has room. After
/// an outage relists and watches come back together (`the_server_goes_in_the_middle`).
pub(crate) async fn a_late_relist_brings_no_old_budget_back(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t56").await?;
    scene.place.pods(&[("a", ReadyForLong)]).await?;
    scene.place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let mut drain = scene.drain(patient());
    until(&mut drain, "the budget refuses", |drain| is_blocked(drain, "a").then_some(())).await?;
    let late = Fault::on("get", "nodes", Effect::Delay(Duration::from_millis(500)));
    target.as_fake().context(FAKE_ONLY)?.faults().add(late);
    let looks = scene.sent("get", "nodes")?;
    // The watches have been silent for a long time.
    turn(Duration::from_mins(1));
    let is_looking = || Some(()).filter(|()| scene.sent("get", "nodes").unwrap() > looks);
    while is_looking().is_none() {
        tokio::time::timeout(Duration::from_millis(10), drain.next()).await.ok();
    }
    scene.free("p").await?;
    let knows_budget = |drain: &Drain| {
        let snapshot = attempt(drain.state()).and_then(|attempt| attempt.snapshot().cloned());
        snapshot
            .is_some_and(|snapshot| snapshot.budgets.iter().any(|one| one.namespace == scene.place.namespace))
    };
    until(&mut drain, "the budget is gone", |drain| (!knows_budget(drain)).then_some(())).await?;
    let back = until(&mut drain, "it is back", |drain| knows_budget(drain).then_some(()));
    let back = tokio::time::timeout(Duration::from_secs(2), back).await;
    assert!(back.is_err(), "a late relist has brought the budget back");
    Ok(())
}

/// The budget never becomes healthy, and the drain reports which pod it waits for and why; it does not succeed because
/// of that.
pub(crate) async fn replacements_have_no_place(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t57").await?;
    scene.place.create("deployments", &objects::deployment("web", 2, &scene.place.namespace)).await?;
    let budget = objects::budget("web", "web", &json!({"maxUnavailable": 1}));
    scene.place.create("poddisruptionbudgets", &budget).await?;
    scene.place.until_budget("web", [2, 2, 1, 1]).await?;
    let mut drain = scene.drain(patient());
    let is_refused = |drain: &Drain| (drain.progress().gone == 1 && drain.blocked().len() == 1).then_some(());
    until(&mut drain, "one is gone, and the other one blocked", is_refused).await?;
    let has_no_place = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|one| one["type"] == "PodScheduled" && one["status"] == "False")
    };
    let is_known = |pods: &Objects| pods.values().any(has_no_place).then_some(());
    let pods = scene.place.path("pods");
    scene.place.caller().until_all("the scheduler has found no node", &pods, "", is_known).await?;
    turn(Duration::from_secs(15));
    let named = |drain: &Drain| {
        let blocked = drain.blocked().into_iter().next()?;
        let unhealthy = blocked.budgets.first()?.unhealthy.first()?.clone();
        Some((blocked, unhealthy))
    };
    let (blocked, unhealthy) = until(&mut drain, "it is found out why", named).await?;
    assert!(unhealthy.contains(" on no node: 0/"), "{unhealthy}");
    assert!(blocked.hint.contains("a replacement has to become Ready first"), "{blocked:?}");
    turn(patient().attempt_timeout);
    assert_eq!(end(&mut drain).await?, Outcome::Failed(Failure::Deadline));
    assert!(scene.is_untouched(&blocked.pod.name).await?);
    Ok(())
}

/// The drain then does not wait for volumes to be attached elsewhere: that would take an hour.
pub(crate) async fn volumes_have_no_other_place(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t57").await?;
    let (disks, node) = (Disks::new(&scene.place).await?, scene.place.node.as_str());
    disks.set_with_disk("first", node).await?;
    disks.set_with_disk("second", node).await?;
    let others = |nodes: &Objects| Some(nodes.keys().filter(|name| *name != node).cloned().collect());
    let others: Vec<String> =
        scene.place.caller().until_all("the nodes", "/api/v1/nodes", "", others).await?;
    for other in others {
        scene.cordon_by_hand(&other, true).await?;
    }
    let mut drain = scene.drain(patient());
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(drain.progress().gone, 2);
    Ok(())
}
