//! Tests the bound of the store, and the handle.

use serde_json::{Value, json};

use super::{call, passive};
use crate::object::{number, text};
use crate::{FakeCluster, objects};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn post(cluster: &FakeCluster, path: &str, body: &Value) -> super::Answer {
    call(cluster, "POST", path, &body.to_string()).await
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
    assert_eq!(cluster.list("pods", Some("new")), std::slice::from_ref(&second));
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
