//! Tests GET of one and of many objects, pages, old versions, discovery.

use serde_json::{Value, json};

use super::{Answer, get, passive};
use crate::object::{number, text};
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

#[tokio::test]
async fn selectors_narrow_a_list() {
    let cluster = five();
    for (path, names) in [
        ("/api/v1/pods", "a b c d e"),
        ("/api/v1/namespaces/other/pods", "d e"),
        ("/api/v1/namespaces/missing/pods", ""),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dedge-b", "b d"),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dedge-a,metadata.namespace!%3Dother", "a c"),
        ("/api/v1/pods?fieldSelector=metadata.name=c", "c"),
        ("/api/v1/pods?fieldSelector=status.phase=Running", ""),
        ("/api/v1/pods?labelSelector=app+in+(a,e)", "a e"),
        ("/api/v1/pods?labelSelector=app%20notin%20%28a%2Ce%29&fieldSelector=spec.nodeName=edge-b", "b d"),
        ("/api/v1/namespaces/default/pods?labelSelector=!app", ""),
    ] {
        assert_eq!(get(&cluster, path).await.names().join(" "), names, "{path}");
    }
    for path in
        ["/api/v1/pods?labelSelector=a+b", "/api/v1/pods?fieldSelector=spec.image=x", "/api/v1/pods?limit=x"]
    {
        assert_eq!(get(&cluster, path).await.code, 400, "{path}");
    }
}

