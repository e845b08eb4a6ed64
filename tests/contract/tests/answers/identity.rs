//! Another pod with the same name is another pod.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster::drainer::Drain;
use contract::PodState::Ready;
use contract::{Place, Target, objects};
use drain::state::Stage;
use drain::{Outcome, PodId};
use fake_cluster::{Effect, Fault};
use serde_json::{Value, json};

use crate::driving::{
    begun_long_ago, blocked, codes, drain, end, fake, insistent, is_untouched, line, meanwhile, patient,
    requests, stage, turn, uid_sent, until,
};

/// A StatefulSet of one pod, `db-0`, that runs on the first node. Returns that pod.
async fn database(place: &Place<'_>, tolerations: &Value) -> Result<PodId> {
    let mut set = objects::stateful_set("db", 1, &place.namespace);
    set["spec"]["template"]["spec"]["tolerations"] = tolerations.clone();
    place.create("statefulsets", &set).await?;
    let is_ready = |pod: &Value| runs_on(pod, &place.node).then_some(());
    place.until("db-0 runs", "pods/db-0", is_ready).await?;
    place.pod_id("db-0").await
}

/// True if the pod is Ready on the node.
fn runs_on(pod: &Value, node: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let is_ready =
        conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    pod["spec"]["nodeName"] == node && is_ready
}

/// Deletes `db-0`; its StatefulSet creates it again on the second node. Returns the new pod.
async fn move_away(place: &Place<'_>) -> Result<Value> {
    let node = place.add_node("b").await?;
    let now = json!({"gracePeriodSeconds": 0});
    place.caller().delete(&place.path("pods/db-0"), &now).await?.object()?;
    let moved = |pod: &Value| runs_on(pod, &node).then(|| pod.clone());
    place.until("db-0 runs elsewhere", "pods/db-0", moved).await
}

/// Checks that this same pod was not touched.
async fn is_still(place: &Place<'_>, pod: &Value) -> Result<()> {
    let found = place.get("pods/db-0").await?;
    assert_eq!(found["metadata"]["uid"], pod["metadata"]["uid"], "another pod: {found}");
    assert!(is_untouched(&found), "{found}");
    Ok(())
}

