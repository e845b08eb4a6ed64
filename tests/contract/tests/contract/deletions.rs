//! DELETE: grace, finalizers, owners.

use std::time::Duration;

use anyhow::{Context, Result};
use contract::PodState::{Finished, Ready, ReadyForLong, Unbound};
use contract::{Place, Target, failure, objects};
use drain::{Answer, PodId};
use serde_json::{Value, json};

const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

async fn delete(place: &Place<'_>, rest: &str, options: Value) -> Result<Value> {
    let reply = place.caller().delete(&place.path(rest), &options).await?;
    assert_eq!(reply.code, 200, "{}", reply.body);
    reply.object()
}

/// Seconds of grace, and the deadline in seconds since 1970.
fn ends(pod: &Value) -> Option<(i64, i64)> {
    let deadline: jiff::Timestamp = pod["metadata"]["deletionTimestamp"].as_str()?.parse().ok()?;
    Some((pod["metadata"]["deletionGracePeriodSeconds"].as_i64()?, deadline.as_second()))
}

pub(crate) async fn a_deletion_gives_grace_which_can_be_made_shorter(target: &Target) -> Result<()> {
    let place = Place::new(target, "grace").await?;
    let before = place.pods(&[("a", ReadyForLong)]).await?;
    let pod = delete(&place, "pods/a", json!({})).await?;
    assert_eq!(pod["kind"], "Pod");
    let (grace, deadline) = ends(&pod).context("the pod is not terminating")?;
    assert_eq!(grace, 30);
    let generation = |pod: &Value| pod["metadata"]["generation"].as_i64();
    assert_eq!(generation(&pod), generation(&before).map(|before| before + 1));
    for (options, expected) in [
        (json!({}), (30, deadline)),
        (json!({"gracePeriodSeconds": 60}), (30, deadline)),
        (json!({"gracePeriodSeconds": 10}), (10, deadline - 20)),
        (json!({"gracePeriodSeconds": 20}), (10, deadline - 20)),
        (json!({}), (10, deadline - 20)),
        // The server reads a negative grace as one second.
        (json!({"gracePeriodSeconds": -1}), (1, deadline - 29)),
    ] {
        assert_eq!(ends(&delete(&place, "pods/a", options.clone()).await?), Some(expected), "{options}");
        assert_eq!(ends(&place.get("pods/a").await?), Some(expected), "{options}");
    }
    let last = delete(&place, "pods/a", json!({"gracePeriodSeconds": 0})).await?;
    assert_eq!(last["metadata"]["name"], "a", "the answer is the pod's last state");
    assert_eq!(place.caller().get(&place.path("pods/a")).await?.code, 404);
    Ok(())
}

