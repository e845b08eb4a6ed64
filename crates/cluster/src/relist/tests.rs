use std::time::Duration;

use drain::storage::{Attachments, ClaimView};
use drain::view::Existence;
use fake_cluster::{Effect, Fault, Limit, Reply, objects};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::testing::{attach, attached, connect_to, driver, pod_with_volume, still_cluster, storage_of};

#[tokio::test]
async fn a_relist_takes_the_last_budgets_and_costs_two_calls() {
    let (fake, cluster) = still_cluster();
    let last = Snapshot { budgets: vec![BudgetView::default()], ..Snapshot::default() };
    let snapshot = relist(&cluster, "edge-a", Some(&last), false).await.unwrap();
    assert_eq!(snapshot.budgets, last.budgets);
    let asked: Vec<_> = fake.requests().recent().into_iter().map(|r| (r.verb, r.resource, r.query)).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let query = &asked.iter().find(|(verb, ..)| verb == "list").unwrap().2;
    assert_eq!(
        query, "&fieldSelector=spec.nodeName%3Dedge-a&limit=500",
        "no resourceVersion: from the store"
    );
}

#[tokio::test]
async fn a_name_that_would_be_another_selector_is_not_sent() {
    let (fake, cluster) = still_cluster();
    let failure = relist(&cluster, "a,spec.nodeName=b", None, false).await.unwrap_err();
    assert!(matches!(failure, ApiFailure::Other { .. }), "{failure}");
    assert_eq!(fake.requests().recent(), []);
}

#[tokio::test]
async fn pages_are_as_long_as_wanted() {
    let (fake, cluster) = still_cluster();
    for number in 0..7 {
        fake.pod(&format!("p{number}"), "edge-a").unwrap();
    }
    for (page, calls, last_query) in
        [(3, 3, "limit=3"), (7, 1, "limit=7"), (0, 1, "fieldSelector=spec.nodeName%3Dedge-a")]
    {
        fake.requests().clear();
        let cluster = cluster.clone().with_page(page);
        let snapshot = relist(&cluster, "edge-a", Some(&Snapshot::default()), false).await.unwrap();
        assert_eq!(snapshot.pods.len(), 7, "{page}");
        assert_eq!(fake.requests().count("ebb/", "list", "pods"), calls, "{page}");
        let first = fake.requests().recent().into_iter().find(|request| request.resource == "pods").unwrap();
        assert!(first.query.ends_with(last_query), "{page}: {}", first.query);
    }
}

/// The clock is paused while nothing is answered, so that no time passes; it runs for the answer.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_answered_gets_a_longer_deadline_until_one_is_quick() {
    let (fake, cluster) = still_cluster();
    let deadlines = async |lists: usize| {
        fake.faults().add(Fault::on("list", "pods", Effect::Hang).always());
        let mut seconds = Vec::new();
        for _ in 0..lists {
            let begun = Instant::now();
            let failure = list_pods(&cluster, "edge-a").await.unwrap_err();
            seconds.push(begun.elapsed().as_secs());
            let limit = format!("no answer within {} s", begun.elapsed().as_secs());
            assert!(failure.text().contains(&limit), "{failure}");
        }
        fake.faults().clear();
        seconds
    };
    assert_eq!(deadlines(4).await, [10, 20, 40, 60]);
    tokio::time::resume();
    list_pods(&cluster, "edge-a").await.unwrap();
    tokio::time::pause();
    assert_eq!(deadlines(2).await, [10, 20]);
}

/// The clock is paused while the relist waits, and runs for the answers.
#[tokio::test]
async fn a_relist_begins_when_the_server_wants_to_be_asked_again() {
    let (fake, cluster) = still_cluster();
    let busy = Reply::text(503, "not now").header("retry-after", "30");
    fake.faults().add(Fault::on("list", "pods", Effect::Answer(busy)));
    relist(&cluster, "edge-a", Some(&Snapshot::default()), false).await.unwrap_err();
    tokio::time::pause();
    let lists = || fake.requests().count("ebb/", "list", "pods");
    let begin = async {
        tokio::time::sleep(Duration::from_secs(25)).await;
        assert_eq!(lists(), 1, "the server is left alone");
        tokio::time::sleep(Duration::from_secs(6)).await;
        tokio::time::resume();
    };
    let last = Snapshot::default();
    let (snapshot, ()) = tokio::join!(relist(&cluster, "edge-a", Some(&last), false), begin);
    assert!(snapshot.is_ok(), "{snapshot:?}");
    assert_eq!(lists(), 2);
}

