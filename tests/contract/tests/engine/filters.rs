//! Which pods leave, which stay, which forbid the drain, and all reasons for that.
//!
//! `an_orphan_of_a_daemon_set` needs a frozen garbage collector, because that deletes a pod whose owner does not exist.

use anyhow::{Context, Result};
use cluster::Drainer;
use cluster::drainer::Drain;
use contract::PodState::{Ready, ReadyForLong};
use contract::objects::{self, Kubelet};
use contract::{Objects, Target};
use drain::plan::{DRAIN_LABEL, Reason, Verdict};
use drain::state::Failure;
use drain::{Outcome, Policy};
use serde_json::{Value, json};

use crate::disks::{Disks, claim_spec};
use crate::scene::{Scene, end, is_detaching, line, patient, until};

/// kubectl's defaults: no force, and nothing is ignored.
fn strict() -> Policy {
    Policy { settle: patient().settle, volumes: patient().volumes, ..Policy::kubectl() }
}

/// Creates a pod on the scene's node, changed by `change`, and waits until it runs.
async fn pod(scene: &Scene<'_>, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
    let mut pod = objects::bound_pod(name, &scene.place.node, Kubelet::Quick);
    change(&mut pod);
    scene.place.create("pods", &pod).await?;
    let is_running = |pod: &Value| (pod["status"]["phase"] == "Running").then_some(());
    scene.place.until("the pod runs", &format!("pods/{name}"), is_running).await
}

fn add_empty_dir(pod: &mut Value, source: &Value) {
    pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": source}]);
}

fn owned_by(pod: &mut Value, api_version: &str, kind: &str, name: &str, uid: &str) {
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}]);
}

/// The verdict on a pod and its reasons, as soon as the drain has one.
async fn judged(drain: &mut Drain, pod: &str) -> Result<(Verdict, Vec<Reason>)> {
    let line = until(drain, "the pod is judged", |drain| line(drain, pod)).await?;
    Ok((line.verdict, line.reasons))
}

/// Checks that this policy refuses the pod for these reasons, and that nothing is evicted.
async fn refuses(scene: &Scene<'_>, policy: Policy, pod: &str, reasons: &[Reason]) -> Result<()> {
    let before = scene.sent("create", "pods/eviction")?;
    let mut drain = scene.drain(policy);
    assert_eq!(judged(&mut drain, pod).await?, (Verdict::Refuse, reasons.to_vec()));
    assert_eq!(end(&mut drain).await?, Outcome::Failed(Failure::Refused));
    let blocked = drain.blocked();
    let blocked = blocked.iter().find(|blocked| blocked.pod.name == pod).context("nothing is said")?;
    for reason in reasons {
        assert!(blocked.cause.contains(&reason.to_string()), "{reason}: {blocked:?}");
    }
    assert_eq!(scene.sent("create", "pods/eviction")?, before);
    assert!(scene.is_untouched(pod).await?);
    Ok(())
}

/// Checks that this policy evicts the pod, with these warnings.
async fn evicts(scene: &Scene<'_>, policy: Policy, pod: &str, reasons: &[Reason]) -> Result<()> {
    let mut drain = scene.drain(policy);
    assert_eq!(judged(&mut drain, pod).await?, (Verdict::Evict, reasons.to_vec()));
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    scene.place.until_gone(&format!("pods/{pod}")).await
}

pub(crate) async fn an_orphan_of_a_daemon_set(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t29").await?;
    target.pause_controller_manager()?;
    pod(&scene, "a", |pod| {
        owned_by(pod, "apps/v1", "DaemonSet", "ghost", "00000000-0000-4000-8000-00000000dead");
        add_empty_dir(pod, &json!({}));
    })
    .await?;
    let orphan = Reason::OrphanOfDaemonSet("ghost".to_owned());
    let unforced = Policy { force: false, ..patient() };
    refuses(&scene, unforced, "a", std::slice::from_ref(&orphan)).await?;
    refuses(&scene, strict(), "a", &[orphan.clone(), Reason::EmptyDir]).await?;
    evicts(&scene, patient(), "a", &[orphan, Reason::EmptyDir]).await?;
    target.resume_controller_manager()
}

