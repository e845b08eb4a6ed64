//! Tests lists: pages, old versions; discovery.

use serde_json::json;

use super::{Answer, get, passive};
use crate::object::{flag, items, text};
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
    // The list may go on without the snapshot.
    let rest = get(&cluster, &next(&expired, "/api/v1/pods?limit=10")).await;
    assert_eq!(rest.names().join(" "), "c x y z d e");
}

#[tokio::test]
async fn versions_of_lists() {
    let cluster = five();
    let now = cluster.revision();
    cluster.pod("late", "").expect("a pod");
    for (query, code, names) in [
        ("resourceVersion=0&limit=2".to_owned(), 200, 6),
        (format!("resourceVersion={now}&resourceVersionMatch=NotOlderThan&limit=2"), 200, 6),
        (format!("resourceVersion={now}&limit=9"), 200, 5),
        ("resourceVersion=x".to_owned(), 400, 0),
        ("resourceVersionMatch=Exact".to_owned(), 422, 0),
        ("limit=x".to_owned(), 400, 0),
        ("continue=e30".to_owned(), 400, 0),
    ] {
        let answer = get(&cluster, &format!("{PODS}?{query}")).await;
        assert_eq!(answer.code, code, "{query}");
        assert_eq!(answer.names().len(), names, "{query}");
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
    cluster.faults().thaw_cache();
    assert_eq!(count("?resourceVersion=0").await, 6);
}

#[tokio::test]
async fn discovery_names_what_is_served() {
    let cluster = passive();
    for (path, name, is_namespaced) in [
        ("/api/v1", "nodes", false),
        ("/api/v1", "nodes/status", false),
        ("/api/v1", "pods", true),
        ("/apis/policy/v1", "poddisruptionbudgets", true),
        ("/apis/apps/v1", "daemonsets", true),
        ("/apis/coordination.k8s.io/v1", "leases", true),
        ("/apis/storage.k8s.io/v1", "volumeattachments", false),
    ] {
        let list = get(&cluster, path).await.json();
        let found = items(&list, "/resources").iter().find(|one| text(one, "/name") == name);
        let found = found.unwrap_or_else(|| panic!("{name} is not named"));
        assert_eq!(flag(found, "/namespaced"), is_namespaced, "{name}");
        assert_eq!(items(found, "/verbs").contains(&json!("watch")), !name.contains('/'), "{name}");
    }
    let groups = get(&cluster, "/apis").await.json();
    let groups: Vec<&str> = items(&groups, "/groups").iter().map(|group| text(group, "/name")).collect();
    assert!(groups.contains(&"apps") && groups.contains(&"policy"), "{groups:?}");
    assert_eq!(get(&cluster, "/livez/ping").await.text, "ok");
    assert_eq!(get(&cluster, "/api").await.json()["versions"], json!(["v1"]));
    for path in ["/", "/nonsense", "/api/v2", "/apis/apps/v9", "/apis/apps/v1/nonsense", "/api/v1/pods/a"] {
        assert_eq!(get(&cluster, path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn discovery_does_not_name_what_a_fault_has_taken_away() {
    let cluster = passive();
    cluster.faults().unserve("volumeattachments");
    cluster.faults().unserve("pods/eviction");
    assert!(!get(&cluster, "/apis/storage.k8s.io/v1").await.text.contains("volumeattachments"));
    assert!(!get(&cluster, "/api/v1").await.text.contains("pods/eviction"));
}
