//! What the tests of this crate share: our real client against the fake cluster.

use std::time::Duration;

use fake_cluster::{FakeCluster, Settings};
use kube::Config;
use serde_json::Value;

use crate::cordon::{Cordoned, cordon};
use crate::wire::Cluster;

/// A way to the fake cluster.
pub(crate) fn connect_to(fake: &FakeCluster) -> Cluster {
    at(&fake.server_url())
}

/// A way to this address.
pub(crate) fn at(url: &str) -> Cluster {
    Cluster::from_config(Config::new(url.parse().unwrap()), "").unwrap()
}

/// A cluster in which nothing happens by itself, with one node.
pub(crate) fn still_cluster() -> (FakeCluster, Cluster) {
    let fake = FakeCluster::start_with(Settings::passive()).unwrap();
    fake.node("edge-a").unwrap();
    let cluster = connect_to(&fake);
    (fake, cluster)
}

/// A lively cluster with two nodes.
pub(crate) fn live_cluster() -> (FakeCluster, Cluster) {
    let fake = FakeCluster::start_with(Settings::quick()).unwrap();
    fake.node("edge-a").unwrap();
    fake.node("edge-b").unwrap();
    let cluster = connect_to(&fake);
    (fake, cluster)
}

/// The proof that evictions need.
pub(crate) async fn cordoned(cluster: &Cluster) -> Cordoned {
    cordon(cluster, "edge-a", "zedkube", "test").await.unwrap()
}

/// The last request with this verb and resource: path and query, and the body as JSON.
pub(crate) fn last(fake: &FakeCluster, verb: &str, resource: &str) -> fake_cluster::Request {
    let found = fake.requests().recent().into_iter().rev();
    let mut found = found.filter(|request| request.verb == verb && request.resource == resource);
    found.next().unwrap_or_else(|| panic!("no {verb} {resource} was asked"))
}

/// A body as JSON.
pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Waits for what must come; a test that hangs says so after a minute.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), what).await.expect("it did not happen within a minute")
}

/// Waits until the condition holds, looking again whenever something in the fake cluster changes.
pub(crate) async fn until(fake: &FakeCluster, condition: impl Fn(&FakeCluster) -> bool) {
    soon(fake.wait_for(|fake| condition(fake).then_some(()))).await;
}
