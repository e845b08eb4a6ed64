use drain::storage::{Attachments, Storage};
use drain::view::Existence;
use fake_cluster::{Effect, Fault, Reply, objects};
use serde_json::{Value, json};

use super::*;
use crate::testing::{attach, attached, driver, pod_with_volume, soon, still_cluster, storage_of};

/// Waits for a snapshot for which the condition is true.
async fn seen(informer: &mut Informer, condition: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    soon(async {
        loop {
            let snapshot = informer.changed().await;
            if condition(&snapshot) {
                return snapshot;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_heartbeat_is_no_change() {
    let (fake, cluster) = still_cluster();
    let mut informer = Informer::start(&cluster, "edge-a");
    soon(informer.changed()).await;
    fake.edit("nodes", "", "edge-a", |node| node["status"]["images"] = json!([])).unwrap();
    fake.pod("a", "edge-a").unwrap();
    let snapshot = soon(informer.changed()).await;
    assert_eq!(snapshot.pods.len(), 1, "the first new snapshot is that of the pod");
}

fn pod_of_daemon_set(name: &str, owner: &str) -> Value {
    let mut pod = objects::pod(name, "edge-a");
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": owner, "controller": true}]);
    pod
}

#[tokio::test]
async fn owners_are_known_from_the_first_snapshot_on() {
    let (fake, cluster) = still_cluster();
    fake.apply(pod_of_daemon_set("orphan", "gone")).unwrap();
    fake.daemon_set("agent").unwrap();
    fake.apply(pod_of_daemon_set("agent-1", "agent")).unwrap();
    fake.apply(pod_of_daemon_set("agent-2", "agent")).unwrap();
    fake.apply(pod_of_daemon_set("hidden", "hidden")).unwrap();
    let denied = Reply::forbidden("edge", "get", "daemonsets", "default", "hidden");
    fake.faults().add(Fault::on("get", "daemonsets", Effect::Answer(denied)).named("hidden"));
    let mut informer = Informer::start(&cluster, "edge-a");
    let snapshot = soon(informer.changed()).await;
    let existences: Vec<_> =
        snapshot.pods.iter().map(|pod| pod.controller.as_ref().unwrap().existence).collect();
    let (present, unknown, missing) = (Existence::Present, Existence::Unknown, Existence::Missing);
    assert_eq!(existences, [present, present, unknown, missing]);
    assert_eq!(fake.requests().count("ebb/", "get", "daemonsets"), 3);
    // The DaemonSet of a pod that comes later is asked for as well.
    fake.apply(pod_of_daemon_set("orphan-2", "gone-2")).unwrap();
    let is_missing = |pod: &drain::PodView| pod.controller.as_ref().unwrap().existence == missing;
    seen(&mut informer, |snapshot| snapshot.pods.iter().filter(|pod| is_missing(pod)).count() == 2).await;
}

#[tokio::test]
async fn nothing_is_shown_until_all_three_watches_have_listed() {
    let (fake, cluster) = still_cluster();
    let denied = Reply::forbidden("edge", "list", "poddisruptionbudgets", "", "");
    fake.faults().add(Fault::on("list", "poddisruptionbudgets", Effect::Answer(denied)));
    let mut informer = Informer::start(&cluster, "edge-a");
    let failure = soon(informer.failures().next()).await;
    assert!(matches!(failure, ApiFailure::Denied { .. }), "{failure:?}");
    assert_eq!(informer.latest(), None);
    assert_eq!(informer.last_error(), Some(failure));
    soon(informer.changed()).await;
    assert_eq!(informer.last_error(), None, "all is well again");
}

#[tokio::test]
async fn a_name_that_no_node_can_have_shows_nothing() {
    let (fake, cluster) = still_cluster();
    fake.pod("a", "edge-a").unwrap();
    let mut informer = Informer::start(&cluster, "x,metadata.name!=y");
    assert_eq!(*soon(informer.changed()).await, Snapshot::default());
}

#[tokio::test]
async fn storage_is_watched_from_the_first_claim_on() {
    let (fake, cluster) = still_cluster();
    fake.pod("plain", "edge-a").unwrap();
    attach(&fake, "vol-x", "edge-b");
    let mut informer = Informer::start(&cluster, "edge-a");
    assert_eq!(soon(informer.changed()).await.storage, Storage::default());
    pod_with_volume(&fake, "db");
    let has_db = |snapshot: &Snapshot| snapshot.pods.iter().any(|pod| pod.id.name == "db");
    let snapshot = seen(&mut informer, has_db).await;
    let mut expected = storage_of("db");
    // Other nodes are not waited for.
    assert_eq!(
        snapshot.storage.attachments, expected.attachments,
        "there in the first snapshot that shows the pod"
    );
    assert_eq!(snapshot.storage.claims, expected.claims);
    if snapshot.storage != expected {
        seen(&mut informer, |snapshot| snapshot.storage == expected).await;
    }
    fake.node("edge-b").unwrap();
    seen(&mut informer, |snapshot| snapshot.storage.peer_takes_pods == Some(true)).await;
    expected.peer_takes_pods = Some(true);
    // The pod goes, and its claim too: what the pod used is remembered.
    fake.edit("pods", "default", "db", |pod| pod["metadata"]["deletionGracePeriodSeconds"] = json!(0))
        .unwrap();
    fake.delete("persistentvolumeclaims", "default", "db");
    fake.delete("volumeattachments", "", "vol-db-edge-a");
    let gone = Attachments::Listed(vec![]);
    let snapshot = seen(&mut informer, |snapshot| snapshot.storage.attachments == gone).await;
    assert_eq!(snapshot.storage, Storage { attachments: gone, ..expected });
}

#[tokio::test]
async fn what_other_nodes_claim_makes_no_snapshot() {
    let (fake, cluster) = still_cluster();
    pod_with_volume(&fake, "db");
    let mut informer = Informer::start(&cluster, "edge-a");
    let first = soon(informer.changed()).await;
    fake.apply(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "other"}}))
        .unwrap();
    fake.apply(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "other"}}))
        .unwrap();
    driver(&fake, "csi.bench", true);
    fake.edit("nodes", "", "edge-a", |node| node["metadata"]["labels"]["x"] = json!("y")).unwrap();
    attach(&fake, "vol-other", "edge-b");
    attach(&fake, "vol-db", "edge-b");
    let second =
        seen(&mut informer, |snapshot| snapshot.storage.attachments != first.storage.attachments).await;
    assert_eq!(second.storage.claims, first.storage.claims);
    let both = vec![attached("vol-db", "edge-a"), attached("vol-db", "edge-b")];
    assert_eq!(
        second.storage.attachments,
        Attachments::Listed(both),
        "what other volumes are attached to elsewhere is no matter of ours"
    );
}

