//! Tests the whole cluster with all controllers: the situations that a drain meets.

use std::time::Duration;

use serde_json::json;

use super::{Answer, call, quick, wait};
use crate::object::{is_ready, name, number, text};
use crate::{Controller, Effect, FakeCluster, Fault, Limit, Reply, Settings, Time, objects};

/// Three nodes, a deployment of three pods on edge-a and a budget that lets one pod go at a time; nothing changes any
/// more.
async fn web() -> FakeCluster {
    let cluster = quick();
    for node in ["edge-a", "edge-b", "edge-c"] {
        cluster.node(node).expect("a node");
    }
    cluster.deployment("web", 3, "edge-a").expect("a deployment");
    cluster.budget("web", Limit::MaxUnavailable("1")).expect("a budget");
    wait(&cluster, "three ready pods", |cluster| (ready_on(cluster, "edge-a") == 3).then_some(())).await;
    wait(&cluster, "a budget with one to spare", |cluster| (allowed(cluster) == Some(1)).then_some(())).await;
    cluster
}

fn ready_on(cluster: &FakeCluster, node: &str) -> usize {
    cluster.pods_on(node).iter().filter(|pod| is_ready(pod)).count()
}

fn allowed(cluster: &FakeCluster) -> Option<i64> {
    number(&cluster.get("pdb", "default", "web")?, "/status/disruptionsAllowed")
}