#[tokio::test]
async fn a_list_whose_next_page_has_expired_begins_again() {
    let (fake, cluster) = still_cluster();
    let cluster = cluster.with_page(2);
    for number in 0..5 {
        fake.pod(&format!("p{number}"), "edge-a").unwrap();
    }
    let expired = || Effect::Answer(Reply::text(410, "too old"));
    let last = Snapshot::default();
    fake.faults().add(Fault::on("list", "pods", expired()).after(2));
    let pods = relist(&cluster, "edge-a", Some(&last), false).await.unwrap().pods;
    let names: Vec<_> = pods.iter().map(|pod| pod.id.name.as_str()).collect();
    assert_eq!(names, ["p0", "p1", "p2", "p3", "p4"], "each pod once");
    assert_eq!(fake.requests().count("ebb/", "list", "pods"), 6);
    // Without a continue token there is no list to begin again.
    fake.faults().add(Fault::on("list", "pods", expired()).always());
    assert!(relist(&cluster, "edge-a", Some(&last), false).await.is_err());
    assert_eq!(fake.requests().count("ebb/", "list", "pods"), 7);
}

#[tokio::test]
async fn a_list_without_end_is_given_up() {
    let (fake, cluster) = still_cluster();
    let page = json!({"kind": "PodList", "metadata": {"continue": "more"}, "items": null});
    fake.faults().add(Fault::on("list", "pods", Effect::Answer(Reply::json(200, &page))).always());
    let failure = relist(&cluster, "edge-a", Some(&Snapshot::default()), false).await.unwrap_err();
    assert!(failure.text().contains("has no end"), "{failure}");
}

#[tokio::test]
async fn half_a_relist_is_none() {
    let (fake, cluster) = still_cluster();
    for (verb, resource) in [("get", "nodes"), ("list", "pods"), ("list", "poddisruptionbudgets")] {
        fake.faults().add(Fault::on(verb, resource, Effect::Answer(Reply::timeout())).always());
        let failure = relist(&cluster, "edge-a", None, false).await.unwrap_err();
        assert!(failure.is_unreachable(), "{failure}");
        fake.faults().clear();
    }
}

#[tokio::test]
async fn a_pod_of_a_daemon_set_is_asked_about_once() {
    let (fake, cluster) = still_cluster();
    let set = fake.daemon_set("agent").unwrap();
    let uid = set.pointer("/metadata/uid").unwrap();
    for (name, owner, uid) in [("x", "agent", uid), ("y", "agent", uid), ("z", "gone", &json!("u-gone"))] {
        let mut pod = objects::pod(name, "edge-a");
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": uid, "controller": true}]);
        fake.apply(pod).unwrap();
    }
    for _ in 0..2 {
        let snapshot = relist(&cluster, "edge-a", Some(&Snapshot::default()), false).await.unwrap();
        let existences: Vec<_> =
            snapshot.pods.iter().map(|pod| pod.controller.as_ref().unwrap().existence).collect();
        assert_eq!(existences, [Existence::Present, Existence::Present, Existence::Missing]);
        assert_eq!(fake.requests().count("ebb/", "get", "daemonsets"), 2);
    }
}

#[tokio::test]
async fn a_relist_of_volumes_costs_one_call_more_for_what_is_known() {
    let (fake, cluster) = still_cluster();
    pod_with_volume(&fake, "db");
    for (volume, node) in [("vol-db", "edge-b"), ("vol-x", "edge-b"), ("vol-left", "edge-a")] {
        attach(&fake, volume, node);
    }
    let storage = Storage { attachments: Attachments::NotAsked, ..storage_of("db") };
    let last = Snapshot { storage: storage.clone(), ..Snapshot::default() };
    let snapshot = relist(&cluster, "edge-a", Some(&last), false).await.unwrap();
    assert_eq!(snapshot.storage, storage, "taken over");
    fake.requests().clear();
    let snapshot = relist(&cluster, "edge-a", Some(&last), true).await.unwrap();
    let found = [("vol-db", "edge-a"), ("vol-db", "edge-b"), ("vol-left", "edge-a")];
    let found = found.map(|(volume, node)| attached(volume, node)).to_vec();
    let missing_volumes = vec!["vol-left".to_owned()];
    let expected = Storage { attachments: Attachments::Listed(found), missing_volumes, ..storage };
    assert_eq!(snapshot.storage, expected, "all of the node, and the pod's volumes wherever they are");
    assert_eq!(fake.requests().count("ebb/", "list", "*"), 2);
    assert_eq!(
        fake.requests().count("ebb/", "get", "*"),
        3,
        "the node, the driver, and the volume that nobody uses"
    );
    let asked = fake.requests().recent().into_iter().find(|request| request.resource == "volumeattachments");
    assert_eq!(asked.unwrap().query, "&limit=500", "no resourceVersion: from the store");
}