/// A clock on which 30 s, the time that a refusal has to last, pass in a third of a second.
fn hasty() -> drain::Moment {
    drain::Moment(crate::clock::boot_time().0 * 100)
}

fn hasty_informer(cluster: &Cluster) -> Informer {
    Informer::sharing(&SharedWatches::default(), cluster, "edge-a", hasty)
}

#[tokio::test]
async fn attachments_that_cannot_be_had_hold_nothing_up() {
    let (fake, cluster) = still_cluster();
    pod_with_volume(&fake, "db");
    fake.faults().unserve("volumeattachments");
    let mut informer = hasty_informer(&cluster);
    // A snapshot does not wait for the other nodes, so the first one may not contain them yet.
    let unserved = Storage { attachments: Attachments::NotServed, ..storage_of("db") };
    seen(&mut informer, |snapshot| snapshot.storage == unserved).await;
    assert_eq!(informer.last_error(), None, "the snapshot contains it");
    fake.faults().serve("volumeattachments");
    let served = storage_of("db");
    seen(&mut informer, |snapshot| snapshot.storage == served).await;
    let denied = || Effect::Answer(Reply::forbidden("edge", "list", "volumeattachments", "", ""));
    fake.faults().add(Fault::on("watch", "volumeattachments", denied()).always());
    let mut informer = hasty_informer(&cluster);
    seen(&mut informer, |snapshot| snapshot.storage == served).await;
    fake.faults().clear();
    fake.faults().add(Fault::on("list", "volumeattachments", denied()).always());
    let mut informer = hasty_informer(&cluster);
    let needed = "needs the right to `list` `volumeattachments`";
    let is_denied = |snapshot: &Snapshot| matches!(&snapshot.storage.attachments, Attachments::Unreadable(text) if text.contains(needed));
    seen(&mut informer, is_denied).await;
}

#[tokio::test]
async fn what_is_not_shown_counts_as_unknown() {
    let (fake, cluster) = still_cluster();
    pod_with_volume(&fake, "db");
    let known = storage_of("db");
    let needed = "needs the right to `get` `persistentvolumeclaims`";
    let without_claims = Storage { claims: vec![], volumes: vec![], ..known.clone() };
    let cases = [
        ("get", "persistentvolumeclaims", without_claims, true),
        ("get", "persistentvolumes", Storage { volumes: vec![], ..known.clone() }, false),
        ("get", "csidrivers", known.clone(), false),
        ("list", "nodes", Storage { peer_takes_pods: None, ..known }, false),
    ];
    for (verb, resource, expected, is_told) in cases {
        let denied = Effect::Answer(Reply::forbidden("edge", verb, resource, "", ""));
        // The Node itself is listed first.
        let listed_before = u32::from(resource == "nodes");
        fake.faults().add(Fault::on(verb, resource, denied).after(listed_before).always());
        let mut informer = hasty_informer(&cluster);
        // The list of other nodes is not waited for.
        let expects_peers = resource != "nodes";
        let snapshot =
            seen(&mut informer, |snapshot| snapshot.storage.peer_takes_pods.is_some() == expects_peers).await;
        let why = snapshot.storage.claims_unreadable.clone();
        assert_eq!(
            why.as_ref().is_some_and(|why| why.ends_with(needed)),
            resource == "persistentvolumeclaims"
        );
        assert_eq!(snapshot.storage, Storage { claims_unreadable: why, ..expected }, "{resource}");
        assert!(snapshot.node.is_some(), "{resource}");
        let told = informer.last_error();
        assert_eq!(told.is_some(), is_told, "{resource}: {told:?}");
        fake.faults().clear();
    }
}

#[tokio::test]
async fn an_unready_node_is_unhealthy_for_as_long_as_it_says() {
    let (fake, cluster) = still_cluster();
    fake.edit("nodes", "", "edge-a", |node| {
        node["status"]["conditions"] =
            json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
    })
    .unwrap();
    // The server's time is known from its answers to calls; answers to watches do not count.
    crate::get_node(&cluster, "edge-a").await.unwrap();
    let mut informer = Informer::start(&cluster, "edge-a");
    let unhealthy = soon(informer.changed()).await.node.clone().unwrap().unhealthy.unwrap();
    assert_eq!(unhealthy.condition, "NotReady");
    assert!(unhealthy.lasting > std::time::Duration::from_hours(24), "{unhealthy:?}");
}