/// The DaemonSet counts as existing: its controller would create the pod again at once.
pub(crate) async fn a_daemon_set_that_cannot_be_read(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t30").await?;
    scene.place.create("daemonsets", &objects::daemon_set("agent", &scene.place.namespace)).await?;
    let running = |pods: &Objects| {
        pods.iter().find(|(_, pod)| pod["status"]["phase"] == "Running").map(|(name, _)| name.clone())
    };
    let path = scene.place.path("pods");
    let agent =
        scene.place.caller().until_all("the agent runs", &path, "labelSelector=app=agent", running).await?;
    scene.place.pods(&[("a", Ready)]).await?;

    let user = format!("{}-user", scene.place.namespace);
    let client = target.client_without(&user, "get", "daemonsets").await?;
    let drain = |policy| Drainer::new(client.cluster().clone(), policy).drain(&scene.place.node);
    let mut refused = drain(Policy { force: true, ..strict() });
    assert_eq!(judged(&mut refused, &agent).await?, (Verdict::Refuse, vec![Reason::DaemonSet]));
    assert_eq!(end(&mut refused).await?, Outcome::Failed(Failure::Refused));
    assert_eq!(client.changes()?.iter().filter(|asked| asked.resource != "nodes").count(), 0);
    assert!(scene.is_untouched("a").await?);

    let mut ignored = drain(patient());
    assert_eq!(judged(&mut ignored, &agent).await?, (Verdict::Leave, vec![Reason::DaemonSet]));
    assert_eq!(end(&mut ignored).await?, Outcome::Drained);
    assert!(scene.is_untouched(&agent).await?);
    scene.place.until_gone("pods/a").await?;
    let asked = client.asked()?;
    assert!(asked.iter().any(|asked| asked.resource == "daemonsets" && asked.name == "agent"), "{asked:?}");
    Ok(())
}

/// Only `apps/v1` counts: controllers of others are ordinary owners, and the drain does not read them.
pub(crate) async fn a_third_partys_daemon_set(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t31").await?;
    let owner = scene.place.create("configmaps", &json!({"metadata": {"name": "owner"}})).await?;
    let uid = owner["metadata"]["uid"].as_str().context("no UID")?;
    for (name, policy) in [("a", strict()), ("b", patient())] {
        pod(&scene, name, |pod| owned_by(pod, "apps.kruise.io/v1alpha1", "DaemonSet", "agent", uid)).await?;
        evicts(&scene, policy, name, &[]).await?;
        scene.cordon_by_hand(&scene.place.node, false).await?;
    }
    assert_eq!(scene.sent("get", "daemonsets")?, 0);
    Ok(())
}

/// An ephemeral volume is no local data, but a volume: it has to be detached.
pub(crate) async fn a_pod_with_an_ephemeral_volume(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t35").await?;
    let disks = Disks::new(&scene.place).await?;
    let volume = disks.volume_for("a-scratch", "handle").await?;
    let template = json!({"spec": claim_spec(&volume)});
    pod(&scene, "a", |pod| {
        pod["spec"]["volumes"] = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
    })
    .await?;
    disks.until_attached(&volume, &scene.place.node).await?;
    disks.hold(&volume, &scene.place.node).await?;

    let mut drain = scene.drain(Policy { force: true, ..strict() });
    assert_eq!(judged(&mut drain, "a").await?, (Verdict::Evict, vec![Reason::NoController]));
    until(&mut drain, "its volume is left", |drain| is_detaching(drain, &volume).then_some(())).await?;
    disks.release(&volume, &scene.place.node).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

/// kubectl shows only the last warning.
pub(crate) async fn all_warnings_are_kept(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t36").await?;
    pod(&scene, "a", |pod| {
        add_empty_dir(pod, &json!({}));
        pod["metadata"]["labels"][DRAIN_LABEL] = json!("perhaps");
    })
    .await?;
    let both = [Reason::EmptyDir, Reason::NoController];
    refuses(&scene, strict(), "a", &both).await?;
    scene.place.pods(&[("b", ReadyForLong)]).await?;
    let unknown = Reason::UnknownLabel("perhaps".to_owned());
    let all: Vec<Reason> = both.into_iter().chain([unknown]).collect();
    let mut drain = scene.drain(patient());
    assert_eq!(judged(&mut drain, "a").await?, (Verdict::Evict, all));
    assert_eq!(judged(&mut drain, "b").await?, (Verdict::Evict, vec![Reason::NoController]));
    scene.place.until_gone("pods/a").await?;
    until(&mut drain, "b is evicted", |drain| crate::scene::is_terminating(drain, "b").then_some(())).await?;
    scene.kill("b").await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}