#[tokio::test]
async fn lists_and_objects_look_like_those_of_a_server() {
    let cluster = five();
    let list = get(&cluster, "/api/v1/namespaces/default/pods").await;
    assert!(
        list.text.starts_with(r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":""#),
        "{}",
        list.text
    );
    let list = list.json();
    assert_eq!(text(&list, "/metadata/resourceVersion"), cluster.revision().to_string());
    assert_eq!(list.pointer("/items/0/kind"), None, "items do not repeat their kind");
    let pod = get(&cluster, "/api/v1/namespaces/default/pods/a").await;
    assert_eq!(pod.code, 200);
    assert_eq!(text(&pod.json(), "/kind"), "Pod");
    assert_eq!(pod.json()["metadata"], list["items"][0]["metadata"]);
    let missing = get(&cluster, "/api/v1/namespaces/default/pods/z").await;
    assert_eq!((missing.code, text(&missing.json(), "/reason")), (404, "NotFound"));
    let empty = get(&cluster, "/apis/apps/v1/deployments").await;
    assert!(empty.text.contains(r#""kind":"DeploymentList","apiVersion":"apps/v1""#), "{}", empty.text);
    assert_eq!(empty.json()["items"], json!([]));
}

/// The path of the next page.
fn next(answer: &Answer, path: &str) -> String {
    let token = text(&answer.json(), "/metadata/continue").to_owned();
    assert!(!token.is_empty(), "there is a next page");
    format!("{path}&continue={token}")
}

fn pages_of_two(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn pages_show_one_snapshot() {
    let cluster = five();
    let path = format!("{PODS}?limit=2");
    let first = get(&cluster, &path).await;
    assert_eq!(first.names(), pages_of_two(&["a", "b"]));
    assert_eq!(number(&first.json(), "/metadata/remainingItemCount"), Some(3));
    // Later changes are not visible on the pages that follow.
    cluster.delete("pods", "default", "c");
    cluster
        .edit("pods", "default", "c", |pod| pod["metadata"]["labels"]["new"] = json!("yes"))
        .expect("room");
    cluster.pod("bb", "edge-a").expect("a pod");
    let second = get(&cluster, &next(&first, &path)).await;
    assert_eq!(second.names(), pages_of_two(&["c", "d"]));
    assert_eq!(second.json().pointer("/items/0/metadata/labels/new"), None);
    assert_eq!(second.json().pointer("/items/0/metadata/deletionTimestamp"), None);
    assert_eq!(second.json()["metadata"]["resourceVersion"], first.json()["metadata"]["resourceVersion"]);
    let third = get(&cluster, &next(&second, &path)).await;
    assert_eq!(third.names(), pages_of_two(&["e"]));
    assert_eq!(third.json()["metadata"].get("continue"), None);
    assert_eq!(get(&cluster, PODS).await.names().len(), 6);
}

#[tokio::test]
async fn pages_with_selectors_do_not_count_the_rest() {
    let cluster = five();
    let path = "/api/v1/pods?limit=1&fieldSelector=spec.nodeName=edge-b";
    let first = get(&cluster, path).await;
    assert_eq!(first.names(), pages_of_two(&["b"]));
    assert_eq!(first.json()["metadata"].get("remainingItemCount"), None);
    let second = get(&cluster, &next(&first, path)).await;
    assert_eq!(second.names(), pages_of_two(&["d"]));
    let third = get(&cluster, &next(&second, path)).await;
    assert_eq!(third.names(), pages_of_two(&[]), "there was more, and none of it fits");
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
    let later = cluster.revision();
    for (query, code, names) in [
        ("resourceVersion=0".to_owned(), 200, 6),
        ("resourceVersion=0&limit=2".to_owned(), 200, 6),
        (format!("resourceVersion={now}"), 200, 6),
        (format!("resourceVersion={now}&resourceVersionMatch=NotOlderThan&limit=2"), 200, 6),
        (format!("resourceVersion={now}&resourceVersionMatch=Exact"), 200, 5),
        (format!("resourceVersion={now}&limit=9"), 200, 5),
        (format!("resourceVersion={later}&resourceVersionMatch=Exact"), 200, 6),
        (format!("resourceVersion={}", later + 1), 504, 0),
        ("resourceVersion=x".to_owned(), 400, 0),
        ("resourceVersionMatch=Exact".to_owned(), 422, 0),
        ("continue=nonsense".to_owned(), 400, 0),
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
    let names = async |path: &str| -> Vec<String> {
        let list = get(&cluster, path).await.json();
        crate::object::items(&list, "/resources")
            .iter()
            .map(|one| crate::object::text(one, "/name").to_owned())
            .collect()
    };
    let core = names("/api/v1").await;
    for name in
        ["nodes", "nodes/status", "pods", "pods/status", "pods/eviction", "persistentvolumeclaims", "events"]
    {
        assert!(core.iter().any(|one| one == name), "{name}");
    }
    for (path, expected) in [
        ("/apis/policy/v1", "poddisruptionbudgets"),
        ("/apis/apps/v1", "daemonsets"),
        ("/apis/coordination.k8s.io/v1", "leases"),
        ("/apis/storage.k8s.io/v1", "volumeattachments"),
    ] {
        assert!(names(path).await.iter().any(|one| one == expected), "{path}");
    }
    let groups = get(&cluster, "/apis").await.json();
    let groups: Vec<&str> = crate::object::items(&groups, "/groups")
        .iter()
        .map(|group| crate::object::text(group, "/name"))
        .collect();
    assert!(groups.contains(&"apps") && groups.contains(&"policy"), "{groups:?}");
    let group = get(&cluster, "/apis/policy").await.json();
    assert_eq!(text(&group, "/preferredVersion/groupVersion"), "policy/v1");
    for (path, code, body) in [("/readyz", 200, "ok"), ("/livez", 200, "ok"), ("/livez/ping", 200, "ok")] {
        let answer = get(&cluster, path).await;
        assert_eq!((answer.code, answer.text.as_str()), (code, body), "{path}");
    }
    assert_eq!(text(&get(&cluster, "/version").await.json(), "/gitVersion"), "v1.34.2");
    assert_eq!(get(&cluster, "/api").await.json()["versions"], json!(["v1"]));
    for path in [
        "/",
        "/nonsense",
        "/api/v2",
        "/apis/nonsense",
        "/apis/apps/v9",
        "/apis/apps/v1/nonsense",
        "/api/v1/pods/a",
    ] {
        assert_eq!(get(&cluster, path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn what_is_not_served_is_unknown() {
    let cluster = passive();
    cluster.faults().unserve("volumeattachments");
    cluster.faults().unserve("pods/eviction");
    assert_eq!(get(&cluster, "/apis/storage.k8s.io/v1/volumeattachments").await.code, 404);
    assert!(!get(&cluster, "/apis/storage.k8s.io/v1").await.text.contains("volumeattachments"));
    assert!(!get(&cluster, "/api/v1").await.text.contains("pods/eviction"));
    cluster.pod("a", "").expect("a pod");
    let evict = async || {
        super::call(
            &cluster,
            "POST",
            "/api/v1/namespaces/default/pods/a/eviction",
            r#"{"metadata":{"name":"a"}}"#,
        )
        .await
    };
    let refused = evict().await;
    assert_eq!((refused.code, &refused.json()["details"]), (404, &Value::Object(serde_json::Map::new())));
    cluster.faults().serve("pods/eviction");
    assert_eq!(evict().await.code, 201);
}
