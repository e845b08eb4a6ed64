//! Drains that have reached a stage and are held there until the case lets them go on.

use std::time::Duration;

use anyhow::Result;
use cluster::drainer::Drain;
use contract::PodState::{Ready, ReadyForLong};
use contract::objects::{self, Kubelet};
use drain::policy::{OnDetachTimeout, Volumes};
use drain::rule::Rule;
use drain::{Policy, Requirement, Selector};
use serde_json::json;

use crate::disks::Disks;
use crate::scene::{Scene, is_blocked, is_detaching, is_half_proven, is_terminating, patient, until};

/// The stage in which a drain is held, and what holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Budget `p` refuses the eviction of pod `a`.
    Blocked,
    /// Pod `a` does not end.
    Terminating,
    /// Pod `a` is gone, and its volume is not detached.
    Detaching,
    /// All pods are gone, and the second final check is an hour away because a pod came late.
    Verifying,
}

/// The policy of these stages. A late volume does not fail the attempt: only its deadline does.
pub(crate) fn policy() -> Policy {
    let patient = patient();
    Policy {
        settle: Duration::from_hours(1),
        rules: vec![later("late", 1)],
        volumes: Volumes { on_detach_timeout: OnDetachTimeout::Proceed, ..patient.volumes },
        ..patient
    }
}

/// A rule: pods whose label `tier` has this value have this order.
fn later(tier: &str, order: i32) -> Rule {
    let requirements = vec![Requirement::In("tier".to_owned(), vec![tier.to_owned()])];
    Rule { name: tier.to_owned(), selector: Some(Selector { requirements }), order, ..Rule::default() }
}

/// Begins a drain by [`policy`] and runs it until it reaches this stage.
pub(crate) async fn reach(scene: &Scene<'_>, at: At) -> Result<Drain> {
    match at {
        At::Blocked => blocked(scene).await,
        At::Terminating => terminating(scene).await,
        At::Detaching => detaching(scene).await,
        At::Verifying => proving(scene).await,
    }
}

/// Removes what holds the drain in this stage: a drain that still runs goes on at once.
pub(crate) async fn free(scene: &Scene<'_>, at: At) -> Result<()> {
    match at {
        At::Blocked => scene.free("p").await,
        At::Terminating => scene.kill("a").await,
        At::Detaching => Disks::of(&scene.place).release(&volume(scene), &scene.place.node).await,
        At::Verifying => {
            crate::scene::turn(policy().settle);
            Ok(())
        }
    }
}

/// Name of the volume of pod `a`.
fn volume(scene: &Scene<'_>) -> String {
    format!("{}-a", scene.place.namespace)
}

async fn blocked(scene: &Scene<'_>) -> Result<Drain> {
    scene.place.pods(&[("a", Ready)]).await?;
    scene.place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let mut drain = scene.drain(policy());
    until(&mut drain, "the budget refuses", |drain| is_blocked(drain, "a").then_some(())).await?;
    Ok(drain)
}

async fn terminating(scene: &Scene<'_>) -> Result<Drain> {
    scene.place.pods(&[("a", ReadyForLong)]).await?;
    let mut drain = scene.drain(policy());
    until(&mut drain, "a is on its way", |drain| is_terminating(drain, "a").then_some(())).await?;
    Ok(drain)
}

async fn detaching(scene: &Scene<'_>) -> Result<Drain> {
    let disks = Disks::new(&scene.place).await?;
    let volume = disks.pod_with_disk("a", Kubelet::Quick).await?;
    disks.hold(&volume, &scene.place.node).await?;
    let mut drain = scene.drain(policy());
    until(&mut drain, "a's volume is left", |drain| is_detaching(drain, &volume).then_some(())).await?;
    Ok(drain)
}

async fn proving(scene: &Scene<'_>) -> Result<Drain> {
    let mut drain = terminating(scene).await?;
    let late = objects::bound_pod("late", &scene.place.node, Kubelet::NeverEnds);
    scene.place.create("pods", &late).await?;
    until(&mut drain, "the late pod is seen", |drain| is_terminating(drain, "late").then_some(())).await?;
    scene.kill("a").await?;
    scene.kill("late").await?;
    until(&mut drain, "the node looks empty", |drain| is_half_proven(drain).then_some(())).await?;
    Ok(drain)
}