/// The pod tolerates the cordon and fits nowhere else, so it comes back: a new pod that has to leave as well.
pub(crate) async fn the_same_name_on_the_same_node(target: &Target) -> Result<()> {
    let place = Place::new(target, "t16").await?;
    let all = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    let first = database(&place, &all).await?;
    // Without pod `a` the node would be empty between two pods of that name.
    place.pods(&[("a", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);
    begun_long_ago(&mut drain).await?;

    let mut uids = BTreeSet::from([first.uid]);
    let back = |drain: &Drain| {
        uids.extend(line(drain, "db-0").map(|line| line.id.uid));
        (uids.len() >= 3).then(|| blocked(drain, "db-0")).flatten()
    };
    let found = until(&mut drain, "it is back", back).await?;
    assert_eq!(found.holder, "StatefulSet/db");
    assert!(found.cause.starts_with("ReturnsToNode: StatefulSet/db has created it again"), "{found:?}");
    assert!(found.hint.contains("tolerates the cordon"), "{found:?}");

    let stop = json!({"spec": {"replicas": 0}});
    meanwhile(&mut drain, place.patch("statefulsets/db", &stop)).await?;
    meanwhile(&mut drain, place.until_gone("pods/db-0")).await?;
    let path = place.path("poddisruptionbudgets/p");
    meanwhile(&mut drain, async { place.caller().delete(&path, &json!({})).await?.object() }).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(place.caller().get(&place.path("pods/db-0")).await?.code, 404);
    let asked = client.asked()?;
    assert!(
        asked.iter().filter(|asked| asked.resource == "pods/eviction" && asked.name == "db-0").count() >= 2
    );
    if target.as_fake().is_some() {
        let mut sent = requests(target, &place.namespace, "create", "pods/eviction")?;
        sent.retain(|request| request.name == "db-0");
        let meant: BTreeSet<_> = sent.iter().map(uid_sent).collect();
        assert_eq!(meant.len(), sent.len(), "each pod is asked once: {sent:?}");
        assert!(sent.iter().all(|request| matches!(request.code, Some(201 | 404))), "{sent:?}");
    }
    Ok(())
}

/// After a refusal the pod moves. The pod with its name on the other node is not evicted, however often the drain
/// tries.
pub(crate) async fn the_same_name_on_another_node(target: &Target) -> Result<()> {
    let place = Place::new(target, "t17").await?;
    let old = database(&place, &json!([])).await?;
    place.create("poddisruptionbudgets", &objects::budget("p", "db", &json!({"minAvailable": 1}))).await?;
    place.until_budget("p", [1, 1, 1, 0]).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, insistent(), &place.node);
    until(&mut drain, "the budget refuses", |drain| blocked(drain, "db-0")).await?;

    let (outcome, moved) = futures::join!(end(&mut drain), move_away(&place));
    assert_eq!(outcome?, Outcome::Drained);
    let moved = moved?;
    is_still(&place, &moved).await?;
    if target.as_fake().is_some() {
        let sent = requests(target, &place.namespace, "create", "pods/eviction")?;
        assert!(sent.iter().all(|request| uid_sent(request) == old.uid), "{sent:?}");
        assert!(sent.iter().all(|request| request.code != Some(201)), "{sent:?}");
    }
    Ok(())
}

/// The drain's watch of pods hangs, so its call is based on old knowledge. The server answers 409; the list shows the
/// present pod.
pub(crate) async fn the_uid_changes_between_list_and_call(target: &Target) -> Result<()> {
    for stays in [true, false] {
        let place = Place::new(target, "t18").await?;
        let old = place.pods(&[("a", Ready)]).await?;
        place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
        let agent = format!("ebb/{} {}", env!("CARGO_PKG_VERSION"), place.namespace);
        let hang = Fault::on("watch", "pods", Effect::Hang).from_agent(&agent).always();
        fake(target)?.faults().add(hang);
        let client = target.client(&place.namespace).await?;
        let mut drain = drain(&client, insistent(), &place.node);
        until(&mut drain, "the budget refuses", |drain| blocked(drain, "a")).await?;

        let new = meanwhile(&mut drain, replace(&place, stays)).await?;
        let said_gone = |drain: &Drain| (stage(drain, "a") == Some(Stage::Accepted)).then_some(());
        until(&mut drain, "the server says that it is another one", said_gone).await?;
        // Without a watch the next relist is due after 30 s.
        turn(Duration::from_secs(31));
        if stays {
            meanwhile(&mut drain, place.until_gone("pods/a")).await?;
            turn(Duration::from_secs(31));
        }
        assert_eq!(end(&mut drain).await?, Outcome::Drained);

        let sent = requests(target, &place.namespace, "create", "pods/eviction")?;
        let of_old = sent.iter().filter(|request| uid_sent(request) == uid(&old));
        assert!(of_old.into_iter().all(|request| matches!(request.code, Some(409 | 429))), "{sent:?}");
        let of_new = sent.iter().filter(|request| uid_sent(request) == uid(&new)).count();
        assert_eq!(of_new, usize::from(stays), "{sent:?}");
        if !stays {
            assert!(is_untouched(&place.get("pods/a").await?));
        }
        assert!(codes(target, &place.namespace, "create", "pods/eviction")?.contains(&409));
        fake(target)?.faults().clear();
    }
    Ok(())
}

/// Replaces the pod by another one with its name, on the same node or on another one; then deletes the budget, so that
/// the drain evicts.
async fn replace(place: &Place<'_>, stays: bool) -> Result<Value> {
    let now = json!({"gracePeriodSeconds": 0});
    place.caller().delete(&place.path("pods/a"), &now).await?.object()?;
    let node = if stays { place.node.clone() } else { place.add_node("b").await? };
    let pod = place.create("pods", &objects::bound_pod("a", &node, objects::Kubelet::Quick)).await?;
    let path = place.path("poddisruptionbudgets/p");
    place.caller().delete(&path, &json!({})).await?.object().context("the budget goes")?;
    Ok(pod)
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap().to_owned()
}
