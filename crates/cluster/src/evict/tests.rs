use fake_cluster::{Effect, FakeCluster, Fault, Reply};
use serde_json::json;

use super::*;
use crate::testing::{cordoned, json, last, still_cluster};

/// A pod on `edge-a`, and the `Cordoned` with which it may be evicted.
async fn a_pod() -> (FakeCluster, Cluster, Cordoned, PodId) {
    let (fake, cluster) = still_cluster();
    let pod = fake.pod("web-1", "edge-a").unwrap();
    let uid = pod.pointer("/metadata/uid").unwrap().as_str().unwrap().to_owned();
    let cordoned = cordoned(&cluster).await;
    (fake, cluster, cordoned, PodId { namespace: "default".to_owned(), name: "web-1".to_owned(), uid })
}

#[tokio::test]
async fn an_eviction_as_it_is_sent() {
    let (fake, cluster, cordoned, pod) = a_pod().await;
    let answer = evict(&cluster, &cordoned, &pod, Some(Duration::from_millis(6_001))).await;
    assert_eq!(answer, Answer::Accepted);
    let sent = last(&fake, "create", "pods/eviction");
    assert_eq!((sent.namespace.as_str(), sent.name.as_str()), ("default", "web-1"));
    assert_eq!(sent.query, "fieldValidation=Strict");
    assert_eq!(sent.user_agent, concat!("ebb/", env!("CARGO_PKG_VERSION")));
    let expected = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "deleteOptions": {"gracePeriodSeconds": 7, "preconditions": {"uid": pod.uid}},
        "metadata": {"name": "web-1", "namespace": "default"},
    });
    assert_eq!(json(&sent.body), expected);
}

#[tokio::test]
async fn an_eviction_with_the_pods_own_grace_names_none() {
    let (fake, cluster, cordoned, pod) = a_pod().await;
    assert_eq!(evict(&cluster, &cordoned, &pod, None).await, Answer::Accepted);
    let sent = json(&last(&fake, "create", "pods/eviction").body);
    assert_eq!(sent["deleteOptions"], json!({"preconditions": {"uid": pod.uid}}));
}

#[tokio::test]
async fn a_deletion_as_it_is_sent() {
    let (fake, cluster, cordoned, pod) = a_pod().await;
    assert_eq!(delete(&cluster, &cordoned, &pod, Some(Duration::from_secs(5))).await, Answer::Accepted);
    let sent = last(&fake, "delete", "pods");
    assert_eq!(sent.query, "");
    let expected = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 5,
        "preconditions": {"uid": pod.uid},
    });
    assert_eq!(json(&sent.body), expected);
}

#[tokio::test]
async fn a_server_without_evictions_is_believed_only_by_its_own_list() {
    let (fake, cluster, cordoned, pod) = a_pod().await;
    let lost = Effect::Answer(Reply::text(404, "404 page not found\n"));
    fake.faults().add(Fault::on("*", "*", lost).always());
    let answer = evict(&cluster, &cordoned, &pod, None).await;
    assert!(matches!(&answer, Answer::Retry { text } if text.contains("get /api/v1")), "{answer:?}");
    fake.faults().clear();
    fake.faults().unserve("pods/eviction");
    assert_eq!(would_evict(&cluster, &pod, None).await, Answer::NoEvictions);
}

#[tokio::test]
async fn a_name_that_would_be_another_path_is_not_sent() {
    let (fake, cluster, cordoned, pod) = a_pod().await;
    fake.requests().clear();
    for (namespace, name) in [("default", "a/../b"), ("", "a"), ("default", "a?dryRun=All")] {
        let pod = PodId { namespace: namespace.to_owned(), name: name.to_owned(), ..pod.clone() };
        let answer = evict(&cluster, &cordoned, &pod, None).await;
        assert!(matches!(answer, Answer::Rejected { .. }), "{answer:?}");
    }
    assert_eq!(fake.requests().recent(), []);
}

#[test]
fn a_part_of_a_second_never_becomes_a_kill() {
    let cases = [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2)];
    for (millis, seconds) in cases {
        assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds, "{millis}");
    }
    assert_eq!(whole_seconds(Duration::MAX), i64::MAX);
}
