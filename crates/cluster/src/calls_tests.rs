use drain::storage::Attachments;
use fake_cluster::{Effect as FaultEffect, FakeCluster, Fault};

use super::*;
use crate::testing::{attach, attached, cordoned, soon, still_cluster};

async fn calls_on(pods: &[&str]) -> (FakeCluster, Calls, Vec<PodId>) {
    let (fake, cluster) = still_cluster();
    let ids = pods.iter().map(|name| {
        let pod = fake.pod(name, "edge-a").unwrap();
        let uid = pod.pointer("/metadata/uid").unwrap().as_str().unwrap().to_owned();
        PodId { namespace: "default".to_owned(), name: (*name).to_owned(), uid }
    });
    let ids = ids.collect();
    let proof = cordoned(&cluster).await;
    (fake, Calls::new(cluster, proof), ids)
}

#[tokio::test]
async fn each_effect_ends_in_its_event() {
    let (fake, mut calls, ids) = calls_on(&["a", "b", "c"]).await;
    let [a, b, c] = &ids[..] else { panic!("{ids:?}") };
    calls.perform(Effect::Evict { attempt: 3, pod: a.clone(), grace: None }, None);
    let event = soon(calls.next()).await;
    assert_eq!(event, Event::Answer { attempt: 3, uid: a.uid.clone(), answer: Answer::Accepted });
    calls.perform(Effect::Delete { attempt: 4, pod: b.clone(), grace: None }, None);
    let event = soon(calls.next()).await;
    assert_eq!(event, Event::Answer { attempt: 4, uid: b.uid.clone(), answer: Answer::Accepted });
    calls.perform(Effect::Relist { attempt: 5, volumes: false }, Some(&Arc::default()));
    let Event::Relisted { attempt: 5, result: Ok(snapshot) } = soon(calls.next()).await else {
        panic!("no proof")
    };
    assert!(snapshot.pods.iter().any(|pod| pod.id == *c));
    fake.faults().add(Fault::on("list", "pods", FaultEffect::ResetBefore));
    calls.perform(Effect::Relist { attempt: 6, volumes: false }, Some(&Arc::default()));
    let Event::Relisted { attempt: 6, result: Err(text) } = soon(calls.next()).await else {
        panic!("no failure")
    };
    assert!(text.starts_with("cannot list pods: "), "{text}");
    let inquiry = drain::Inquiry {
        controller_manager: true,
        longhorn: Some("x".to_owned()),
        ..drain::Inquiry::default()
    };
    calls.perform(Effect::Inquire { attempt: 7, inquiry: Arc::new(inquiry) }, None);
    let Event::Found { attempt: 7, findings } = soon(calls.next()).await else { panic!("no findings") };
    assert_eq!(findings.trouble.len(), 2, "its two questions about Longhorn: {findings:?}");
    calls.perform(Effect::WakeAt(drain::Moment(1)), None);
    assert_eq!(calls.in_flight(), 0);
}

#[tokio::test]
async fn a_proof_looks_at_volumes_only_if_it_has_to() {
    let (fake, mut calls, _) = calls_on(&[]).await;
    attach(&fake, "vol-1", "edge-a");
    attach(&fake, "vol-2", "edge-b");
    let cases =
        [(false, Attachments::NotAsked), (true, Attachments::Listed(vec![attached("vol-1", "edge-a")]))];
    for (volumes, expected) in cases {
        calls.perform(Effect::Relist { attempt: 1, volumes }, Some(&Arc::default()));
        let Event::Relisted { result: Ok(snapshot), .. } = soon(calls.next()).await else {
            panic!("no proof")
        };
        assert_eq!(snapshot.storage.attachments, expected);
    }
}

#[tokio::test]
async fn abort_gives_up_what_is_in_flight() {
    let (fake, mut calls, ids) = calls_on(&["a", "b"]).await;
    fake.faults().add(Fault::on("create", "pods/eviction", FaultEffect::Hang).always());
    for pod in &ids {
        calls.perform(Effect::Evict { attempt: 1, pod: pod.clone(), grace: None }, None);
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
