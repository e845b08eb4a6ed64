//! `ebb drain`: what it does, what it says, and where.

use anyhow::Result;
use fake_cluster::{Effect, Fault, Reply, objects};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::site::{Site, put, sorted};

#[tokio::test]
async fn a_drain_says_what_kubectl_says_where_kubectl_says_it() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    site.pod("web-1", "edge-a")?;
    site.pod("other", "edge-b")?;
    let said = site.ebb("drain edge-a").await?;
    let expected = [
        "evicting pod shop/web-0",
        "evicting pod shop/web-1",
        "node/edge-a cordoned",
        "node/edge-a drained",
        "pod/web-0 evicted from shop namespace",
        "pod/web-1 evicted from shop namespace",
    ];
    assert_eq!((said.code, sorted(&said.out), said.err.as_str()), (0, expected.to_vec(), ""));
    assert!(site.cluster.pods_on("edge-a").is_empty());
    assert_eq!(site.cluster.pods_on("edge-b").len(), 1);
    assert_eq!(site.node("edge-a")["metadata"]["annotations"]["ebb.dev/cordon-reason"], "ebb drain");
    Ok(())
}

#[tokio::test]
async fn what_the_policy_forbids_stops_the_node_before_anything_is_evicted() -> Result<()> {
    let site = Site::passive()?;
    site.pod("web-0", "edge-a")?;
    site.cluster.pod("bare", "edge-a")?;
    let said = site.ebb("drain edge-a edge-b").await?;
    let why = "cannot delete Pods that declare no controller (use --force to override): default/bare";
    let expected = format!(
        "error: unable to drain node \"edge-a\" due to error: {why}, continuing command...\n\
         There are pending nodes to be drained:\n edge-a\n"
    );
    assert_eq!((said.code, said.err), (1, expected));
    assert_eq!(said.out, "node/edge-a cordoned\nnode/edge-b cordoned\nnode/edge-b drained\n");
    assert_eq!(site.changes(), ["patch nodes edge-a", "patch nodes edge-b"]);
    Ok(())
}

#[tokio::test]
async fn with_permission_they_go_and_all_warnings_are_kept() -> Result<()> {
    let site = Site::quick()?;
    let mut bare = objects::pod("bare", "edge-a");
    put(&mut bare, "/spec", "volumes", json!([{"name": "tmp", "emptyDir": {}}]));
    site.cluster.apply(bare)?;
    let said = site.ebb("drain node/edge-a --force --delete-emptydir-data=true").await?;
    let expected = "Warning: deleting Pods that declare no controller: default/bare; deleting Pods with local \
                    storage: default/bare\n";
    assert_eq!((said.code, said.err.as_str()), (0, expected));
    Ok(())
}

