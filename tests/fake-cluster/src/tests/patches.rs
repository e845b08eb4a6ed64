//! Tests PATCH over HTTP.

use serde_json::{Value, json};

use super::{Answer, call, passive};
use crate::FakeCluster;
use crate::object::text;

const NODE: &str = "/api/v1/nodes/edge-a";

async fn patch(cluster: &FakeCluster, path: &str, format: &str, body: &Value) -> Answer {
    let content_type =
        if format.contains('/') { format.to_owned() } else { format!("application/{format}+json") };
    call(cluster, "PATCH", &format!("{path}|content-type: {content_type}"), &body.to_string()).await
}

fn cluster() -> FakeCluster {
    let cluster = passive();
    cluster.node("edge-a").expect("a node");
    cluster
}

#[tokio::test]
async fn a_cordon_by_each_format() {
    for (format, body) in [
        ("merge-patch", json!({"spec": {"unschedulable": true}})),
        ("strategic-merge-patch", json!({"spec": {"unschedulable": true}})),
        (
            "strategic-merge-patch",
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-a"}, "spec": {"unschedulable": true}}),
        ),
        ("json-patch", json!([{"op": "add", "path": "/spec/unschedulable", "value": true}])),
        ("application/merge-patch+json; charset=utf-8", json!({"spec": {"unschedulable": true}})),
    ] {
        let cluster = cluster();
        let answer = patch(&cluster, NODE, format, &body).await;
        assert_eq!(answer.code, 200, "{format}");
        let node = cluster.get("nodes", "", "edge-a").expect("it");
        assert_eq!(node["spec"], json!({"unschedulable": true}), "{format}");
        assert_eq!(answer.json(), node, "{format}");
    }
}

#[tokio::test]
async fn a_cordon_that_is_false_is_left_out() {
    for (format, body) in [
        ("merge-patch", json!({"spec": {"unschedulable": false}})),
        ("strategic-merge-patch", json!({"spec": {"unschedulable": false}})),
        ("json-patch", json!([{"op": "add", "path": "/spec/unschedulable", "value": false}])),
    ] {
        let cluster = cluster();
        let mut cordoned = crate::objects::node("edge-a");
        cordoned["spec"] = json!({"unschedulable": true});
        cluster.apply(cordoned).expect("a cordon");
        assert_eq!(patch(&cluster, NODE, format, &body).await.json()["spec"], json!({}), "{format}");
    }
    let mut fresh = crate::objects::node("edge-b");
    fresh["spec"] = json!({"unschedulable": false});
    assert_eq!(cluster().apply(fresh).expect("a node")["spec"], json!({}));
}

#[tokio::test]
async fn a_test_that_fails_is_told_without_details() {
    let test = json!([{"op": "test", "path": "/metadata/name", "value": "other"}]);
    let refused = patch(&cluster(), NODE, "json-patch", &test).await.json();
    let message = "the server rejected our request due to an error in our request";
    assert_eq!((text(&refused, "/message"), text(&refused, "/reason")), (message, "Invalid"));
    assert_eq!(refused["details"], json!({}));
}

#[tokio::test]
async fn patches_that_are_refused() {
    let cluster = cluster();
    for (path, format, body, code) in [
        (NODE, "merge-patch", json!({"metadata": {"resourceVersion": "1"}}), 409),
        (NODE, "strategic-merge-patch", json!({"metadata": {"resourceVersion": "1"}}), 409),
        (NODE, "merge-patch", json!({"metadata": {"uid": "other"}}), 409),
        (NODE, "merge-patch", json!({"metadata": {"name": "other"}}), 400),
        (NODE, "merge-patch", json!({"kind": "Pod"}), 400),
        (NODE, "json-patch", json!([{"op": "test", "path": "/spec/unschedulable", "value": true}]), 422),
        (NODE, "json-patch", json!([{"op": "replace", "path": "", "value": 7}]), 400),
        (NODE, "merge-patch", json!([]), 400),
        (NODE, "application/apply-patch+yaml", json!({}), 415),
        (NODE, "application/json", json!({}), 415),
        ("/api/v1/nodes/missing", "merge-patch", json!({}), 404),
        ("/api/v1/nodes", "merge-patch", json!({}), 405),
    ] {
        let before = cluster.get("nodes", "", "edge-a");
        assert_eq!(patch(&cluster, path, format, &body).await.code, code, "{format} {body}");
        assert_eq!(cluster.get("nodes", "", "edge-a"), before, "{format} {body}");
    }
    let current =
        text(&cluster.get("nodes", "", "edge-a").expect("it"), "/metadata/resourceVersion").to_owned();
    let right = json!({"metadata": {"resourceVersion": current, "labels": {"a": "b"}}});
    assert_eq!(patch(&cluster, NODE, "merge-patch", &right).await.code, 200);
}

#[tokio::test]
async fn conditions_merge_by_type_in_the_status_alone() {
    let cluster = cluster();
    let condition = json!({"status": {"conditions": [{"type": "DrainInProgress", "status": "True"}]}});
    assert_eq!(patch(&cluster, NODE, "strategic-merge-patch", &condition).await.code, 200);
    let conditions = || {
        let node = cluster.get("nodes", "", "edge-a").expect("it");
        crate::object::items(&node, "/status/conditions")
            .iter()
            .map(|one| text(one, "/type").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(conditions(), ["Ready"], "the main resource does not write the status");
    let status = format!("{NODE}/status");
    assert_eq!(patch(&cluster, &status, "strategic-merge-patch", &condition).await.code, 200);
    assert_eq!(conditions(), ["Ready", "DrainInProgress"]);
    let gone = json!({"status": {"conditions": [{"type": "DrainInProgress", "$patch": "delete"}]}});
    assert_eq!(patch(&cluster, &status, "strategic-merge-patch", &gone).await.code, 200);
    assert_eq!(conditions(), ["Ready"]);
}