/// With a body, even an empty object, the query is ignored: the grace, and also the dry run.
pub(crate) async fn a_body_silences_the_query(target: &Target) -> Result<()> {
    let place = Place::new(target, "silenced").await?;
    for (name, query, body, expected) in [
        ("a", "?gracePeriodSeconds=5", "", Some(5)),
        ("b", "?gracePeriodSeconds=5", "{}", Some(30)),
        ("c", "?gracePeriodSeconds=5", r#"{"gracePeriodSeconds": 7}"#, Some(7)),
        ("d", "?dryRun=All", "", None),
        ("e", "", r#"{"dryRun": ["All"]}"#, None),
        ("f", "?dryRun=All", r#"{"dryRun": ["All"]}"#, None),
        ("g", "?dryRun=All", "{}", Some(30)),
    ] {
        place.pods(&[(name, ReadyForLong)]).await?;
        let reply = place.caller().delete_with(&place.path(&format!("pods/{name}{query}")), body).await?;
        assert_eq!(reply.code, 200, "{name}: {}", reply.body);
        let pod = place.get(&format!("pods/{name}")).await?;
        assert_eq!(ends(&pod).map(|(grace, _)| grace), expected, "{name} {query} {body}");
    }
    Ok(())
}

pub(crate) async fn a_deleted_pod_is_gone_after_its_end(target: &Target) -> Result<()> {
    let place = Place::new(target, "ends").await?;
    place.pods(&[("a", Ready), ("finished", Finished), ("unbound", Unbound)]).await?;
    assert_eq!(ends(&delete(&place, "pods/a", json!({})).await?).map(|(grace, _)| grace), Some(30));
    place.until_gone("pods/a").await?;
    for name in ["finished", "unbound"] {
        let path = format!("pods/{name}");
        assert_eq!(delete(&place, &path, json!({})).await?["metadata"]["name"], name);
        assert_eq!(place.caller().get(&place.path(&path)).await?.code, 404, "{name}: nothing to wait for");
    }
    Ok(())
}

pub(crate) async fn a_finalizer_holds(target: &Target) -> Result<()> {
    let place = Place::new(target, "held").await?;
    let mut pod = objects::bound_pod("a", &place.node, objects::Kubelet::Quick);
    pod["metadata"]["finalizers"] = json!(["example.org/hold"]);
    place.create("pods", &pod).await?;
    delete(&place, "pods/a", json!({})).await?;
    let is_over = |pod: &Value| (pod["metadata"]["deletionGracePeriodSeconds"] == 0).then(|| pod.clone());
    let held = place.until("the kubelet has ended it", "pods/a", is_over).await?;
    assert_eq!(held["metadata"]["finalizers"], json!(["example.org/hold"]));
    place.patch("pods/a", &json!({"metadata": {"finalizers": null}})).await?;
    place.until_gone("pods/a").await
}

pub(crate) async fn a_deletion_can_insist(target: &Target) -> Result<()> {
    let place = Place::new(target, "insists").await?;
    let pod = place.pods(&[("a", Ready)]).await?;
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let options = json!({"preconditions": {"uid": NO_UID}});
    let message = format!(
        "Operation cannot be fulfilled on Pod \"a\": the UID in the precondition ({NO_UID}) does not match the UID in \
         record ({uid}). The object might have been deleted and then recreated"
    );
    let refused = place.caller().delete(&place.path("pods/a"), &options).await?;
    assert_eq!(refused.said()?, failure(409, "Conflict", &message, json!({"name": "a", "kind": "Pod"})));
    assert_eq!(place.get("pods/a").await?, pod);
    delete(&place, "pods/a", json!({"preconditions": {"uid": uid}})).await?;
    place.until_gone("pods/a").await
}

/// Kinds without grace are gone at once, and the answer is a Status instead of the object.
pub(crate) async fn other_kinds_go_at_once(target: &Target) -> Result<()> {
    let place = Place::new(target, "others").await?;
    let budget = objects::budget("p", "x", &json!({"minAvailable": 1}));
    let budget = place.create("poddisruptionbudgets", &budget).await?;
    let node = place.caller().get(&place.node_path()).await?.object()?;
    for (path, object, group, kind) in [
        (place.path("poddisruptionbudgets/p"), budget, json!("policy"), "poddisruptionbudgets"),
        (place.node_path(), node, Value::Null, "nodes"),
    ] {
        let reply = place.caller().delete(&path, &json!({})).await?;
        let status = reply.object()?;
        assert_eq!([&status["kind"], &status["status"]], ["Status", "Success"]);
        assert_eq!(status["details"]["group"], group);
        assert_eq!(status["details"]["kind"], kind);
        assert_eq!(status["details"]["name"], object["metadata"]["name"]);
        assert_eq!(status["details"]["uid"], object["metadata"]["uid"]);
        assert_eq!(place.caller().get(&path).await?.code, 404);
    }
    Ok(())
}

/// The dry run that our agents send before they delete must not delete.
pub(crate) async fn our_dry_deletion_deletes_nothing(target: &Target) -> Result<()> {
    let place = Place::new(target, "would").await?;
    let pod = place.pods(&[("a", ReadyForLong)]).await?;
    let id = place.pod_id("a").await?;
    let cluster = place.caller().cluster();
    assert_eq!(cluster::evict::would_delete(cluster, &id, None).await, Answer::Accepted);
    assert_eq!(place.get("pods/a").await?, pod);
    let other = PodId { uid: NO_UID.to_owned(), ..id.clone() };
    assert_eq!(cluster::evict::would_delete(cluster, &other, None).await, Answer::Gone);
    let missing = PodId { name: "none".to_owned(), ..id };
    assert_eq!(cluster::evict::would_delete(cluster, &missing, None).await, Answer::Gone);
    Ok(())
}

/// The deletion asks no budget, has the requested grace, and deletes only the meant pod.
pub(crate) async fn our_deletion_asks_no_budget(target: &Target) -> Result<()> {
    let place = Place::new(target, "past").await?;
    place.pods(&[("a", ReadyForLong)]).await?;
    place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let (cluster, cordoned, id) =
        (place.caller().cluster(), place.cordoned().await?, place.pod_id("a").await?);
    let other = PodId { uid: NO_UID.to_owned(), ..id.clone() };
    assert_eq!(cluster::evict::delete(cluster, &cordoned, &other, None).await, Answer::Gone);
    assert_eq!(ends(&place.get("pods/a").await?), None);
    let grace = Duration::from_millis(6_500);
    assert_eq!(cluster::evict::delete(cluster, &cordoned, &id, Some(grace)).await, Answer::Accepted);
    assert_eq!(ends(&place.get("pods/a").await?).map(|(grace, _)| grace), Some(7), "rounded up");
    assert_eq!(cluster::evict::delete(cluster, &cordoned, &id, Some(Duration::ZERO)).await, Answer::Accepted);
    assert_eq!(cluster::evict::delete(cluster, &cordoned, &id, None).await, Answer::Gone);
    Ok(())
}

pub(crate) async fn a_deployment_takes_its_pods_along(target: &Target) -> Result<()> {
    let place = Place::new(target, "owner").await?;
    place.create("deployments", &objects::deployment("web", 2, &place.namespace)).await?;
    let path = place.path("pods");
    place.caller().until_all("two pods", &path, "", |pods| (pods.len() == 2).then_some(())).await?;
    delete(&place, "deployments/web", json!({"propagationPolicy": "Background"})).await?;
    place.caller().until_all("no pods", &path, "", |pods| pods.is_empty().then_some(())).await
}