async fn cordon(cluster: &FakeCluster, node: &str) {
    let path = format!("/api/v1/nodes/{node}|content-type: application/merge-patch+json");
    assert_eq!(call(cluster, "PATCH", &path, r#"{"spec":{"unschedulable":true}}"#).await.code, 200);
}

async fn evict(cluster: &FakeCluster, pod: &str) -> Answer {
    let body = json!({"metadata": {"name": pod}}).to_string();
    call(cluster, "POST", &format!("/api/v1/namespaces/default/pods/{pod}/eviction"), &body).await
}

#[tokio::test]
async fn a_drain_moves_the_pods_one_by_one() {
    let cluster = web().await;
    cordon(&cluster, "edge-a").await;
    wait(&cluster, "the taint", |cluster| {
        let node = cluster.get("nodes", "", "edge-a")?;
        (text(&node, "/spec/taints/0/key") == "node.kubernetes.io/unschedulable").then_some(())
    })
    .await;
    for pod in cluster.pods_on("edge-a") {
        let mut refusals = 0;
        while evict(&cluster, name(&pod)).await.code != 201 {
            refusals += 1;
            assert!(refusals < 1000, "the budget never recovers");
            wait(&cluster, "the budget", |cluster| (allowed(cluster)? > 0).then_some(())).await;
        }
    }
    wait(&cluster, "an empty node", |cluster| cluster.pods_on("edge-a").is_empty().then_some(())).await;
    wait(&cluster, "three ready pods elsewhere", |cluster| {
        (ready_on(cluster, "edge-b") + ready_on(cluster, "edge-c") == 3).then_some(())
    })
    .await;
    assert_eq!(
        cluster.requests().count("*", "create", "pods/eviction"),
        cluster.requests().recent().iter().filter(|request| request.resource == "pods/eviction").count()
            as u64
    );
}

#[tokio::test]
async fn a_frozen_disruption_controller_counts_nobody_up() {
    let cluster = web().await;
    cluster.faults().pause(Controller::Disruption);
    cordon(&cluster, "edge-a").await;
    let pods = cluster.pods_on("edge-a");
    assert_eq!(evict(&cluster, name(&pods[0])).await.code, 201);
    wait(&cluster, "its replacement", |cluster| {
        (ready_on(cluster, "edge-b") + ready_on(cluster, "edge-c") == 1).then_some(())
    })
    .await;
    let refused = evict(&cluster, name(&pods[1])).await;
    assert_eq!(refused.code, 429);
    assert!(
        refused.text.contains("The disruption budget web needs 2 healthy pods and has 3 currently"),
        "{}",
        refused.text
    );
    cluster.faults().resume(Controller::Disruption);
    wait(&cluster, "the budget", |cluster| (allowed(cluster)? == 1).then_some(())).await;
    assert_eq!(evict(&cluster, name(&pods[1])).await.code, 201);
}

#[tokio::test]
async fn a_slot_burnt_by_a_wrong_uid_comes_back_after_two_minutes() {
    let cluster = web().await;
    let pod = name(&cluster.pods_on("edge-a")[0]).to_owned();
    let body =
        json!({"metadata": {"name": pod}, "deleteOptions": {"preconditions": {"uid": "other"}}}).to_string();
    let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
    assert_eq!(call(&cluster, "POST", &path, &body).await.code, 409);
    assert_eq!(evict(&cluster, &pod).await.code, 429);
    cluster.advance(Duration::from_mins(1));
    assert_eq!(evict(&cluster, &pod).await.code, 429);
    cluster.advance(Duration::from_secs(61));
    wait(&cluster, "the slot", |cluster| (allowed(cluster)? == 1).then_some(())).await;
    assert_eq!(evict(&cluster, &pod).await.code, 201);
}

#[tokio::test]
async fn with_manual_time_nothing_is_due_until_it_is_told() {
    let settings = Settings { time: Time::Manual, ..Settings::default() };
    let cluster = FakeCluster::start_with(settings).expect("it starts");
    cluster.node("edge-a").expect("a node");
    cluster.pod("a", "").expect("a pod");
    wait(&cluster, "a bound pod", |cluster| (cluster.pods_on("edge-a").len() == 1).then_some(())).await;
    assert_eq!(ready_on(&cluster, "edge-a"), 0);
    // The kubelet may see the pod only after this; then the time is moved once more.
    while ready_on(&cluster, "edge-a") == 0 {
        cluster.advance(Duration::from_millis(200));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stopped_kubelet_holds_its_pods() {
    let cluster = web().await;
    cluster.faults().stop_kubelet("edge-a");
    cordon(&cluster, "edge-a").await;
    let pod = name(&cluster.pods_on("edge-a")[0]).to_owned();
    assert_eq!(evict(&cluster, &pod).await.code, 201);
    wait(&cluster, "its replacement", |cluster| {
        (ready_on(cluster, "edge-b") + ready_on(cluster, "edge-c") == 1).then_some(())
    })
    .await;
    assert!(cluster.get("pods", "default", &pod).is_some(), "no kubelet ends it");
    cluster.faults().start_kubelet("edge-a");
    wait(&cluster, "its end", |cluster| cluster.get("pods", "default", &pod).is_none().then_some(())).await;
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied() {
    let cluster = quick();
    let mut deployment = objects::deployment("web", 2, "");
    deployment["metadata"]["namespace"] = json!("apps");
    cluster.node("edge-a").expect("a node");
    cluster.apply(deployment).expect("a deployment");
    wait(&cluster, "the pods", |cluster| (ready_on(cluster, "edge-a") == 2).then_some(())).await;
    assert!(cluster.delete("ns", "", "apps"));
    wait(&cluster, "the end", |cluster| cluster.get("ns", "", "apps").is_none().then_some(())).await;
    assert_eq!(cluster.list("pods", None), Vec::<serde_json::Value>::new());
}

#[tokio::test]
async fn a_stateful_pod_takes_its_volume_along() {
    let cluster = quick();
    for node in ["edge-a", "edge-b"] {
        cluster.node(node).expect("a node");
    }
    cluster.apply(objects::stateful_set_with_volumes("db", 2, "edge-a")).expect("it");
    let attached = |cluster: &FakeCluster, node: &str| {
        cluster
            .list("volumeattachments", None)
            .iter()
            .filter(|one| text(one, "/spec/nodeName") == node)
            .count()
    };
    wait(&cluster, "two ready pods", |cluster| (ready_on(cluster, "edge-a") == 2).then_some(())).await;
    assert_eq!(attached(&cluster, "edge-a"), 2);
    cordon(&cluster, "edge-a").await;
    for pod in ["db-1", "db-0"] {
        assert_eq!(evict(&cluster, pod).await.code, 201);
    }
    wait(&cluster, "both elsewhere", |cluster| (ready_on(cluster, "edge-b") == 2).then_some(())).await;
    assert_eq!((attached(&cluster, "edge-a"), attached(&cluster, "edge-b")), (0, 2));
}

#[tokio::test]
async fn clearing_the_faults_sets_everything_going() {
    let cluster = quick();
    cluster.faults().pause(Controller::Scheduler);
    cluster.faults().blind_scheduler(true);
    cluster.faults().add(Fault::on("*", "*", Effect::Answer(Reply::timeout())).always());
    cluster.node("edge-a").expect("a node");
    cluster.pod("a", "").expect("a pod");
    assert_eq!(super::get(&cluster, "/readyz").await.code, 504);
    cluster.faults().clear();
    wait(&cluster, "a ready pod", |cluster| (ready_on(cluster, "edge-a") == 1).then_some(())).await;
    assert_eq!(super::get(&cluster, "/readyz").await.code, 200);
}
