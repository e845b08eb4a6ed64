//! The eviction subresource, as far as the contract tests do not ask a real server too: wrong bodies that our agents never
//! send, and an answer that only a fault gives.

use serde_json::json;

use super::{call, passive};
use crate::Reply;
use crate::object::text;

#[tokio::test]
async fn bodies_that_are_wrong() {
    for (body, query, message) in [
        (json!({"kind": "Pod", "apiVersion": "v1"}), "", "the object provided is unrecognized"),
        (
            json!({"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": "7"}}),
            "",
            "DeleteOptions: gracePeriodSeconds",
        ),
        (
            json!({"metadata": {"name": "a"}, "deleteOptions": {"grace": 7}}),
            "?fieldValidation=Strict",
            "Eviction in version",
        ),
    ] {
        let cluster = passive();
        cluster.pod("a", "edge-a").expect("a pod");
        let path = format!("/api/v1/namespaces/default/pods/a/eviction{query}");
        let answer = call(&cluster, "POST", &path, &body.to_string()).await;
        assert_eq!(answer.code, 400, "{body}");
        assert!(text(&answer.json(), "/message").starts_with(message), "{body}: {}", answer.text);
    }
}

/// As measured on version 1.34.2.
#[test]
fn the_answer_of_a_server_whose_etcd_hangs() {
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: request did not complete within requested timeout - context deadline exceeded","reason":"Timeout","details":{},"code":504}"#;
    let reply = Reply::timeout();
    assert_eq!((reply.code, reply.headers), (504, vec![]));
    assert_eq!(reply.body, format!("{body}\n"));
}
