//! `ebb force delete-pods`.

use anyhow::Result;
use fake_cluster::{Effect, Fault, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::site::{Said, Site, owned_pod, put};

async fn delete_pods(site: &Site, more: &str) -> Result<Said> {
    let root = site.folder.path().display();
    site.ebb(&format!("force delete-pods --reason dead-kubelet --root {root} {more}")).await
}

/// `edge-a`, cordoned by zedkube, with pods of all kinds.
fn busy() -> Result<Site> {
    let site = Site::passive()?;
    site.cordon("edge-a", "zedkube")?;
    site.pod("web-0", "edge-a")?;
    site.guarded_pod("db-0", "edge-a")?;
    site.cluster.pod("bare", "edge-a")?;
    site.pod("other", "edge-b")?;
    let mut mirror = owned_pod("static", "edge-a");
    put(&mut mirror, "/metadata", "annotations", json!({"kubernetes.io/config.mirror": "x"}));
    let mut kept = owned_pod("attacher", "edge-a");
    put(&mut kept, "/metadata", "labels", json!({"app": "csi-attacher"}));
    let mut sensor = owned_pod("sensor", "edge-a");
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "sensor", "uid": "u", "controller": true});
    put(&mut sensor, "/metadata", "ownerReferences", json!([owner]));
    let mut set = fake_cluster::objects::daemon_set("sensor");
    put(&mut set, "/metadata", "namespace", json!("shop"));
    for object in [mirror, kept, set, sensor] {
        site.cluster.apply(object)?;
    }
    Ok(site)
}

fn left(site: &Site) -> Vec<String> {
    let name =
        |pod: &Value| pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut names: Vec<String> = site.cluster.pods_on("edge-a").iter().map(name).collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_a_drain_would_move_is_deleted_with_grace_0() -> Result<()> {
    let site = busy()?;
    let said = delete_pods(&site, "--node edge-a").await?;
    let expected = "\
deleted default/bare
stays shop/attacher: app csi-attacher stays until volumes are detached
deleted shop/db-0
stays shop/sensor: managed by a DaemonSet
stays shop/static: static pod of the kubelet
deleted shop/web-0
node edge-a: 3 deleted with grace 0, 0 gone, 0 refused, 0 unanswered, 3 stay
";
    assert_eq!((said.code, said.out.as_str()), (0, expected), "{said:?}");
    assert!(said.err.starts_with("WARNING: ") && said.err.contains("CONTAINERS MAY STILL RUN"), "{said:?}");
    assert!(said.err.contains("VOLUME MAY BE USED TWICE"), "{said:?}");
    assert_eq!(left(&site), ["attacher", "sensor", "static"]);
    assert_eq!(site.cluster.pods_on("edge-b").len(), 1);
    let deletions: Vec<Value> = site
        .cluster
        .requests()
        .recent()
        .iter()
        .filter(|request| request.verb == "delete")
        .filter_map(|request| serde_json::from_slice(&request.body).ok())
        .collect();
    assert_eq!(deletions.len(), 3);
    for body in deletions {
        assert_eq!(body["gracePeriodSeconds"], 0, "{body}");
        assert!(body["preconditions"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()), "{body}");
    }
    // The cordon is not ours to touch.
    assert_eq!(site.changes().len(), 3, "{:?}", site.changes());
    assert_eq!(site.node("edge-a")["metadata"]["annotations"]["ebb.dev/cordoned-by"], "zedkube");
    Ok(())
}

#[tokio::test]
async fn a_node_that_takes_pods_is_left_alone() -> Result<()> {
    let site = Site::passive()?;
    site.pod("web-0", "edge-a")?;
    let said = delete_pods(&site, "--node edge-a").await?;
    let part = "node edge-a is not cordoned, so its pods would come back to it: `ebb cordon edge-a` first";
    assert!(said.code == 1 && said.err.contains(part) && said.out.is_empty(), "{said:?}");
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn what_is_not_deleted_is_told_with_the_reason() -> Result<()> {
    let site = Site::passive()?;
    site.cordon("edge-a", "zedkube")?;
    for name in ["db-0", "web-0"] {
        site.pod(name, "edge-a")?;
    }
    let reply = Reply::forbidden("alice", "delete", "pods", "shop", "db-0");
    site.cluster.faults().add(Fault::on("delete", "pods", Effect::Answer(reply)).named("db-0").always());
    let said = delete_pods(&site, "--node edge-a --json").await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("not all pods of node edge-a are deleted; fix what refuses them"), "{said:?}");
    assert_eq!((&document["Node"], &document["Reason"]), (&json!("edge-a"), &json!("dead-kubelet")));
    assert!(document["By"].as_str().is_some_and(|by| !by.is_empty()));
    let pods = document["Pods"].as_array().cloned().unwrap_or_default();
    let pod_fates: Vec<_> = pods.iter().map(|pod| (pod["Name"].as_str(), pod["Fate"].as_str())).collect();
    let expected = [(Some("db-0"), Some("Refused")), (Some("web-0"), Some("Deleted"))];
    assert_eq!(pod_fates, expected, "{document}");
    let why = pods[0]["Detail"].as_str().unwrap_or_default();
    assert!(why.contains("needs the right to `delete` `pods`"), "{document}");
    assert_eq!(pods[1]["Detail"], "", "{document}");
    Ok(())
}

#[tokio::test]
async fn the_policy_is_the_devices() -> Result<()> {
    let site = busy()?;
    let said = delete_pods(&site, "--node edge-a --set pods.force=false").await?;
    let refused = "refused default/bare: the policy does not allow its eviction: has no controller";
    assert!(said.code == 1 && said.out.starts_with(refused), "{said:?}");
    assert!(
        said.err.contains("the policy does not allow to evict some pods; nothing was evicted"),
        "{said:?}"
    );
    assert_eq!((site.changes().len(), left(&site).len()), (0, 6), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_seen_is_not_deleted() -> Result<()> {
    let site = busy()?;
    site.forbid("list", "pods");
    let said = delete_pods(&site, "--node edge-a").await?;
    assert!(said.code == 1 && said.err.contains("needs the right to `list` `pods`"), "{said:?}");
    assert_eq!((site.changes().len(), left(&site).len()), (0, 6), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn somebody_who_stops_it_is_told_what_is_known() -> Result<()> {
    let site = Site::passive()?;
    site.cordon("edge-a", "zedkube")?;
    site.pod("web-0", "edge-a")?;
    site.cluster.faults().add(Fault::on("delete", "pods", Effect::Hang).always());
    let root = site.folder.path().display();
    let child = site.start(&format!("force delete-pods --reason r --node edge-a --root {root}"))?;
    site.until(|cluster| cluster.requests().count("ebb/", "delete", "pods") > 0).await?;
    let said = site.stop(child, Signal::SIGINT).await?;
    assert!(said.code == 130 && said.out.starts_with("unanswered shop/web-0\n"), "{said:?}");
    assert!(
        said.err.contains("WARNING") && said.err.contains("may have been deleted nevertheless"),
        "{said:?}"
    );
    Ok(())
}
