//! The controllers: replacements, and the arithmetic of budgets.

use std::collections::BTreeSet;

use anyhow::Result;
use contract::{Change, Objects, Place, Said, Target, objects};
use serde_json::{Value, json};

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// Waits until exactly `count` pods with this label are Ready on the node, none of them terminating.
async fn ready_on(place: &Place<'_>, node: &str, app: &str, count: usize) -> Result<Objects> {
    let fits = |pod: &Value| {
        pod["spec"]["nodeName"] == node && is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let look = |pods: &Objects| (pods.len() == count && pods.values().all(fits)).then(|| pods.clone());
    let what = format!("{count} pods `{app}` are Ready on {node}");
    place.caller().until_all(&what, &place.path("pods"), &format!("labelSelector=app={app}"), look).await
}

async fn evict_all(place: &Place<'_>, pods: &Objects) -> Result<()> {
    for name in pods.keys() {
        assert_eq!(place.evict(name).await?.said()?, Said::created(), "{name}");
    }
    Ok(())
}

fn uids(pods: &Objects) -> BTreeSet<String> {
    pods.values().map(uid).collect()
}

pub(crate) async fn a_stateful_pod_returns_under_its_name(target: &Target) -> Result<()> {
    let place = Place::new(target, "stateful").await?;
    place.create("statefulsets", &objects::stateful_set("db", 2, &place.namespace)).await?;
    let before = ready_on(&place, &place.node, "db", 2).await?;
    assert_eq!(before.keys().collect::<Vec<_>>(), ["db-0", "db-1"]);
    place.cordoned().await?;
    let other = place.add_node("b").await?;
    evict_all(&place, &before).await?;
    let after = ready_on(&place, &other, "db", 2).await?;
    assert_eq!(after.keys().collect::<Vec<_>>(), ["db-0", "db-1"]);
    assert!(uids(&before).is_disjoint(&uids(&after)));
    Ok(())
}

/// The pod tolerates a cordon.
pub(crate) async fn a_daemon_pod_returns_to_its_node(target: &Target) -> Result<()> {
    let place = Place::new(target, "daemon").await?;
    place.create("daemonsets", &objects::daemon_set("agent", &place.namespace)).await?;
    let before = ready_on(&place, &place.node, "agent", 1).await?;
    let owner = &before.values().next().unwrap()["metadata"]["ownerReferences"][0];
    assert_eq!(
        [&owner["kind"], &owner["apiVersion"], &owner["controller"]],
        [&json!("DaemonSet"), &json!("apps/v1"), &json!(true)]
    );
    place.cordoned().await?;
    evict_all(&place, &before).await?;
    let old = uids(&before);
    let is_new =
        |pods: &Objects| pods.values().any(|pod| is_ready(pod) && !old.contains(&uid(pod))).then_some(());
    place.caller().until_all("a new pod is Ready", &place.path("pods"), "", is_new).await?;
    ready_on(&place, &place.node, "agent", 1).await.map(drop)
}

pub(crate) async fn budgets_count(target: &Target) -> Result<()> {
    let place = Place::new(target, "counts").await?;
    place.create("deployments", &objects::deployment("web", 4, &place.namespace)).await?;
    let pods = ready_on(&place, &place.node, "web", 4).await?;
    place.create("poddisruptionbudgets", &objects::budget("p", "web", &json!({"minAvailable": 4}))).await?;
    place.until_budget("p", [4, 4, 4, 0]).await?;
    // The numbers are: expected pods, healthy, desired, allowed. Percentages are rounded up.
    for (limit, numbers) in [
        (json!({"minAvailable": 3}), [4, 4, 3, 1]),
        (json!({"minAvailable": 9}), [4, 4, 9, 0]),
        (json!({"minAvailable": "50%"}), [4, 4, 2, 2]),
        (json!({"minAvailable": "51%"}), [4, 4, 3, 1]),
        (json!({"minAvailable": "0%"}), [4, 4, 0, 4]),
        (json!({"minAvailable": "100%"}), [4, 4, 4, 0]),
        (json!({"maxUnavailable": 1}), [4, 4, 3, 1]),
        (json!({"maxUnavailable": 0}), [4, 4, 4, 0]),
        (json!({"maxUnavailable": 9}), [4, 4, 0, 4]),
        (json!({"maxUnavailable": "25%"}), [4, 4, 3, 1]),
        (json!({"maxUnavailable": "26%"}), [4, 4, 2, 2]),
    ] {
        let mut spec = json!({"minAvailable": null, "maxUnavailable": null});
        spec.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
        place.patch("poddisruptionbudgets/p", &json!({"spec": spec})).await?;
        let budget = place.until_budget("p", numbers).await?;
        let condition = &budget["status"]["conditions"][0];
        let expected =
            if numbers[3] > 0 { ["True", "SufficientPods"] } else { ["False", "InsufficientPods"] };
        assert_eq!([&condition["status"], &condition["reason"]], expected, "{limit}");
        assert_eq!(condition["type"], "DisruptionAllowed");
    }

    // An unready pod is expected but not healthy.
    let name = pods.keys().next().unwrap();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    place.patch(&format!("pods/{name}/status"), &unready).await?;
    place.until_budget("p", [4, 3, 2, 1]).await?;
    // 26 % of 5 is 1.3: two may be missing.
    place.patch("deployments/web", &json!({"spec": {"replicas": 5}})).await?;
    place.until_budget("p", [5, 4, 3, 1]).await.map(drop)
}

pub(crate) async fn scaling_changes_the_pods(target: &Target) -> Result<()> {
    let place = Place::new(target, "scaled").await?;
    place.create("deployments", &objects::deployment("web", 1, &place.namespace)).await?;
    let first = ready_on(&place, &place.node, "web", 1).await?;
    let scale = async |replicas: u32| {
        let patch = json!({"spec": {"replicas": replicas}});
        place.caller().patch(&place.path("deployments/web"), Change::Strategic, &patch).await?.object()?;
        ready_on(&place, &place.node, "web", usize::try_from(replicas)?).await
    };
    let three = scale(3).await?;
    assert!(uids(&first).is_subset(&uids(&three)));
    assert!(uids(&scale(1).await?).is_subset(&uids(&three)));
    scale(0).await.map(drop)
}
