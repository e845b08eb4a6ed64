//! The cost of a drain for the API server: each request is counted, by verb and resource.
//!
//! Only on the fake, whose watches end and whose answers fail only when the case says so: on a real server a request
//! may have to be repeated.

use std::collections::BTreeMap;

use anyhow::Result;
use contract::objects::{self, Kubelet};
use contract::{Objects, Target};
use drain::Outcome;

use crate::control::crowd;
use crate::disks::Disks;
use crate::scene::{Scene, end, patient};

/// Requests of any drain, besides one `create pods/eviction` for each pod: the cordon reads and writes the node, three
/// watches list first, and the final check reads the node and lists its pods and all attachments (one page for each
/// 500).
const OF_ANY: [(&str, &str, usize); 9] = [
    ("get", "nodes", 2),
    ("patch", "nodes", 1),
    ("list", "nodes", 1),
    ("watch", "nodes", 1),
    ("list", "pods", 2),
    ("watch", "pods", 1),
    ("list", "poddisruptionbudgets", 1),
    ("watch", "poddisruptionbudgets", 1),
    ("list", "volumeattachments", 1),
];

/// Additional requests for each DaemonSet with a pod on the node.
const OF_A_DAEMON_SET: (&str, &str, usize) = ("get", "daemonsets", 1);

/// Additional requests if there is any claim, whatever the number of claims: two more watches list first (one page for
/// each 500 objects of the cluster), and the CSI driver of the volumes is read. The second watch is on the other nodes.
const OF_VOLUMES: [(&str, &str, usize); 5] = [
    ("list", "volumeattachments", 1),
    ("watch", "volumeattachments", 1),
    ("list", "nodes", 1),
    ("watch", "nodes", 1),
    ("get", "csidrivers", 1),
];

/// Additional requests for each claim, which is read once, as its volume is.
const OF_A_CLAIM: [&str; 2] = ["persistentvolumeclaims", "persistentvolumes"];

type Counts = BTreeMap<(String, String), usize>;

fn sum(rows: impl IntoIterator<Item = (&'static str, &'static str, usize)>) -> Counts {
    let mut counts = Counts::new();
    for (verb, resource, times) in rows {
        *counts.entry((verb.to_owned(), resource.to_owned())).or_default() += times;
    }
    counts
}

/// Drains the scene's node and counts the requests.
async fn count(scene: &Scene<'_>) -> Result<Counts> {
    assert_eq!(end(&mut scene.drain(patient())).await?, Outcome::Drained);
    let mut counts = Counts::new();
    for asked in scene.client.asked()? {
        *counts.entry((asked.verb, asked.resource)).or_default() += 1;
    }
    Ok(counts)
}

pub(crate) async fn a_drain_without_volumes_costs_one_request_for_each_pod_and_twelve(
    target: &Target,
) -> Result<()> {
    const PODS: usize = 100;
    let scene = Scene::new(target, "counts").await?;
    let daemon = objects::daemon_set("agent", &scene.place.namespace);
    scene.place.create("daemonsets", &daemon).await?;
    let runs = |pods: &Objects| pods.values().any(|pod| pod["status"]["phase"] == "Running").then_some(());
    scene.place.caller().until_all("the daemon runs", &scene.place.path("pods"), "", runs).await?;
    crowd(&scene, PODS).await?;
    let evictions = ("create", "pods/eviction", PODS);
    let expected = sum(OF_ANY.into_iter().chain([OF_A_DAEMON_SET, evictions]));
    assert_eq!(expected.values().sum::<usize>(), PODS + 12);
    assert_eq!(count(&scene).await?, expected);
    Ok(())
}

pub(crate) async fn a_drain_with_volumes_costs_two_more_for_each_claim_and_five(
    target: &Target,
) -> Result<()> {
    const PODS: usize = 10;
    let scene = Scene::new(target, "counts").await?;
    let disks = Disks::new(&scene.place).await?;
    for number in 0..PODS {
        disks.pod_with_disk(&format!("pod-{number}"), Kubelet::Quick).await?;
    }
    let of_claims = OF_A_CLAIM.map(|resource| ("get", resource, PODS));
    let evictions = ("create", "pods/eviction", PODS);
    let expected = sum(OF_ANY.into_iter().chain(OF_VOLUMES).chain(of_claims).chain([evictions]));
    assert_eq!(expected.values().sum::<usize>(), 3 * PODS + 16);
    assert_eq!(count(&scene).await?, expected);
    Ok(())
}
