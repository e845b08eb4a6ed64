//! Tests POST, PUT, DELETE and status.

use serde_json::{Value, json};

use super::{call, get, passive};
use crate::object::{number, text};
use crate::{FakeCluster, objects};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn post(cluster: &FakeCluster, path: &str, body: &Value) -> super::Answer {
    call(cluster, "POST", path, &body.to_string()).await
}

#[tokio::test]
async fn a_created_object_is_filled_in() {
    let cluster = passive();
    let mut pod = objects::pod("a", "edge-a");
    pod["status"] = json!({"phase": "Running"});
    pod["metadata"]["uid"] = json!("mine");
    let created = post(&cluster, PODS, &pod).await;
    assert_eq!(created.code, 201);
    let created = created.json();
    for (pointer, value) in [
        ("/kind", "Pod"),
        ("/apiVersion", "v1"),
        ("/metadata/namespace", "default"),
        ("/status/phase", "Pending"),
        ("/spec/restartPolicy", "Always"),
        ("/spec/schedulerName", "default-scheduler"),
    ] {
        assert_eq!(text(&created, pointer), value, "{pointer}");
    }
    assert_eq!(number(&created, "/spec/terminationGracePeriodSeconds"), Some(30));
    assert_eq!(number(&created, "/spec/priority"), Some(0));
    assert_eq!(number(&created, "/metadata/generation"), Some(1));
    assert_eq!(text(&created, "/metadata/resourceVersion"), cluster.revision().to_string());
    assert_eq!(text(&created, "/metadata/uid").len(), 36);
    assert!(text(&created, "/metadata/creationTimestamp").ends_with('Z'));
    assert_eq!(get(&cluster, &format!("{PODS}/a")).await.json(), created);
}

#[tokio::test]
async fn names_are_generated() {
    let cluster = passive();
    let mut pod = objects::pod("", "");
    pod["metadata"] = json!({"generateName": "web-"});
    let (first, second) = (post(&cluster, PODS, &pod).await.json(), post(&cluster, PODS, &pod).await.json());
    let name = text(&first, "/metadata/name");
    assert_eq!((name.len(), name.starts_with("web-")), (9, true), "{name}");
    assert_ne!(name, text(&second, "/metadata/name"));
}

/// Code, reason and a part of the message.
type Refused = (u16, &'static str, &'static str);

async fn check_refused(cluster: &FakeCluster, path: &str, body: &Value, (code, reason, message): Refused) {
    let refused = post(cluster, path, body).await;
    let status = refused.json();
    assert_eq!((refused.code, text(&status, "/reason")), (code, reason), "{path} {body}");
    assert!(text(&status, "/message").contains(message), "{message}: {}", refused.text);
    assert_eq!(number(&status, "/code"), Some(i64::from(code)));
}

