//! Volumes.
//!
//!
//! A finalizer of the case on a VolumeAttachment holds the volume at its node: on both servers the detach begins, and
//! ends when the case says so.
//!
//! Only on the fake: `no_attachments_are_served`. VolumeAttachments are a part of every server of version 1.34; only the server's command
//! line, which is the same for all tests, could leave them out. (A missing right is answered with 403, which means
//! something else.)

use std::time::Duration;

use anyhow::Result;
use cluster::drainer::Drain;
use contract::objects::Kubelet;
use contract::{Change, Target};
use drain::plan::DRAIN_LABEL;
use drain::policy::{Stateful, StatefulParallel, Volumes};
use drain::state::Failure;
use drain::{Outcome, Policy};
use fake_cluster::Controller;
use serde_json::json;

use crate::disks::{Disks, claim_spec, touch_attachment};
use crate::scene::{Scene, end, is_detaching, is_terminating, is_waiting, patient, turn, until, volume};

/// Evicts pods with volumes all at once.
fn together() -> Policy {
    Policy { stateful: Stateful { parallel: StatefulParallel::Count(64), ..patient().stateful }, ..patient() }
}

fn is_gone(drain: &Drain, pod: &str) -> bool {
    crate::scene::line(drain, pod).is_none()
}

/// A handle is any text: it is not a pattern, and a broken pattern proves nothing.
pub(crate) async fn handles_with_characters_of_patterns(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t38").await?;
    let (disks, node) = (Disks::new(&scene.place).await?, scene.place.node.as_str());
    let mut volumes = Vec::new();
    for (pod, handle) in [("dots", "vol.1"), ("brackets", "a(b["), ("stars", "p+|.*"), ("near", "volx1")] {
        let volume = disks.disk(pod, handle).await?;
        disks.pod(pod, &[pod], Kubelet::Quick).await?;
        disks.until_attached(&volume, node).await?;
        volumes.push(volume);
    }
    scene.label("near", json!({DRAIN_LABEL: "skip"})).await?;
    let [dots, brackets, stars, near] = volumes.as_slice() else { anyhow::bail!("{volumes:?}") };
    let leaving = [dots, brackets, stars];
    for volume in leaving {
        disks.hold(volume, node).await?;
    }
    let mut drain = scene.drain(together());
    let all = |drain: &Drain| leaving.iter().all(|volume| is_detaching(drain, volume));
    until(&mut drain, "all are left", |drain| all(drain).then_some(())).await?;

    // Now only the node's list shows one of them as attached.
    for volume in leaving {
        disks.until_listed(volume, node, false).await?;
    }
    list(&scene, &disks, &[near, brackets]).await?;
    for volume in leaving {
        disks.release(volume, node).await?;
    }
    let is_listed = |drain: &Drain| {
        let [dots, brackets, stars] = leaving.map(|name| volume(drain, name));
        let held = brackets.is_some_and(|line| line.detail == "the node still lists it as attached");
        (held && dots.is_none() && stars.is_none()).then_some(())
    };
    until(&mut drain, "only the list holds it", is_listed).await?;
    list(&scene, &disks, &[near]).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    disks.until_listed(near, node, true).await
}

/// Writes the node's list of attached volumes.
async fn list(scene: &Scene<'_>, disks: &Disks<'_>, volumes: &[&String]) -> Result<()> {
    let mut all = Vec::new();
    for volume in volumes {
        all.push(json!({"name": disks.attached_name(volume).await?, "devicePath": ""}));
    }
    let path = format!("{}/status", scene.place.node_path());
    let status = json!({"status": {"volumesAttached": all}});
    scene.place.caller().patch(&path, Change::Merge, &status).await?.object().map(drop)
}

