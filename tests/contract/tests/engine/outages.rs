//! The API server is away, or no other node accepts pods.

use std::time::Duration;

use anyhow::{Context, Result};
use cluster::drainer::Drain;
use contract::{Objects, Target, objects};
use drain::Outcome;
use drain::progress::attempt;
use drain::state::Failure;
use serde_json::{Value, json};

use crate::scene::{Scene, end, is_half_proven, is_terminating, patient, turn, until};
use crate::stages::{At, reach};

pub(crate) const FAKE_ONLY: &str = "for the fake only";

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
