//! Deadlines, cancelling, restarts, cordons, order, limits, dry runs.

use std::time::Duration;

use anyhow::{Context, Result};
use cluster::cordon::Marks;
use cluster::cordon::PriorCordon;
use cluster::drainer::Drain;
use cluster::evict::{would_delete, would_evict};
use cluster::{CordonFailure, Drainer, Uncordoned, full_snapshot, uncordon, would_cordon};
use contract::PodState::{Ready, ReadyForLong};
use contract::Target;
use contract::driving::count;
use contract::objects::Kubelet;
use drain::policy::MaxRetries;
use drain::state::{Failure, Stage};
use drain::{Answer, Outcome, Policy, plan};
use serde_json::{Value, json};

use crate::disks::Disks;
use crate::scene::{
    Scene, cordon_of, drainer_of, end, is_blocked, is_detaching, is_terminating, is_waiting, patient, stage,
    told, turn, until, volume,
};
use crate::stages::{self, At, free, reach};

/// After this time without a request a dropped drain counts as silent.
const SILENCE: Duration = Duration::from_secs(1);

/// If an attempt's time ends, the attempt has failed, whatever else has ended too. No pod is left, and the failure does
/// not claim that there is one.
pub(crate) async fn a_deadline_while_proving(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t47").await?;
    let mut drain = reach(&scene, At::Verifying).await?;
    turn(stages::policy().attempt_timeout);
    let outcome = end(&mut drain).await?;
    assert!(matches!(&outcome, Outcome::Failed(Failure::Unproven(_))), "{outcome:?}");
    assert!(scene.is_cordoned().await?);
    Ok(())
}

/// The call's own time limit (10 s) ends it: the attempt has not begun.
pub(crate) async fn a_deadline_while_cordoning(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t47").await?;
    scene.place.pods(&[("a", Ready)]).await?;
    let held = target.hold_node(&scene.place.namespace, &scene.place.node).await?;
    let failure = scene.drain(stages::policy()).outcome().await.unwrap_err();
    assert!(matches!(&failure, CordonFailure::Api(failure) if failure.is_unreachable()), "{failure}");
    held.let_go();
    assert_eq!(scene.sent("create", "pods/eviction")?, 0);
    assert!(scene.is_untouched("a").await?);
    Ok(())
}

pub(crate) async fn a_deadline_while_the_server_is_busy(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t47").await?;
    scene.place.pods(&[("a", Ready)]).await?;
    // The server never refuses administrators; the missing right is not needed here.
    let user = format!("{}-user", scene.place.namespace);
    let client = target.client_without(&user, "get", "daemonsets").await?;
    let busy = target.make_busy(&user, &scene.place.namespace).await?;
    let mut drain = drainer_of(&client, stages::policy()).drain(&scene.place.node);
    let is_paused = |drain: &Drain| matches!(stage(drain, "a"), Some(Stage::Paused { .. })).then_some(());
    until(&mut drain, "the server is busy", is_paused).await?;
    turn(stages::policy().attempt_timeout);
    assert_eq!(end(&mut drain).await?, Outcome::Failed(Failure::Deadline));
    busy.end().await?;
    assert!(scene.is_untouched("a").await?);
    Ok(())
}

/// A drain that is dropped at a stage sends nothing more, even when the obstacle is removed. Dropping takes effect at
/// once.
async fn cancel(target: &Target, at: At) -> Result<()> {
    let scene = Scene::new(target, "t48").await?;
    let drain = reach(&scene, at).await?;
    until_all_watch(&scene).await?;
    drop(drain);
    let before = scene.client.asked()?.len();
    free(&scene, at).await?;
    is_silent(&scene, before).await?;
    assert!(scene.is_cordoned().await?, "the cordon stays");
    Ok(())
}

