//! Tests POST and PUT: what is refused, and what is the server's; and the handle.

use serde_json::{Value, json};

use super::{call, passive};
use crate::object::{number, text};
use crate::{FakeCluster, objects};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn post(cluster: &FakeCluster, path: &str, body: &Value) -> super::Answer {
    call(cluster, "POST", path, &body.to_string()).await
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
async fn a_name_is_taken_until_its_pod_is_gone() {
    let cluster = passive();
    cluster.pod("going", "edge-a").expect("a pod");
    cluster.delete("pods", "default", "going");
    let refused = (409, "AlreadyExists", "object is being deleted: pods \"going\" already exists");
    check_refused(&cluster, PODS, &objects::pod("going", ""), refused).await;
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
        ("/api/v1/nodes/edge-a", r#"{"metadata":{"name":"edge-b"}}"#, 400),
        ("/api/v1/nodes/edge-b", r#"{"metadata":{"name":"edge-b"}}"#, 404),
        ("/api/v1/nodes/edge-a", r#"{"metadata":{"name":"edge-a","uid":"other"}}"#, 409),
        ("/api/v1/nodes", r#"{"metadata":{"name":"edge-a"}}"#, 405),
    ] {
        assert_eq!(call(&cluster, "PUT", path, body).await.code, code, "{path} {body}");
    }
}

#[tokio::test]
async fn a_lease_needs_a_version() {
    let cluster = passive();
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/slot-0";
    let body = r#"{"metadata":{"name":"slot-0"},"spec":{"holderIdentity":"edge-a"}}"#;
    assert_eq!(call(&cluster, "PUT", path, body).await.code, 201);
    let zero = r#"{"metadata":{"name":"slot-0","resourceVersion":"0"},"spec":{"holderIdentity":"edge-a"}}"#;
    for blind in [body, zero] {
        assert_eq!(call(&cluster, "PUT", path, blind).await.code, 422, "{blind}");
    }
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
