//! Tests the whole cluster with all controllers: faults of controllers.

use serde_json::json;

use super::{quick, wait};
use crate::object::{is_ready, name};
use crate::{Controller, Effect, FakeCluster, Fault, Reply};

fn ready_on(cluster: &FakeCluster, node: &str) -> usize {
    cluster.pods_on(node).iter().filter(|pod| is_ready(pod)).count()
}

#[tokio::test]
async fn a_stopped_kubelet_holds_its_pods() {
    let cluster = quick();
    for node in ["edge-a", "edge-b"] {
        cluster.node(node).expect("a node");
    }
    cluster.deployment("web", 1, "edge-a").expect("a deployment");
    wait(&cluster, "a ready pod", |cluster| (ready_on(cluster, "edge-a") == 1).then_some(())).await;
    cluster.faults().stop_kubelet("edge-a");
    cluster.edit("nodes", "", "edge-a", |node| node["spec"]["unschedulable"] = json!(true)).expect("room");
    let pod = name(&cluster.pods_on("edge-a")[0]).to_owned();
    assert!(cluster.delete("pods", "default", &pod));
    wait(&cluster, "its replacement", |cluster| (ready_on(cluster, "edge-b") == 1).then_some(())).await;
    assert!(cluster.get("pods", "default", &pod).is_some(), "no kubelet ends it");
    cluster.faults().start_kubelet("edge-a");
    wait(&cluster, "its end", |cluster| cluster.get("pods", "default", &pod).is_none().then_some(())).await;
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