#[tokio::test]
async fn objects_that_are_refused() {
    let cluster = passive();
    let pod = |patch: Value| {
        let pod = objects::pod("b", "");
        crate::patch::apply("application/merge-patch+json", &pod, patch.to_string().as_bytes())
            .expect("a patch")
    };
    let invalid_name = (422, "Invalid", "metadata.name: Invalid value");
    for (body, refused) in [
        (pod(json!({"kind": "Node"})), (400, "BadRequest", "the object is Node")),
        (pod(json!({"apiVersion": "v2"})), (400, "BadRequest", "the object is Pod of v2")),
        (pod(json!({"metadata": {"namespace": "x"}})), (400, "BadRequest", "the namespace of the provided")),
        (pod(json!({"metadata": {"name": "Up"}})), invalid_name),
        (pod(json!({"metadata": {"name": "-x"}})), invalid_name),
        (pod(json!({"metadata": {"name": "a".repeat(254)}})), invalid_name),
        (pod(json!({"metadata": {"name": null}})), (422, "Invalid", "name or generateName is required")),
        (pod(json!({"spec": {"containers": null}})), (422, "Invalid", "spec.containers: Required value")),
        (json!([]), (400, "BadRequest", "not a JSON map")),
        (json!("text"), (400, "BadRequest", "not a JSON map")),
    ] {
        check_refused(&cluster, PODS, &body, refused).await;
    }
    let both = json!({"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}});
    let message =
        "PodDisruptionBudget.policy \"p\" is invalid: spec: Invalid value: minAvailable and maxUnavailable";
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    check_refused(&cluster, path, &both, (422, "Invalid", message)).await;
    assert_eq!(call(&cluster, "POST", PODS, "{").await.code, 400);
    let protobuf = format!("{PODS}|content-type: application/vnd.kubernetes.protobuf");
    assert_eq!(call(&cluster, "POST", &protobuf, "k8s").await.code, 415);
}

#[tokio::test]
async fn places_that_are_taken_or_closed() {
    let cluster = passive();
    cluster.pod("a", "edge-a").expect("a pod");
    cluster.pod("going", "edge-a").expect("a pod");
    cluster.delete("pods", "default", "going");
    cluster
        .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ending"}}))
        .expect("it");
    cluster.delete("namespaces", "", "ending");
    let ending = "unable to create new content in namespace ending because it is being terminated";
    for (path, name, refused) in [
        (PODS, "a", (409, "AlreadyExists", "pods \"a\" already exists")),
        (PODS, "going", (409, "AlreadyExists", "object is being deleted: pods \"going\" already exists")),
        ("/api/v1/namespaces/missing/pods", "b", (404, "NotFound", "namespaces \"missing\" not found")),
        ("/api/v1/namespaces/ending/pods", "b", (403, "Forbidden", ending)),
        ("/api/v1/pods", "b", (405, "MethodNotAllowed", "does not allow this method")),
        ("/api/v1/namespaces/default/pods/b", "b", (405, "MethodNotAllowed", "does not allow this method")),
    ] {
        check_refused(&cluster, path, &objects::pod(name, ""), refused).await;
    }
}

#[tokio::test]
async fn puts_replace_but_for_what_is_the_servers() {
    let cluster = passive();
    cluster.apply(objects::node("edge-a")).expect("a node");
    let before = cluster.get("nodes", "", "edge-a").expect("the node");
    let mut wanted = before.clone();
    wanted["spec"]["unschedulable"] = json!(true);
    wanted["status"] = json!({"nonsense": true});
    wanted["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z");
    wanted["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z");
    let answer = call(&cluster, "PUT", "/api/v1/nodes/edge-a", &wanted.to_string()).await;
    assert_eq!(answer.code, 200);
    let after = answer.json();
    assert_eq!(after["spec"]["unschedulable"], json!(true));
    assert_eq!(after["status"], before["status"]);
    for field in ["creationTimestamp", "uid", "deletionTimestamp"] {
        assert_eq!(after["metadata"].get(field), before["metadata"].get(field), "{field}");
    }
    // The old version is refused from now on.
    let conflict = call(&cluster, "PUT", "/api/v1/nodes/edge-a", &wanted.to_string()).await;
    assert_eq!((conflict.code, text(&conflict.json(), "/reason")), (409, "Conflict"));
    assert!(
        conflict
            .text
            .contains("Operation cannot be fulfilled on nodes \\\"edge-a\\\": the object has been modified")
    );
    // The same content again is no change.
    let revision = cluster.revision();
    assert_eq!(call(&cluster, "PUT", "/api/v1/nodes/edge-a", &after.to_string()).await.code, 200);
    assert_eq!(cluster.revision(), revision);
    // Without a version the PUT overwrites the object.
    assert_eq!(
        call(&cluster, "PUT", "/api/v1/nodes/edge-a", r#"{"metadata":{"name":"edge-a"}}"#).await.code,
        200
    );
    for (path, body, code) in [
        ("/api/v1/nodes/edge-a", r#"{"metadata":{"name":"edge-a","resourceVersion":"0"}}"#, 200),
        ("/api/v1/nodes/edge-a", r#"{"metadata":{"name":"edge-a","resourceVersion":"1"}}"#, 409),
        ("/api/v1/nodes/edge-a", r#"{"metadata":{"name":"edge-b"}}"#, 400),
        ("/api/v1/nodes/edge-b", r#"{"metadata":{"name":"edge-b"}}"#, 404),
        ("/api/v1/nodes/edge-a", r#"{"metadata":{"name":"edge-a","uid":"other"}}"#, 409),
        ("/api/v1/nodes", r#"{"metadata":{"name":"edge-a"}}"#, 405),
    ] {
        assert_eq!(call(&cluster, "PUT", path, body).await.code, code, "{path} {body}");
    }
}

#[tokio::test]
async fn leases_are_created_by_put_and_need_a_version() {
    let cluster = passive();
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/slot-0";
    let body = r#"{"metadata":{"name":"slot-0"},"spec":{"holderIdentity":"edge-a"}}"#;
    let created = call(&cluster, "PUT", path, body).await;
    assert_eq!(created.code, 201);
    let zero = r#"{"metadata":{"name":"slot-0","resourceVersion":"0"},"spec":{"holderIdentity":"edge-a"}}"#;
    for blind in [body, zero] {
        assert_eq!(call(&cluster, "PUT", path, blind).await.code, 422, "{blind}");
    }
    let mut stolen = created.json();
    stolen["spec"]["holderIdentity"] = json!("edge-b");
    assert_eq!(call(&cluster, "PUT", path, &stolen.to_string()).await.code, 200);
    assert_eq!(call(&cluster, "PUT", path, &stolen.to_string()).await.code, 409);
}

#[tokio::test]
async fn the_status_is_written_apart() {
    let cluster = passive();
    cluster.node("edge-a").expect("a node");
    let node = cluster.get("nodes", "", "edge-a").expect("it");
    let mut wanted = node.clone();
    wanted["spec"] = json!({"unschedulable": true});
    wanted["status"] = json!({"conditions": []});
    wanted["metadata"]["labels"] = json!({"by": "status"});
    let answer = call(&cluster, "PUT", "/api/v1/nodes/edge-a/status", &wanted.to_string()).await.json();
    assert_eq!(answer["spec"], node["spec"]);
    assert_eq!(answer["status"], json!({"conditions": []}));
    assert_eq!(answer["metadata"]["labels"], json!({"by": "status"}));
    assert_eq!(get(&cluster, "/api/v1/nodes/edge-a/status").await.json(), answer);
    assert_eq!(call(&cluster, "POST", "/api/v1/nodes/edge-a/status", "{}").await.code, 405);
    assert_eq!(get(&cluster, "/apis/storage.k8s.io/v1/csidrivers/x/status").await.code, 404);
}

#[tokio::test]
async fn generations_count_specifications() {
    let cluster = passive();
    cluster.apply(objects::budget("p", crate::Limit::MinAvailable("1"))).expect("a budget");
    let generation = || number(&cluster.get("pdb", "default", "p").expect("it"), "/metadata/generation");
    assert_eq!(generation(), Some(1));
    cluster
        .edit("pdb", "default", "p", |budget| budget["status"] = json!({"expectedPods": 1}))
        .expect("room");
    assert_eq!(generation(), Some(1));
    cluster.edit("pdb", "default", "p", |budget| budget["spec"]["minAvailable"] = json!(2)).expect("room");
    assert_eq!(generation(), Some(2));
}

#[tokio::test]
async fn pods_end_gracefully() {
    for (node, phase, options, grace) in [
        ("edge-a", "Running", "", Some(30)),
        ("edge-a", "Running", r#"{"gracePeriodSeconds":5}"#, Some(5)),
        ("edge-a", "Running", r#"{"gracePeriodSeconds":-1}"#, Some(1)),
        ("edge-a", "Running", r#"{"gracePeriodSeconds":0}"#, None),
        ("edge-a", "Succeeded", "", None),
        ("", "Pending", "", None),
    ] {
        let cluster = passive();
        let mut pod = objects::pod("a", node);
        pod["status"] = json!({"phase": phase});
        cluster.apply(pod).expect("a pod");
        let answer = call(&cluster, "DELETE", &format!("{PODS}/a"), options).await;
        assert_eq!((answer.code, text(&answer.json(), "/kind")), (200, "Pod"), "{options}");
        let pod = cluster.get("pods", "default", "a");
        assert_eq!(
            pod.as_ref().and_then(|pod| number(pod, "/metadata/deletionGracePeriodSeconds")),
            grace,
            "{options}"
        );
        assert_eq!(pod.is_some(), grace.is_some());
    }
}

#[tokio::test]
async fn a_body_silences_the_query_of_a_deletion() {
    for (query, body, grace) in [
        ("?gracePeriodSeconds=5", "", Some(5)),
        ("?gracePeriodSeconds=5", "{}", Some(30)),
        ("?gracePeriodSeconds=5", r#"{"gracePeriodSeconds":7}"#, Some(7)),
        ("?gracePeriodSeconds=x&dryRun=Some", "{}", Some(30)),
        ("?dryRun=All", "", None),
        ("?dryRun=All", "{}", Some(30)),
    ] {
        let cluster = passive();
        cluster.pod("a", "edge-a").expect("a pod");
        assert_eq!(
            call(&cluster, "DELETE", &format!("{PODS}/a{query}"), body).await.code,
            200,
            "{query} {body}"
        );
        let pod = cluster.get("pods", "default", "a").expect("it ends later, if at all");
        assert_eq!(number(&pod, "/metadata/deletionGracePeriodSeconds"), grace, "{query} {body}");
    }
}

#[tokio::test]
async fn a_pod_without_grace_ends_in_two_changes() {
    for (node, body, dry, changes) in [
        ("edge-a", r#"{"gracePeriodSeconds":0}"#, false, 2),
        ("", "{}", false, 2),
        ("", r#"{"dryRun":["All"]}"#, true, 0),
    ] {
        let cluster = passive();
        cluster.pod("a", node).expect("a pod");
        let before = cluster.revision();
        let last = call(&cluster, "DELETE", &format!("{PODS}/a"), body).await.json();
        assert_eq!(number(&last, "/metadata/deletionGracePeriodSeconds"), Some(0), "{body}");
        assert!(!text(&last, "/metadata/deletionTimestamp").is_empty(), "{body}");
        assert_eq!(cluster.revision() - before, changes, "{body}");
        assert_eq!(cluster.get("pods", "default", "a").is_some(), dry, "{body}");
    }
}

#[tokio::test]
async fn deletions_insist_on_their_preconditions() {
    let cluster = passive();
    cluster.node("edge-a").expect("a node");
    let path = "/api/v1/nodes/edge-a";
    for (body, code, message) in [
        (
            r#"{"preconditions":{"uid":"x"}}"#,
            409,
            "Operation cannot be fulfilled on Node \"edge-a\": the UID in the precondition (x)",
        ),
        (
            r#"{"preconditions":{"resourceVersion":"1"}}"#,
            409,
            "Operation cannot be fulfilled on Node \"edge-a\": the ResourceVersion",
        ),
        (r#"{"dryRun":["All"]}"#, 200, ""),
        (r#"{"dryRun":["Some"]}"#, 422, "DeleteOptions.meta.k8s.io"),
        (r#"{"gracePeriodSeconds":"x"}"#, 400, "DeleteOptions"),
    ] {
        let answer = call(&cluster, "DELETE", path, body).await;
        assert_eq!(answer.code, code, "{body}");
        assert!(text(&answer.json(), "/message").starts_with(message), "{}", answer.text);
    }
    assert_eq!(call(&cluster, "DELETE", &format!("{path}?dryRun=All"), "").await.code, 200);
    let uid = text(&cluster.get("nodes", "", "edge-a").expect("still there"), "/metadata/uid").to_owned();
    let gone = call(&cluster, "DELETE", path, &json!({"preconditions": {"uid": uid}}).to_string()).await;
    assert_eq!(
        gone.json(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "edge-a", "kind": "nodes", "uid": uid},
        })
    );
    assert_eq!(call(&cluster, "DELETE", path, "").await.code, 404);
    assert_eq!(call(&cluster, "DELETE", "/api/v1/nodes", "").await.code, 405);
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let cluster = passive();
    for (object, path) in [
        (
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "finalizers": ["x/y"]}}),
            "/api/v1/nodes/n",
        ),
        (
            {
                let mut pod = objects::pod("p", "edge-a");
                pod["metadata"]["finalizers"] = json!(["x/y"]);
                pod
            },
            "/api/v1/namespaces/default/pods/p",
        ),
    ] {
        cluster.apply(object).expect("it");
        let deleted = call(&cluster, "DELETE", path, r#"{"gracePeriodSeconds":0}"#).await.json();
        assert_eq!(number(&deleted, "/metadata/deletionGracePeriodSeconds"), Some(0), "{path}");
        assert_eq!(get(&cluster, path).await.code, 200, "{path}");
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        let freed =
            call(&cluster, "PATCH", &format!("{path}|content-type: application/merge-patch+json"), patch)
                .await;
        assert_eq!(freed.code, 200, "{path}");
        assert_eq!(get(&cluster, path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let cluster = passive();
    cluster.node("edge-a").expect("a node");
    let revision = cluster.revision();
    let patch = "|content-type: application/merge-patch+json";
    for (method, path, body, code) in [
        ("POST", "/api/v1/nodes?dryRun=All", r#"{"metadata":{"name":"b"}}"#.to_owned(), 201),
        ("POST", "/api/v1/nodes?dryRun=Some", r#"{"metadata":{"name":"b"}}"#.to_owned(), 422),
        (
            "PUT",
            "/api/v1/nodes/edge-a?dryRun=All",
            r#"{"metadata":{"name":"edge-a"},"spec":{"unschedulable":true}}"#.to_owned(),
            200,
        ),
        (
            "PATCH",
            &format!("/api/v1/nodes/edge-a?dryRun=All{patch}"),
            r#"{"spec":{"unschedulable":true}}"#.to_owned(),
            200,
        ),
        ("PATCH", &format!("/api/v1/nodes/edge-a?dryRun=x{patch}"), "{}".to_owned(), 422),
    ] {
        let answer = call(&cluster, method, path, &body).await;
        assert_eq!(answer.code, code, "{method} {path}");
        if body.contains("unschedulable") {
            assert_eq!(answer.json()["spec"]["unschedulable"], json!(true), "{method}");
        }
    }
    assert_eq!(cluster.revision(), revision);
}

#[tokio::test]
async fn the_store_is_bounded() {
    let settings = crate::Settings { max_objects: 6, ..crate::Settings::passive() };
    let cluster = FakeCluster::start_with(settings).expect("it starts");
    assert_eq!(post(&cluster, PODS, &objects::pod("a", "")).await.code, 201);
    assert_eq!(post(&cluster, PODS, &objects::pod("b", "")).await.code, 201);
    let full = post(&cluster, PODS, &objects::pod("c", "")).await;
    assert_eq!(
        (full.code, text(&full.json(), "/message")),
        (500, "etcdserver: mvcc: database space exceeded")
    );
    cluster.delete("pods", "default", "a");
    assert_eq!(post(&cluster, PODS, &objects::pod("c", "")).await.code, 201);
}

#[test]
fn the_handle_takes_objects_as_they_are() {
    let cluster = passive();
    let mut pod = objects::pod("a", "edge-a");
    pod["metadata"]["namespace"] = json!("new");
    pod["status"] = json!({"phase": "Running"});
    let first = cluster.apply(pod.clone()).expect("it");
    assert_eq!(text(&first, "/status/phase"), "Running");
    pod["status"] = json!({"phase": "Failed"});
    let second = cluster.apply(pod).expect("it");
    assert_eq!(text(&second, "/status/phase"), "Failed");
    assert_eq!(text(&first, "/metadata/uid"), text(&second, "/metadata/uid"));
    assert_eq!(number(&second, "/spec/terminationGracePeriodSeconds"), Some(30), "filled in again");
    assert_eq!(cluster.list("po", Some("new")), std::slice::from_ref(&second));
    assert_eq!(cluster.list("pods", Some("default")), Vec::<Value>::new());
    assert_eq!(cluster.pods_on("edge-a"), [second]);
    assert_eq!(cluster.list("nonsense", None), Vec::<Value>::new());
    assert_eq!(cluster.get("nonsense", "", "a"), None);
    assert!(!cluster.delete("nonsense", "", "a"));
    assert!(!cluster.delete("pods", "new", "b"));
    let unknown = cluster.apply(json!({"apiVersion": "v1", "kind": "Nonsense"})).expect_err("no such kind");
    assert_eq!(unknown.to_string(), "the API answered 400: no kind \"Nonsense\" of \"v1\" is served");
    assert_eq!(cluster.edit("pods", "new", "b", |_| {}), Ok(None));
}
