//! Tests PATCH over HTTP: what is refused.

use serde_json::{Value, json};

use super::{Answer, call, passive};
use crate::FakeCluster;
use crate::object::text;

const NODE: &str = "/api/v1/nodes/edge-a";

async fn patch(cluster: &FakeCluster, path: &str, format: &str, body: &Value) -> Answer {
    call(cluster, "PATCH", &format!("{path}|content-type: application/{format}"), &body.to_string()).await
}

#[tokio::test]
async fn patches_that_are_refused() {
    let cluster = passive();
    cluster.node("edge-a").expect("a node");
    for (path, format, body, code) in [
        (NODE, "merge-patch+json", json!({"metadata": {"uid": "other"}}), 409),
        (NODE, "merge-patch+json", json!({"metadata": {"name": "other"}}), 400),
        (NODE, "merge-patch+json", json!({"kind": "Pod"}), 400),
        (NODE, "merge-patch+json", json!([]), 400),
        (NODE, "json-patch+json", json!([]), 415),
        (NODE, "apply-patch+yaml", json!({}), 415),
        (NODE, "json", json!({}), 415),
        ("/api/v1/nodes", "merge-patch+json", json!({}), 405),
    ] {
        let before = cluster.get("nodes", "", "edge-a");
        let refused = patch(&cluster, path, format, &body).await;
        assert_eq!(refused.code, code, "{format} {body}");
        assert_eq!(code == 415, text(&refused.json(), "/reason") == "UnsupportedMediaType");
        assert_eq!(cluster.get("nodes", "", "edge-a"), before, "{format} {body}");
    }
    let current =
        text(&cluster.get("nodes", "", "edge-a").expect("it"), "/metadata/resourceVersion").to_owned();
    let right = json!({"metadata": {"resourceVersion": current, "labels": {"a": "b"}}});
    assert_eq!(patch(&cluster, NODE, "merge-patch+json; charset=utf-8", &right).await.code, 200);
}
