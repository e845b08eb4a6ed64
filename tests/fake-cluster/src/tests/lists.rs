//! Tests lists: pages, old versions.

use serde_json::json;

use super::{Answer, get, passive};
use crate::object::text;
use crate::{FakeCluster, Settings, objects};

const PODS: &str = "/api/v1/pods";

/// Five pods: a to c in `default`, d and e in `other`; b and d on edge-b, the others on edge-a.
fn five() -> FakeCluster {
    let cluster = passive();
    add_five(&cluster);
    cluster
}

fn add_five(cluster: &FakeCluster) {
    for (name, namespace, node) in [
        ("a", "default", "edge-a"),
        ("b", "default", "edge-b"),
        ("c", "default", "edge-a"),
        ("d", "other", "edge-b"),
        ("e", "other", "edge-a"),
    ] {
        let mut pod = objects::pod(name, node);
        pod["metadata"]["namespace"] = json!(namespace);
        cluster.apply(pod).expect("a pod");
    }
}

/// The path of the next page.
fn next(answer: &Answer, path: &str) -> String {
    let token = text(&answer.json(), "/metadata/continue").to_owned();
    assert!(!token.is_empty(), "there is a next page");
    format!("{path}&continue={token}")
}

#[tokio::test]
async fn the_last_page_of_a_selection_may_be_empty() {
    let cluster = five();
    let path = "/api/v1/pods?limit=1&fieldSelector=spec.nodeName=edge-b";
    let first = get(&cluster, path).await;
    assert_eq!(first.names(), ["b"]);
    let second = get(&cluster, &next(&first, path)).await;
    assert_eq!(second.names(), ["d"]);
    let third = get(&cluster, &next(&second, path)).await;
    assert!(third.names().is_empty(), "there was more, and none of it fits");
    assert_eq!(third.json()["metadata"].get("continue"), None);
}

#[tokio::test]
async fn a_page_of_a_forgotten_snapshot_is_expired() {
    let cluster =
        FakeCluster::start_with(Settings { watch_history: 2, ..Settings::passive() }).expect("it starts");
    add_five(&cluster);
    let path = "/api/v1/pods?limit=2";
    let first = get(&cluster, path).await;
    for name in ["x", "y", "z"] {
        cluster.pod(name, "").expect("a pod");
    }
    let expired = get(&cluster, &next(&first, path)).await;
    assert_eq!((expired.code, text(&expired.json(), "/reason")), (410, "Expired"));
}

#[tokio::test]
async fn versions_of_lists() {
    let cluster = five();
    let now = cluster.revision();
    cluster.pod("late", "").expect("a pod");
    for (query, names) in [
        ("resourceVersion=0&limit=2".to_owned(), 6),
        (format!("resourceVersion={now}&resourceVersionMatch=NotOlderThan&limit=2"), 6),
        (format!("resourceVersion={now}&limit=9"), 5),
    ] {
        assert_eq!(get(&cluster, &format!("{PODS}?{query}")).await.names().len(), names, "{query}");
    }
    cluster.faults().forget_history();
    cluster.pod("later", "").expect("a pod");
    let old = get(&cluster, &format!("{PODS}?resourceVersion={now}&resourceVersionMatch=Exact")).await;
    assert_eq!(old.code, 410);
}

#[tokio::test]
async fn a_frozen_cache_answers_with_the_past() {
    let cluster = five();
    cluster.faults().freeze_cache();
    cluster.pod("late", "").expect("a pod");
    let count = async |query: &str| get(&cluster, &format!("{PODS}{query}")).await.names().len();
    assert_eq!(count("?resourceVersion=0").await, 5);
    assert_eq!(count("").await, 6);
    assert_eq!(count(&format!("?resourceVersion={}", cluster.revision())).await, 6);
    cluster.faults().clear();
    assert_eq!(count("?resourceVersion=0").await, 6);
}