/// A volume counts when its last user is gone; then the drain waits for it.
pub(crate) async fn a_volume_of_two_local_pods(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t39").await?;
    let (disks, node) = (Disks::new(&scene.place).await?, scene.place.node.as_str());
    let shared = disks.disk("data", "handle").await?;
    disks.pod("a", &["data"], Kubelet::Quick).await?;
    disks.pod("b", &["data"], Kubelet::NeverEnds).await?;
    disks.until_attached(&shared, node).await?;
    disks.hold(&shared, node).await?;

    let mut drain = scene.drain(patient());
    let only_b = |drain: &Drain| (is_gone(drain, "a") && is_terminating(drain, "b")).then_some(());
    until(&mut drain, "a is gone and b evicted", only_b).await?;
    assert_eq!(volume(&drain, &shared), None, "b has it");
    scene.kill("b").await?;
    until(&mut drain, "the volume is left", |drain| is_detaching(drain, &shared).then_some(())).await?;
    disks.release(&shared, node).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

/// A volume that was attached before the drain began, and whose pod another client has just moved (as `kubectl drain`
/// does): the drain waits for it, names it when it takes too long, and so does the next drain.
pub(crate) async fn what_somebody_else_has_left_attached_is_waited_for(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "left").await?;
    let (disks, node) = (Disks::new(&scene.place).await?, scene.place.node.as_str());
    let left = disks.pod_with_disk("a", Kubelet::Quick).await?;
    disks.hold(&left, node).await?;
    scene.kill("a").await?;
    let hasty = || {
        let volumes = Volumes { detach_timeout: Duration::from_millis(500), ..patient().volumes };
        Policy { volumes, ..patient() }
    };
    for _ in 0..2 {
        let outcome = end(&mut scene.drain(hasty())).await?;
        let Outcome::Failed(Failure::Volumes(named)) = &outcome else { anyhow::bail!("{outcome:?}") };
        assert!(named[0].contains(disks.driver()), "{named:?}");
    }
    let mut drain = scene.drain(patient());
    until(&mut drain, "it is waited for", |drain| (drain.progress().volumes == 1).then_some(())).await?;
    disks.release(&left, node).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

/// A claim that is not bound, one whose volume is missing, and one that is missing itself: the drain does not wait for
/// any of them.
pub(crate) async fn claims_without_a_volume(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t42").await?;
    let disks = Disks::new(&scene.place).await?;
    if let Some(fake) = target.as_fake() {
        // This controller would create a volume for every claim; on the real control plane no controller does.
        fake.faults().pause(Controller::VolumeBinder);
    }
    for (name, volume) in [("unbound", ""), ("lost", "no-such-volume")] {
        let claim = json!({"metadata": {"name": name}, "spec": claim_spec(volume)});
        scene.place.create("persistentvolumeclaims", &claim).await?;
    }
    for name in ["unbound", "lost", "absent"] {
        disks.pod_that_waits(name, &[name], Kubelet::Quick).await?;
    }
    let mut drain = scene.drain(patient());
    let mut waited = Vec::new();
    let left = |drain: &Drain| {
        waited.extend(drain.volumes());
        let progress = drain.progress();
        (progress.total == 3 && progress.left == 0).then_some(())
    };
    until(&mut drain, "all are gone", left).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(waited, []);
    Ok(())
}

pub(crate) async fn the_node_goes_in_the_middle_of_a_wait(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t43").await?;
    let (disks, node) = (Disks::new(&scene.place).await?, scene.place.node.as_str());
    let held = disks.pod_with_disk("a", Kubelet::Quick).await?;
    disks.hold(&held, node).await?;
    let mut drain = scene.drain(patient());
    until(&mut drain, "a's volume is left", |drain| is_detaching(drain, &held).then_some(())).await?;
    scene.place.caller().delete(&scene.place.node_path(), &json!({})).await?.object()?;
    assert_eq!(end(&mut drain).await?, Outcome::NodeGone);
    Ok(())
}

/// The state counts, not the events, so a missed event is harmless. If it were not, the second pod would wait for an
/// hour.
pub(crate) async fn a_hundred_attachment_updates_during_a_detach(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t44").await?;
    let (disks, node) = (Disks::new(&scene.place).await?, scene.place.node.as_str());
    let first = disks.set_with_disk("first", node).await?;
    let second = disks.set_with_disk("second", node).await?;
    let other = disks.add_node("b").await?;
    disks.hold(&first, node).await?;
    let noise = format!("{}-noise", scene.place.namespace);
    let source = json!({"persistentVolumeName": "no-such-volume"});
    disks.attach(&noise, &source, &other).await?;

    let mut drain = scene.drain(patient());
    let is_there = |drain: &Drain| volume(drain, &first).is_some_and(|line| line.stage == "Detaching");
    until(&mut drain, "the first volume is left", |drain| is_there(drain).then_some(())).await?;
    assert!(is_waiting(&drain, "second-0"));
    let storm = async {
        for number in 0..100 {
            touch_attachment(&scene.place, &noise, number).await?;
            if number == 50 {
                disks.release(&first, node).await?;
            }
        }
        anyhow::Ok(())
    };
    let (outcome, storm) = futures::join!(end(&mut drain), storm);
    storm?;
    assert_eq!(outcome?, Outcome::Drained);
    disks.until_attached(&first, &other).await?;
    disks.until_attached(&second, &other).await
}

/// The volume of the first of two pods is not detached for over an hour; the second pod leaves all the same.
pub(crate) async fn a_detach_timeout_fails_the_attempt_in_the_end(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t45").await?;
    let (disks, node) = (Disks::new(&scene.place).await?, scene.place.node.as_str());
    let late = disks.pod_with_disk("a", Kubelet::Quick).await?;
    disks.pod_with_disk("b", Kubelet::Quick).await?;
    disks.hold(&late, node).await?;
    let mut drain = scene.drain(patient());
    let is_at = |drain: &Drain, stage| volume(drain, &late).is_some_and(|line| line.stage == stage);
    until(&mut drain, "a's volume is left", |drain| is_at(drain, "Detaching").then_some(())).await?;
    assert!(is_waiting(&drain, "b"));
    turn(Duration::from_hours(1));
    let is_next = |drain: &Drain| is_at(drain, "DetachTimedOut") && !is_waiting(drain, "b");
    until(&mut drain, "it is late, and b's turn has come", |drain| is_next(drain).then_some(())).await?;
    let outcome = end(&mut drain).await?;
    scene.place.until_gone("pods/b").await?;
    let Outcome::Failed(Failure::Volumes(named)) = &outcome else { anyhow::bail!("{outcome:?}") };
    let [named] = named.as_slice() else { anyhow::bail!("{named:?}") };
    assert!(named.contains(&late) && named.contains(&format!("{}/a", scene.place.namespace)), "{named}");
    assert!(named.contains("is still there"), "{named}");
    Ok(())
}

/// Then only the node's list shows what is attached.
pub(crate) async fn no_attachments_are_served(target: &Target) -> Result<()> {
    let scene = Scene::new(target, "t46").await?;
    let fake = target.as_fake().expect("for the fake only");
    let disks = Disks::new(&scene.place).await?;
    let first = disks.pod_with_disk("a", Kubelet::Quick).await?;
    disks.pod_with_disk("b", Kubelet::Quick).await?;
    fake.faults().unserve("volumeattachments");
    fake.faults().pause(Controller::AttachDetach);
    let mut drain = scene.drain(patient());
    let left = |drain: &Drain| {
        let held = volume(drain, &first).filter(|line| line.stage == "Detaching")?;
        (held.detail == "the node still lists it as attached").then_some(())
    };
    until(&mut drain, "the list alone holds the first volume", left).await?;
    assert!(is_waiting(&drain, "b"), "one after the other all the same");
    fake.faults().resume(Controller::AttachDetach);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}