/// Waits until each list of a feed is followed by its watch, because a request under way may still arrive later.
async fn until_all_watch(scene: &Scene<'_>) -> Result<()> {
    loop {
        let asked = scene.client.asked()?;
        let has_claims = asked.iter().any(|asked| asked.resource == "persistentvolumeclaims");
        let watches = asked.iter().filter(|asked| asked.verb == "watch").count();
        if watches >= if has_claims { 5 } else { 3 } {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Number of requests after all those under way have arrived.
async fn settled(scene: &Scene<'_>) -> Result<usize> {
    tokio::time::sleep(SILENCE).await;
    Ok(scene.client.asked()?.len())
}

/// Checks that the scene's client sends nothing, although every open watch breaks.
async fn is_silent(scene: &Scene<'_>, before: usize) -> Result<()> {
    if let Some(fake) = scene.target.as_fake() {
        fake.faults().cut_watches(None);
    }
    tokio::time::sleep(SILENCE).await;
    let after = scene.client.asked()?;
    assert_eq!(after.get(before..), Some([].as_slice()));
    Ok(())
}

pub(crate) async fn a_cancel_while_blocked(target: &Target) -> Result<()> {
    cancel(target, At::Blocked).await
}

pub(crate) async fn a_cancel_while_detaching(target: &Target) -> Result<()> {
    cancel(target, At::Detaching).await
}

/// Runs a drain until the fake has received this number of these requests, and drops it then.
async fn drop_at(scene: &Scene<'_>, verb: &str, resource: &str, number: usize) -> Result<()> {
    let received = async {
        while scene.sent(verb, resource)? < number {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        outcome = scene.drain(patient()).outcome() => anyhow::bail!("it has ended: {outcome:?}"),
        received = received => received,
    }
}

/// The call under way is given up as well: it has no effect when the server goes on.
pub(crate) async fn a_cancel_while_cordoning(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t48").await?;
    let held = target.hold_node(&scene.place.namespace, &scene.place.node).await?;
    drop_at(&scene, "patch", "nodes", 1).await?;
    let before = settled(&scene).await?;
    held.let_go();
    is_silent(&scene, before).await?;
    assert!(!scene.is_cordoned().await?);
    Ok(())
}

pub(crate) async fn a_cancel_while_evicting(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t48").await?;
    scene.place.pods(&[("a", Ready), ("b", Ready)]).await?;
    let held = target.hold_evictions(&scene.place.namespace).await?;
    drop_at(&scene, "create", "pods/eviction", 2).await?;
    let before = settled(&scene).await?;
    held.let_go();
    is_silent(&scene, before).await?;
    assert!(scene.is_untouched("a").await? && scene.is_untouched("b").await?);
    Ok(())
}

/// The first refusal is enough: the pod is deleted with its own grace, without asking the budget. The drain does not
/// hang (MCM's does).
pub(crate) async fn no_retries(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t49").await?;
    scene.place.pods(&[("a", ReadyForLong)]).await?;
    scene.place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let mut drain = scene.drain(Policy { max_retries: MaxRetries::Times(0), ..patient() });
    until(&mut drain, "a is on its way", |drain| is_terminating(drain, "a").then_some(())).await?;
    let pod = scene.place.get("pods/a").await?;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30, "its own");
    let changes = scene.client.changes()?;
    let to_pods: Vec<_> = changes.iter().filter(|asked| asked.resource != "nodes").collect();
    let words: Vec<_> = to_pods.iter().map(|asked| (asked.verb.as_str(), asked.resource.as_str())).collect();
    assert_eq!(words, [("create", "pods/eviction"), ("delete", "pods")]);
    scene.kill("a").await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

pub(crate) async fn a_restart_keeps_the_deadline(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t50").await?;
    let mut first = reach(&scene, At::Blocked).await?;
    let whole = stages::policy().attempt_timeout;
    turn(whole / 2);
    first.next().await.context("it has ended")?;
    let record = first.record().context("nothing to go on with")?;
    drop(first);

    let mut second = scene.drainer(stages::policy()).resuming(record.clone()).drain(&scene.place.node);
    until(&mut second, "it is refused again", |drain| is_blocked(drain, "a").then_some(())).await?;
    assert_eq!(cordon_of(&second)?.before(), PriorCordon::Ours);
    let kept = second.record().context("nothing to go on with")?;
    assert_eq!((kept.started, kept.deadline), (record.started, record.deadline));
    assert_eq!(kept.refused_since, record.refused_since);
    turn(whole / 2);
    assert_eq!(end(&mut second).await?, Outcome::Failed(Failure::Deadline));
    assert!(scene.is_untouched("a").await?);
    Ok(())
}

/// Another process continues the drain. The volume's pod is gone, so nothing on the node refers to the volume any more.
pub(crate) async fn a_restart_keeps_the_volumes(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t50").await?;
    let first = reach(&scene, At::Detaching).await?;
    let volume = format!("{}-a", scene.place.namespace);
    let record = first.record().context("nothing to go on with")?;
    drop(first);
    let mut drain = scene.drainer(patient()).resuming(record).drain(&scene.place.node);
    until(&mut drain, "the volume is known", |drain| is_detaching(drain, &volume).then_some(())).await?;
    for _ in 0..2 {
        let looks = scene.sent("list", "volumeattachments")?;
        turn(Duration::from_mins(1));
        let has_looked = || Some(()).filter(|()| scene.sent("list", "volumeattachments").unwrap() > looks);
        until(&mut drain, "the drain lists the attachments again", |_| has_looked()).await?;
        assert!(is_detaching(&drain, &volume), "{}", told(&drain));
    }
    Disks::of(&scene.place).release(&volume, &scene.place.node).await?;
    turn(Duration::from_mins(1));
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

pub(crate) async fn somebody_elses_cordon_stays(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t51").await?;
    let (cluster, node) = (scene.client.cluster(), scene.place.node.as_str());
    scene.cordon_by_hand(node, true).await?;
    let cancelled = reach(&scene, At::Blocked).await?;
    let cordoned = cordon_of(&cancelled)?;
    assert_eq!(cordoned.before(), PriorCordon::Foreign);
    assert_eq!(cordoned.to_string(), format!("node {node} already cordoned by another owner"));
    drop(cancelled);
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::NotOurs);
    assert!(scene.is_cordoned().await?);

    scene.free("p").await?;
    let mut drain = scene.drain(patient());
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::NotOurs);
    assert!(scene.is_cordoned().await?);
    assert_eq!(scene.sent("patch", "nodes")?, 0);
    Ok(())
}

pub(crate) async fn no_right_to_cordon(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t52").await?;
    scene.place.pods(&[("a", Ready)]).await?;
    let user = format!("{}-user", scene.place.namespace);
    let client = target.client_without(&user, "patch", "nodes").await?;
    let drain = Drainer::new(client.cluster().clone(), patient()).drain(&scene.place.node);
    let failure = drain.outcome().await.unwrap_err().to_string();
    assert!(failure.contains("needs the right to `patch` `nodes`"), "{failure}");
    assert_eq!(count(&client, "create", "pods/eviction")?, 0);
    assert!(scene.is_untouched("a").await? && !scene.is_cordoned().await?);
    Ok(())
}

pub(crate) async fn an_order_waits_for_volumes(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t53").await?;
    let (disks, node) = (Disks::new(&scene.place).await?, scene.place.node.as_str());
    let held = disks.pod_with_disk("a", Kubelet::Quick).await?;
    disks.hold(&held, node).await?;
    scene.place.pods(&[("b", Ready)]).await?;
    scene.label("b", json!({"tier": "late"})).await?;
    let mut drain = scene.drain(stages::policy());
    let left = |drain: &Drain| volume(drain, &held).filter(|line| line.stage == "Detaching").map(drop);
    until(&mut drain, "a's volume is left", left).await?;
    assert!(is_waiting(&drain, "b"), "{}", told(&drain));
    assert!(scene.is_untouched("b").await?);
    disks.release(&held, node).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    scene.place.until_gone("pods/b").await
}

/// Creates this number of pods that end quickly.
pub(crate) async fn crowd(scene: &Scene<'_>, number: usize) -> Result<()> {
    let names: Vec<String> = (0..number).map(|number| format!("pod-{number}")).collect();
    let pods: Vec<_> = names.iter().map(|name| (name.as_str(), Ready)).collect();
    scene.place.pods(&pods).await.map(drop)
}

/// Runs the drain to its end; returns the greatest number of evictions that it had under way.
async fn most_at_a_time(mut drain: Drain) -> Result<usize> {
    let mut most = 0;
    let sending =
        |drain: &Drain| drain.lines().iter().filter(|line| line.stage == Some(Stage::Evicting)).count();
    let over = |drain: &Drain| {
        most = most.max(sending(drain));
        drain.ended().map(drop)
    };
    until(&mut drain, "it ends", over).await?;
    assert_eq!(drain.outcome().await?, Outcome::Drained);
    Ok(most)
}

pub(crate) async fn the_concurrency_is_limited(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t54").await?;
    crowd(&scene, 8).await?;
    let drain = scene.drain(Policy { concurrency: 2, ..patient() });
    assert_eq!(most_at_a_time(drain).await?, 2);
    assert_eq!(scene.sent("create", "pods/eviction")?, 8);
    Ok(())
}

/// For one budget there are never more than three evictions under way.
pub(crate) async fn a_budgets_share_is_limited(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t54").await?;
    crowd(&scene, 8).await?;
    scene.place.budget("p", &json!({"minAvailable": 0}), [8, 8, 0, 8]).await?;
    assert_eq!(most_at_a_time(scene.drain(patient())).await?, 3);
    Ok(())
}

pub(crate) async fn a_dry_run_changes_nothing(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t55").await?;
    let (cluster, node) = (scene.client.cluster(), scene.place.node.as_str());
    scene.place.pods(&[("a", Ready), ("free", Ready)]).await?;
    scene.label("free", json!({"app": "free"})).await?;
    scene.place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let before = all_of(&scene).await?;

    assert_eq!(
        would_cordon(cluster, node, "zedkube", "test", Marks::Required).await?,
        PriorCordon::Schedulable
    );
    let snapshot = full_snapshot(cluster, node).await?;
    let leaving: Vec<_> =
        plan(&snapshot, &patient()).into_iter().filter(drain::Planned::must_leave).collect();
    let mut answers = Vec::new();
    for pod in &leaving {
        answers.push((pod.id.name.as_str(), would_evict(cluster, &pod.id, None).await));
    }
    assert!(matches!(&answers[..], [("a", Answer::Budget(_)), ("free", Answer::Accepted)]), "{answers:?}");
    assert_eq!(scene.client.changes()?, []);
    for pod in &leaving {
        assert_eq!(would_delete(cluster, &pod.id, None).await, Answer::Accepted);
    }
    assert_eq!(all_of(&scene).await?, before);
    Ok(())
}

/// The pods, the budget, and the part of the node that a cordon would change.
async fn all_of(scene: &Scene<'_>) -> Result<[Value; 3]> {
    let pods = scene.place.get("pods").await?;
    let budget = scene.place.get("poddisruptionbudgets/p").await?;
    let node = scene.place.caller().get(&scene.place.node_path()).await?.object()?;
    let of_node = json!({"spec": node["spec"], "annotations": node["metadata"]["annotations"]});
    Ok([pods["items"].clone(), budget, of_node])
}
