use drain::view::Existence;
use fake_cluster::{Effect, Fault, Limit, Reply, objects};
use serde_json::json;

use super::*;
use crate::testing::still_cluster;

#[tokio::test]
async fn a_look_shows_the_node_and_its_pods_in_two_calls() {
    let (fake, cluster) = still_cluster();
    fake.node("edge-b").unwrap();
    for (name, node) in [("b", "edge-a"), ("a", "edge-a"), ("c", "edge-b")] {
        fake.pod(name, node).unwrap();
    }
    fake.budget("a", Limit::MinAvailable("1")).unwrap();
    let last = Picture { budgets: vec![BudgetView::default()], ..Picture::default() };
    let look = fresh_look(&cluster, "edge-a", Some(&last)).await.unwrap();
    let names: Vec<_> = look.pods.iter().map(|pod| pod.id.to_string()).collect();
    assert_eq!(names, ["default/a", "default/b"]);
    assert_eq!(look.node.unwrap().name, "edge-a");
    assert_eq!(look.budgets, last.budgets);
    let asked: Vec<_> = fake.requests().recent().into_iter().map(|r| (r.verb, r.resource, r.query)).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let query = &asked.iter().find(|(verb, ..)| verb == "list").unwrap().2;
    assert_eq!(
        query, "&fieldSelector=spec.nodeName%3Dedge-a&limit=500",
        "no resourceVersion: from the store"
    );
    let look = fresh_look(&cluster, "edge-a", None).await.unwrap();
    assert_eq!(look.budgets[0].name, "a");
}

#[tokio::test]
async fn a_look_at_a_node_that_is_gone() {
    let (fake, cluster) = still_cluster();
    fake.delete("nodes", "", "edge-a");
    let look = fresh_look(&cluster, "edge-a", None).await.unwrap();
    assert_eq!(look, Picture::default());
    let failure = fresh_look(&cluster, "a,spec.nodeName=b", None).await.unwrap_err();
    assert!(matches!(failure, ApiFailure::Other { .. }), "{failure}");
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let (fake, cluster) = still_cluster();
    for number in 0..1_001 {
        fake.pod(&format!("p{number:04}"), "edge-a").unwrap();
    }
    let look = fresh_look(&cluster, "edge-a", Some(&Picture::default())).await.unwrap();
    assert_eq!(look.pods.len(), 1_001);
    assert_eq!(fake.requests().count("ebb/", "list", "pods"), 3);
}

#[tokio::test]
async fn a_list_without_end_is_given_up() {
    let (fake, cluster) = still_cluster();
    let page = json!({"kind": "PodList", "metadata": {"continue": "more"}, "items": null});
    fake.faults().add(Fault::on("list", "pods", Effect::Answer(Reply::json(200, &page))).always());
    let failure = fresh_look(&cluster, "edge-a", Some(&Picture::default())).await.unwrap_err();
    assert!(failure.text().contains("has no end"), "{failure}");
}

#[tokio::test]
async fn half_a_look_is_none() {
    let (fake, cluster) = still_cluster();
    for (verb, resource) in [("get", "nodes"), ("list", "pods"), ("list", "poddisruptionbudgets")] {
        fake.faults().add(Fault::on(verb, resource, Effect::Answer(Reply::timeout())).always());
        let failure = fresh_look(&cluster, "edge-a", None).await.unwrap_err();
        assert!(failure.is_unreachable(), "{failure}");
        fake.faults().clear();
    }
}

#[tokio::test]
async fn a_pod_of_a_daemon_set_is_asked_about_once() {
    let (fake, cluster) = still_cluster();
    let set = fake.daemon_set("agent").unwrap();
    let uid = set.pointer("/metadata/uid").unwrap();
    for (name, owner, uid) in [("x", "agent", uid), ("y", "agent", uid), ("z", "gone", &json!("u-gone"))] {
        let mut pod = objects::pod(name, "edge-a");
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": uid, "controller": true}]);
        fake.apply(pod).unwrap();
    }
    for _ in 0..2 {
        let look = fresh_look(&cluster, "edge-a", Some(&Picture::default())).await.unwrap();
        let existences: Vec<_> =
            look.pods.iter().map(|pod| pod.controller.as_ref().unwrap().existence).collect();
        assert_eq!(existences, [Existence::Present, Existence::Present, Existence::Missing]);
        assert_eq!(fake.requests().count("ebb/", "get", "daemonsets"), 2);
    }
}

#[tokio::test]
async fn a_daemon_set_that_cannot_be_read_is_unknown() {
    let (fake, cluster) = still_cluster();
    let mut pod = objects::pod("x", "edge-a");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": "u", "controller": true}]);
    fake.apply(pod).unwrap();
    let denied = Reply::forbidden("edge", "get", "daemonsets", "default", "a");
    fake.faults().add(Fault::on("get", "daemonsets", Effect::Answer(denied)));
    let look = fresh_look(&cluster, "edge-a", Some(&Picture::default())).await.unwrap();
    assert_eq!(look.pods[0].controller.as_ref().unwrap().existence, Existence::Unknown);
}
