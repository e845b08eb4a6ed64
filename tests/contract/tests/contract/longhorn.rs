//! Longhorn's policy about nodes that are drained.

use anyhow::Result;
use cluster::{DrainPolicy, set_node_drain_policy};
use contract::{Change, Target, objects};
use serde_json::json;

pub(crate) async fn longhorns_drain_policy(target: &Target) -> Result<()> {
    const OURS: &str = "block-for-eviction-if-contains-last-replica";
    let caller = target.admin().await?;
    let cluster = caller.cluster();
    target.without_longhorn();
    assert_eq!(set_node_drain_policy(cluster, OURS).await?, DrainPolicy::NotInstalled, "no group");
    target.install_longhorn().await?;
    assert_eq!(set_node_drain_policy(cluster, OURS).await?, DrainPolicy::NotInstalled, "no namespace");
    caller.post("/api/v1/namespaces", &objects::namespace("longhorn-system")).await?.object()?;
    assert_eq!(set_node_drain_policy(cluster, OURS).await?, DrainPolicy::NotInstalled, "no object");

    let path = "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/settings";
    let setting = json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": "Setting",
        "metadata": {"name": "node-drain-policy", "labels": {"a": "b"}},
        "value": "block-if-contains-last-replica",
    });
    let made = caller.post(path, &setting).await?.object()?;
    let path = format!("{path}/node-drain-policy");
    assert_eq!(set_node_drain_policy(cluster, OURS).await?, DrainPolicy::Changed);
    let changed = caller.get(&path).await?.object()?;
    assert_eq!((&changed["value"], &changed["metadata"]["labels"]["a"]), (&json!(OURS), &json!("b")));
    assert_eq!(set_node_drain_policy(cluster, OURS).await?, DrainPolicy::Unchanged);
    assert_eq!(caller.get(&path).await?.object()?, changed);

    let stale = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "value": "always-allow"});
    assert_eq!(caller.patch(&path, Change::Merge, &stale).await?.code, 409);
    assert_eq!(caller.put(&path, &setting).await?.code, 422, "not without a version");
    let status = json!({"status": {"applied": true}});
    let kept = caller.patch(&path, Change::Merge, &status).await?.object()?;
    assert!(kept["status"].is_null(), "the status is written apart: {kept}");
    Ok(())
}