#[tokio::test]
async fn a_node_that_cannot_be_cordoned_is_not_drained_and_the_others_are() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    site.pod("web-1", "edge-b")?;
    let reply = Reply::forbidden("alice", "patch", "nodes", "", "edge-a");
    site.cluster.faults().add(Fault::on("patch", "nodes", Effect::Answer(reply)).named("edge-a").always());
    let said = site.ebb("drain edge-a edge-b --parallel 2").await?;
    assert_eq!(said.code, 1);
    assert!(
        said.err.starts_with("error: unable to cordon node \"edge-a\": cannot patch nodes edge-a: "),
        "{said:?}"
    );
    assert!(said.err.contains("needs the right to `patch` `nodes`"), "{said:?}");
    assert!(said.err.ends_with("There are pending nodes to be drained:\n edge-a\n"), "{said:?}");
    assert!(said.out.contains("node/edge-b drained\n") && !said.out.contains("edge-a"), "{said:?}");
    assert_eq!(site.cluster.pods_on("edge-a").len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_pod_that_stays_blocked_is_told_once_and_named_in_the_end() -> Result<()> {
    let site = Site::passive()?;
    site.guarded_pod("db-0", "edge-a")?;
    let said = site.ebb("drain edge-a --timeout 1s --retry 100ms").await?;
    let cause = "PodDisruptionBudget: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget db-0 needs 1 healthy pods and has 1 currently";
    let hint = "budget shop/db-0 never allows a disruption: scale ReplicaSet/db-0, or the Deployment that made it, up to 2, or change the budget: \
                kubectl -n shop edit pdb db-0";
    let why = "global timeout reached: time is over and pods are left on the node";
    let expected = format!(
        "error when evicting pods shop/db-0 (will retry after 100ms): {cause}\n\
         \x20 hint: {hint}\n\
         There are pending pods in node \"edge-a\" when an error occurred: {why}\n\
         \x20 shop/db-0: Blocked: {cause}\n\
         \x20   hint: {hint}\n\
         error: unable to drain node \"edge-a\" due to error: {why}, continuing command...\n\
         There are pending nodes to be drained:\n edge-a\n"
    );
    assert_eq!((said.code, said.err), (1, expected));
    assert_eq!(said.out, "node/edge-a cordoned\nevicting pod shop/db-0\n");
    assert!(site.cluster.requests().count("ebb/", "create", "pods/eviction") > 3, "it was tried again");
    assert!(site.is_cordoned("edge-a"));
    Ok(())
}

#[tokio::test]
async fn a_failed_drain_gives_back_only_its_own_cordon() -> Result<()> {
    for (before, stays) in [(None, false), (Some("ebb:somebody"), true)] {
        let site = Site::passive()?;
        site.guarded_pod("db-0", "edge-a")?;
        if let Some(owner) = before {
            site.cordon("edge-a", owner)?;
        }
        let said = site.ebb("drain edge-a --timeout 300ms --uncordon-on-failure").await?;
        assert_eq!((said.code, site.is_cordoned("edge-a")), (1, stays), "{before:?}: {said:?}");
        assert_eq!(said.out.contains("node/edge-a uncordoned\n"), !stays, "{said:?}");
        let already = "node/edge-a already cordoned\n";
        assert_eq!(said.out.starts_with(already), stays, "{said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_cordon_of_an_earlier_command_of_the_same_person_stays() -> Result<()> {
    let site = Site::passive()?;
    site.guarded_pod("db-0", "edge-a")?;
    assert_eq!(site.ebb("cordon edge-a").await?.code, 0);
    let said = site.ebb("drain edge-a --timeout 1s --uncordon-on-failure -o json").await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!((said.code, site.is_cordoned("edge-a")), (1, true), "{said:?}");
    let node = &document[0];
    assert_eq!((&node["cordonedBefore"], &node["uncordoned"]), (&json!(true), &json!(false)), "{node}");
    assert_eq!(
        (&node["outcome"], &node["pods"][0]["stage"]),
        (&json!("Failed"), &json!("Blocked")),
        "{node}"
    );
    assert!(node["failure"].as_str().is_some_and(|why| why.contains("time is over")), "{node}");
    let blocked = &node["blocked"][0];
    assert_eq!((&blocked["namespace"], &blocked["name"]), (&json!("shop"), &json!("db-0")), "{node}");
    assert_eq!(blocked["budgets"][0]["disruptionsAllowed"], 0, "{node}");
    Ok(())
}

#[tokio::test]
async fn pods_are_deleted_when_that_is_asked_for() -> Result<()> {
    for (flag, grace) in [("--disable-eviction", None), ("--force-delete", Some(0))] {
        let site = Site::quick()?;
        site.guarded_pod("db-0", "edge-a")?;
        let said = site.ebb(&format!("drain edge-a {flag}")).await?;
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{flag}: {said:?}");
        let expected = "node/edge-a cordoned\ndeleting pod shop/db-0\npod/db-0 deleted from shop namespace\n\
                        node/edge-a drained\n";
        assert_eq!(said.out, expected, "{flag}");
        let requests = site.cluster.requests().recent();
        let deletions: Vec<Value> = requests
            .iter()
            .filter(|request| request.verb == "delete" && request.name == "db-0")
            .filter_map(|request| serde_json::from_slice(&request.body).ok())
            .collect();
        assert_eq!(deletions[0]["gracePeriodSeconds"].as_u64(), grace, "{flag}");
        assert_eq!(site.cluster.requests().count("ebb/", "create", "pods/eviction"), 0, "{flag}");
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_that_is_refused_for_too_long_is_deleted() -> Result<()> {
    let site = Site::quick()?;
    site.guarded_pod("db-0", "edge-a")?;
    let said = site.ebb("drain edge-a --retry 100ms --max-retries 2").await?;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("deleting pod shop/db-0: its eviction was refused for too long\n"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn nodes_are_drained_one_after_another_unless_more_are_asked_for() -> Result<()> {
    for parallel in [1, 2] {
        let site = Site::quick()?;
        site.guarded_pod("db-0", "edge-a")?;
        site.pod("web-0", "edge-b")?;
        let child = site.start(&format!("drain edge-a edge-b --retry 20ms --parallel {parallel}"))?;
        if parallel > 1 {
            site.until(|cluster| cluster.pods_on("edge-b").is_empty()).await?;
        }
        site.until_tried(10).await?;
        let said = site.stop(child, Signal::SIGINT).await?;
        assert_eq!(site.cluster.pods_on("edge-b").is_empty(), parallel > 1, "{parallel}: {said:?}");
        assert!(site.is_cordoned("edge-a") && site.is_cordoned("edge-b"), "all are cordoned first: {said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_vanishes_in_mid_drain_is_said() -> Result<()> {
    let site = Site::passive()?;
    site.guarded_pod("db-0", "edge-a")?;
    let child = site.start("drain edge-a -o json")?;
    site.until_tried(1).await?;
    site.cluster.delete("nodes", "", "edge-a");
    // As the controller manager does with pods whose node is gone: as long as one is bound to it, nothing proves that.
    site.cluster.edit("pods", "shop", "db-0", |pod| pod["status"]["phase"] = json!("Failed"))?;
    site.cluster.delete("pods", "shop", "db-0");
    let said = site.finish(child).await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!((said.code, &document[0]["outcome"]), (0, &json!("NodeGone")), "{said:?}");
    assert!(said.err.contains("node/edge-a is not in the cluster any more"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn the_document_has_everything_and_nothing_else_is_on_stdout() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    site.cluster.daemon_set("sensor")?;
    site.cluster.wait_for(|cluster| (cluster.pods_on("edge-a").len() == 2).then_some(())).await;
    let said = site.ebb("drain edge-a --ignore-daemonsets --uncordon-on-failure --output=json").await?;
    assert_eq!((said.code, site.is_cordoned("edge-a")), (0, true), "{said:?}");
    let document: Value = serde_json::from_str(&said.out)?;
    let node = &document[0];
    assert_eq!(
        (&node["name"], &node["outcome"], &node["failure"]),
        (&json!("edge-a"), &json!("Drained"), &json!(""))
    );
    assert_eq!((&node["cordonedBefore"], &node["uncordoned"]), (&json!(false), &json!(false)));
    assert!(node["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{node}");
    let pods = node["pods"].as_array().cloned().unwrap_or_default();
    let seen: Vec<_> = pods.iter().map(|pod| (&pod["namespace"], &pod["verdict"], &pod["stage"])).collect();
    let expected = [
        (&json!("default"), &json!("Leave"), &Value::Null),
        (&json!("shop"), &json!("Evict"), &json!("Gone")),
    ];
    assert_eq!(seen, expected);
    assert_eq!(pods[1]["owner"], "ReplicaSet/web-0");
    assert!(pods[1]["uid"].as_str().is_some_and(|uid| !uid.is_empty()));
    let warning = node["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("ignoring DaemonSet-managed Pods: default/sensor-"), "{node}");
    assert!(said.err.contains("node/edge-a drained\n"), "{said:?}");
    Ok(())
}
