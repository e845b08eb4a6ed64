//! Shared by the tests of this crate: our real client against the fake cluster.

use std::time::Duration;

use drain::storage::{AttachmentView, Attachments, ClaimView, CsiSource, Storage, VolumeView};
use fake_cluster::{FakeCluster, Settings, objects};
use kube::Config;
use serde_json::{Value, json};

use crate::cordon::{Cordoned, cordon};
use crate::wire::Cluster;

/// A client of the fake cluster.
pub(crate) fn connect_to(fake: &FakeCluster) -> Cluster {
    at(&fake.server_url())
}

/// A client of the server at this address.
pub(crate) fn at(url: &str) -> Cluster {
    Cluster::from_config(Config::new(url.parse().unwrap()), "").unwrap()
}

/// A cluster without controllers, with one node.
pub(crate) fn still_cluster() -> (FakeCluster, Cluster) {
    let fake = FakeCluster::start_with(Settings::passive()).unwrap();
    fake.node("edge-a").unwrap();
    let cluster = connect_to(&fake);
    (fake, cluster)
}

/// A cluster with controllers and two nodes.
pub(crate) fn live_cluster() -> (FakeCluster, Cluster) {
    let fake = FakeCluster::start_with(Settings::quick()).unwrap();
    fake.node("edge-a").unwrap();
    fake.node("edge-b").unwrap();
    let cluster = connect_to(&fake);
    (fake, cluster)
}

/// Cordons the node, for evictions.
pub(crate) async fn cordoned(cluster: &Cluster) -> Cordoned {
    cordon(cluster, "edge-a", "zedkube", "test").await.unwrap()
}

/// The last request with this verb and resource.
pub(crate) fn last(fake: &FakeCluster, verb: &str, resource: &str) -> fake_cluster::Request {
    let found = fake.requests().recent().into_iter().rev();
    let mut found = found.filter(|request| request.verb == verb && request.resource == resource);
    found.next().unwrap_or_else(|| panic!("no {verb} {resource} was asked"))
}

/// A body as JSON.
pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Puts a pod on `edge-a` that names a claim of its own name, and creates what the claim depends on: claim, volume
/// `vol-NAME` of driver `csi.bench`, attached to `edge-a`.
pub(crate) fn pod_with_volume(fake: &FakeCluster, name: &str) {
    pod_with_volume_on(fake, name, "edge-a");
}

/// The same on this node.
pub(crate) fn pod_with_volume_on(fake: &FakeCluster, name: &str, node: &str) {
    let volume = format!("vol-{name}");
    fake.apply(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"volumeName": volume},
    }))
    .unwrap();
    fake.apply(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
        "spec": {"csi": {"driver": "csi.bench", "volumeHandle": format!("handle-{name}")}},
    }))
    .unwrap();
    attach(fake, &volume, node);
    let mut pod = objects::pod(name, node);
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    fake.apply(pod).unwrap();
}

/// Creates a VolumeAttachment of this volume to this node.
pub(crate) fn attach(fake: &FakeCluster, volume: &str, node: &str) {
    fake.apply(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": format!("{volume}-{node}")},
        "spec": {"attacher": "csi.bench", "nodeName": node, "source": {"persistentVolumeName": volume}},
        "status": {"attached": true},
    }))
    .unwrap();
}

/// The view of an attachment that [`attach`] creates.
pub(crate) fn attached(volume: &str, node: &str) -> AttachmentView {
    AttachmentView {
        name: format!("{volume}-{node}"),
        driver: "csi.bench".to_owned(),
        volume: Some(volume.to_owned()),
        node: node.to_owned(),
        attached: true,
        ..AttachmentView::default()
    }
}

/// Creates a CSIDriver.
pub(crate) fn driver(fake: &FakeCluster, name: &str, attach_required: bool) {
    fake.apply(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name},
        "spec": {"attachRequired": attach_required},
    }))
    .unwrap();
}

/// The storage part of a snapshot with a [`pod_with_volume`] of this name, and edge-a as the only node.
pub(crate) fn storage_of(name: &str) -> Storage {
    let volume = format!("vol-{name}");
    let csi = CsiSource { driver: "csi.bench".to_owned(), handle: format!("handle-{name}") };
    Storage {
        claims_unreadable: None,
        claims: vec![ClaimView {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            owner: None,
            volume: volume.clone(),
        }],
        volumes: vec![VolumeView { name: volume.clone(), csi: Some(csi) }],
        drivers_without_attach: Vec::new(),
        attachments: Attachments::Listed(vec![attached(&volume, "edge-a")]),
        missing_volumes: Vec::new(),
        peer_takes_pods: Some(false),
    }
}

/// Waits for an event that must come; panics after a minute.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), what).await.expect("it did not happen within a minute")
}

/// Waits until the condition is true, and checks it again after each change in the fake cluster.
pub(crate) async fn until(fake: &FakeCluster, condition: impl Fn(&FakeCluster) -> bool) {
    soon(fake.wait_for(|fake| condition(fake).then_some(()))).await;
}
