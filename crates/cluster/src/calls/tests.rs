use fake_cluster::{Effect as FaultEffect, Fault};

use super::*;
use crate::testing::{cordoned, soon, still_cluster};

#[tokio::test]
async fn abort_gives_up_what_is_in_flight() {
    let (fake, cluster) = still_cluster();
    let proof = cordoned(&cluster).await;
    let mut calls = Calls::new(cluster, proof, EvictionLimits::default());
    fake.faults().add(Fault::on("create", "pods/eviction", FaultEffect::Hang).always());
    for name in ["a", "b"] {
        fake.pod(name, "edge-a").unwrap();
        let pod = PodId { namespace: "default".to_owned(), name: name.to_owned(), ..PodId::default() };
        calls.perform(Effect::Evict { attempt: 1, pod, grace: None }, None);
    }
    soon(async {
        while fake.requests().peak("create", "pods/eviction") < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(calls.in_flight(), 2);
    calls.perform(Effect::Abort, None);
    assert_eq!(calls.in_flight(), 0);
    fake.faults().clear();
    // The next call's answer is the next event: no answer of an aborted call comes late.
    calls.perform(Effect::Relist { attempt: 2, volumes: false }, Some(&Arc::default()));
    assert!(matches!(soon(calls.next()).await, Event::Relisted { attempt: 2, .. }));
    for pod in fake.pods_on("edge-a") {
        assert_eq!(pod.pointer("/metadata/deletionTimestamp"), None, "the server never acted");
    }
}