#[tokio::test]
async fn a_relist_of_volumes_reads_by_name_what_the_pods_hang_on() {
    let (fake, cluster) = still_cluster();
    pod_with_volume(&fake, "db");
    driver(&fake, "csi.bench", false);
    let mut pod = objects::pod("lost", "edge-a");
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]);
    fake.apply(pod).unwrap();
    let snapshot = relist(&cluster, "edge-a", None, true).await.unwrap();
    let missing = ClaimView { namespace: "default".into(), name: "missing".into(), ..ClaimView::default() };
    let db = storage_of("db");
    let expected = Storage {
        claims: vec![db.claims[0].clone(), missing],
        drivers_without_attach: vec!["csi.bench".to_owned()],
        peer_takes_pods: None,
        ..db
    };
    assert_eq!(snapshot.storage, expected);
    assert_eq!(fake.requests().count("ebb/", "list", "persistentvolumeclaims"), 0);
    assert_eq!(fake.requests().count("ebb/", "get", "*"), 5, "the node, two claims, a volume, a driver");
    let denied = Reply::forbidden("edge", "get", "persistentvolumeclaims", "default", "db");
    fake.faults().add(Fault::on("get", "persistentvolumeclaims", Effect::Answer(denied)).always());
    let storage = relist(&cluster, "edge-a", None, true).await.unwrap().storage;
    let needed = "needs the right to `get` `persistentvolumeclaims`";
    assert!(storage.claims_unreadable.is_some_and(|text| text.contains(needed)));
}

#[tokio::test]
async fn a_relist_without_attachments() {
    let (fake, cluster) = still_cluster();
    let snapshot = async || relist(&cluster, "edge-a", Some(&Snapshot::default()), true).await;
    fake.faults().unserve("volumeattachments");
    assert_eq!(
        snapshot().await.unwrap().storage.attachments,
        Attachments::NotServed,
        "the server says so itself"
    );
    fake.faults().clear();
    let fault = |effect| fake.faults().add(Fault::on("list", "volumeattachments", effect));
    fault(Effect::Answer(Reply::forbidden("edge", "list", "volumeattachments", "", "")));
    let attachments = snapshot().await.unwrap().storage.attachments;
    let needed = "needs the right to `list` `volumeattachments`";
    assert!(
        matches!(&attachments, Attachments::Unreadable(text) if text.contains(needed)),
        "{attachments:?}"
    );
    for effect in [Effect::ResetBefore, Effect::Answer(Reply::text(404, "404 page not found"))] {
        fault(effect.clone());
        let failure = snapshot().await.unwrap_err();
        assert!(failure.text().starts_with("cannot list volumeattachments: "), "{effect:?}: {failure}");
    }
}

/// A kubelet may not see it, a proxy says 404 about everything: neither makes a PersistentVolume missing.
#[tokio::test]
async fn only_an_api_servers_word_makes_a_volume_missing() {
    let (fake, cluster) = still_cluster();
    attach(&fake, "vol-left", "edge-a");
    let missing = async || full_snapshot(&cluster, "edge-a").await.unwrap().storage.missing_volumes;
    assert_eq!(missing().await, ["vol-left"]);
    let hidden = json!({
        "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "persistentvolumes \"vol-left\" is forbidden: no relationship found between node 'edge-a' and this object",
    });
    let denied = Reply::forbidden("edge", "get", "persistentvolumes", "", "vol-left");
    for answer in [Reply::json(403, &hidden), denied, Reply::text(404, "404 page not found")] {
        fake.faults().add(Fault::on("get", "persistentvolumes", Effect::Answer(answer.clone())));
        assert_eq!(missing().await, [""; 0], "{answer:?}");
    }
}

