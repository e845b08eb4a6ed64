//! Calls that the server receives and never answers: each is given up after its own time limit, the drain reports what
//! it waits for, and it goes on when the server answers again.
//!
//! Only on the fake: the real server answers every call that it has received. (`hold_evictions` and `hold_node` of the
//! other cases keep single writes waiting there, for 30 s at most; a cordon that hangs is
//! `a_deadline_while_cordoning`.)

use std::time::Duration;

use anyhow::{Context, Result};
use cluster::drainer::Drain;
use contract::PodState::Ready;
use contract::{Change, Target};
use drain::Outcome;
use drain::policy::STALE_SCHEDULER;
use drain::state::Stage;
use fake_cluster::{Effect, FakeCluster, Fault, GONE_AFTER};
use serde_json::json;
use tokio::time::timeout;

use crate::outages::{FAKE_ONLY, is_away};
use crate::scene::{
    PASSING, Scene, end, expire, is_half_proven, patient, says, stage, turn, until, until_relisted,
};
use crate::stages::{At, reach};

/// Time limit of an eviction.
const EVICTION_DEADLINE: Duration = Duration::from_secs(35);

/// Lets the kubelet end the pod that it did not end before.
fn end_pod(fake: &FakeCluster, scene: &Scene<'_>, pod: &str) -> Result<()> {
    fake.edit("pods", &scene.place.namespace, pod, |pod| {
        pod["metadata"]["annotations"][GONE_AFTER] = json!("0");
    })?;
    Ok(())
}

pub(crate) async fn a_proof_that_is_never_answered_is_asked_for_again(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "hang").await?;
    let fake = target.as_fake().context(FAKE_ONLY)?;
    let mut drain = reach(&scene, At::Terminating).await?;
    scene.fails(fake, Fault::on("list", "pods", Effect::Hang));
    let looks = scene.sent("list", "pods")?;
    end_pod(fake, &scene, "a")?;
    let is_said = |drain: &Drain| says(drain, "cannot list pods: no answer within 10 s").ok();
    until(&mut drain, "the drain reports what it waits for", is_said).await?;
    assert_eq!((drain.progress().left, drain.ended()), (0, None));
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(scene.sent("list", "pods")?, looks + 2);
    Ok(())
}

/// Neither the final check nor the probe is answered: the drain's clocks stop, and the check is done when the server is
/// back.
pub(crate) async fn a_node_that_is_never_answered_is_an_outage(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "hang").await?;
    let fake = target.as_fake().context(FAKE_ONLY)?;
    let mut drain = reach(&scene, At::Terminating).await?;
    scene.fails(fake, Fault::on("get", "nodes", Effect::Hang).always());
    end_pod(fake, &scene, "a")?;
    until(&mut drain, "it counts as away", |drain| is_away(drain).then_some(())).await?;
    says(&drain, "no answer within 10 s")?;
    assert_eq!((drain.progress().left, drain.ended()), (0, None));
    fake.faults().clear();
    until(&mut drain, "it is back", |drain| (!is_away(drain)).then_some(())).await?;
    until(&mut drain, "the node looks empty", |drain| is_half_proven(drain).then_some(())).await?;
    turn(STALE_SCHEDULER);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

pub(crate) async fn an_eviction_that_is_never_answered_is_sent_again(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "hang").await?;
    scene.place.pods(&[("a", Ready)]).await?;
    scene.fails(target.as_fake().context(FAKE_ONLY)?, Fault::on("create", "pods/eviction", Effect::Hang));
    let mut drain = scene.drain(patient());
    until(&mut drain, "it is sent", |drain| (stage(drain, "a") == Some(Stage::Evicting)).then_some(()))
        .await?;
    let words = |drain: &Drain| {
        let Some(Stage::Paused { text, .. }) = stage(drain, "a") else { return None };
        Some(text)
    };
    while scene.sent("create", "pods/eviction")? == 0 {
        tokio::task::yield_now().await;
    }
    expire(EVICTION_DEADLINE).await;
    let words = until(&mut drain, "it is given up", words).await?;
    assert!(words.contains("no answer within 35 s"), "{words}");
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(scene.sent("create", "pods/eviction")?, 2);
    Ok(())
}

/// The eviction had its effect, and the watch shows it.
pub(crate) async fn an_eviction_whose_answer_is_lost_is_not_waited_for(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "hang").await?;
    scene.place.pods(&[("a", Ready)]).await?;
    let lost = Fault::on("create", "pods/eviction", Effect::HangAfter).always();
    scene.fails(target.as_fake().context(FAKE_ONLY)?, lost);
    let begun = tokio::time::Instant::now();
    assert_eq!(end(&mut scene.drain(patient())).await?, Outcome::Drained);
    assert!(begun.elapsed() < EVICTION_DEADLINE, "the answer was waited for");
    assert_eq!(scene.sent("create", "pods/eviction")?, 1);
    Ok(())
}

/// The watches stay open, like connections whose other end is gone without closing them.
pub(crate) async fn watches_that_fall_silent_are_made_up_for_by_relists(target: &Target) -> Result<()> {
    let fake = target.as_fake().context(FAKE_ONLY)?;
    for at in [At::Terminating, At::Detaching] {
        let scene = Scene::new(target, "silent").await?;
        let mut drain = reach(&scene, at).await?;
        fake.faults().silence_watches(None);
        end_pod(fake, &scene, "a")?;
        for attachment in fake.list("volumeattachments", None) {
            let name = attachment["metadata"]["name"].as_str().context("no name")?;
            let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{name}");
            let free = json!({"metadata": {"finalizers": null}});
            scene.place.caller().patch(&path, Change::Merge, &free).await?.object()?;
        }
        assert!(timeout(PASSING, end(&mut drain)).await.is_err(), "{at:?}: the drain cannot have seen it");
        let ended = until_relisted(&mut drain, "it ends", |drain| drain.ended().cloned()).await??;
        assert_eq!(ended, Outcome::Drained, "{at:?}");
        fake.faults().clear();
    }
    Ok(())
}