#[tokio::test]
async fn only_an_api_servers_word_makes_a_node_gone() {
    let (fake, cluster) = still_cluster();
    let status = |name: &str, kind: &str, reason: &str| {
        let details = json!({"name": name, "kind": kind});
        Reply::json(
            404,
            &json!({"kind": "Status", "status": "Failure", "reason": reason, "code": 404, "details": details}),
        )
    };
    for (answer, is_gone) in [
        (Reply::text(404, "404 page not found"), false),
        (Reply::json(404, &json!({"error": "no route"})), false),
        (status("edge-b", "nodes", "NotFound"), false),
        (status("edge-a", "pods", "NotFound"), false),
        (status("edge-a", "nodes", "Expired"), false),
        (status("edge-a", "nodes", "NotFound"), true),
    ] {
        fake.faults().add(Fault::on("get", "nodes", Effect::Answer(answer.clone())));
        let found = get_node(&cluster, "edge-a").await;
        assert_eq!(found == Ok(None), is_gone, "{answer:?}: {found:?}");
        if let Err(failure) = found {
            assert!(failure.text().contains("404, but not an API server's word"), "{failure}");
            assert!(!failure.is_unreachable() && !matches!(failure, ApiFailure::NotFound { .. }));
        }
    }
    fake.delete("nodes", "", "edge-a");
    assert_eq!(get_node(&cluster, "edge-a").await, Ok(None), "as the server itself says it");
}

#[tokio::test]
async fn a_full_snapshot_is_as_good_as_an_informers() {
    let (fake, cluster) = still_cluster();
    fake.budget("db", Limit::MinAvailable("1")).unwrap();
    fake.pod("plain", "edge-a").unwrap();
    let snapshot = full_snapshot(&cluster, "edge-a").await.unwrap();
    let nothing = Storage { attachments: Attachments::Listed(Vec::new()), ..Storage::default() };
    assert_eq!((snapshot.pods.len(), snapshot.budgets.len(), snapshot.storage), (1, 1, nothing));
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 4);
    pod_with_volume(&fake, "db");
    pod_with_volume(&fake, "elsewhere");
    fake.delete("pods", "default", "elsewhere");
    fake.edit("pods", "default", "elsewhere", |pod| pod["spec"]["nodeName"] = json!("edge-b")).unwrap();
    driver(&fake, "csi.bench", true);
    fake.node("edge-b").unwrap();
    fake.requests().clear();
    let snapshot = full_snapshot(&cluster, "edge-a").await.unwrap();
    let both = vec![attached("vol-db", "edge-a"), attached("vol-elsewhere", "edge-a")];
    let expected =
        Storage { attachments: Attachments::Listed(both), peer_takes_pods: Some(true), ..storage_of("db") };
    assert_eq!(snapshot.storage, expected);
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 9);
    let mut informer = crate::Informer::start(&connect_to(&fake), "edge-a");
    crate::testing::soon(async { while *informer.changed().await != snapshot {} }).await;
}

#[tokio::test]
async fn a_full_snapshot_does_without_what_it_is_not_shown() {
    let (fake, cluster) = still_cluster();
    pod_with_volume(&fake, "db");
    let known = storage_of("db");
    let cases = [
        ("get", "persistentvolumes", Storage { volumes: vec![], ..known.clone() }),
        ("get", "csidrivers", known.clone()),
        ("list", "nodes", Storage { peer_takes_pods: None, ..known }),
    ];
    for (verb, resource, expected) in cases {
        let denied = || Effect::Answer(Reply::forbidden("edge", verb, resource, "", ""));
        fake.faults().add(Fault::on(verb, resource, denied()).always());
        assert_eq!(full_snapshot(&cluster, "edge-a").await.unwrap().storage, expected, "{resource}");
        fake.faults().clear();
    }
    fake.faults().add(Fault::on("list", "nodes", Effect::ResetBefore).always());
    let failure = full_snapshot(&cluster, "edge-a").await.unwrap_err();
    assert!(failure.is_unreachable(), "{failure}");
}
