//! The list of the node's pods, and what it proves.

use std::time::Duration;

use anyhow::Result;
use cluster::drainer::Drain;
use cluster::relist;
use contract::PodState::{Pending, Ready};
use contract::{Objects, Place, Target, objects};
use drain::Outcome;
use drain::state::{Failure, Stage};
use fake_cluster::{Effect, Fault, Reply};
use serde_json::json;

use crate::driving::{
    begun_long_ago, blocked, codes, drain, drain_with, end, evictions, fake, is_untouched, meanwhile,
    patient, policy, stage, turn, until,
};

async fn is_gone(place: &Place<'_>, pod: &str) -> Result<bool> {
    Ok(place.caller().get(&place.path(&format!("pods/{pod}"))).await?.code == 404)
}

/// The scheduler puts the pod on the node in the middle of the drain.
pub(crate) async fn a_pod_that_tolerates_the_cordon_arrives(target: &Target) -> Result<()> {
    let place = Place::new(target, "t25").await?;
    place.pods(&[("a", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);
    until(&mut drain, "the budget refuses", |drain| blocked(drain, "a")).await?;

    let mut late = objects::pending_pod("late", &place.namespace);
    late["metadata"]["labels"] = json!({"app": "late"});
    late["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    late["metadata"]["finalizers"] = json!(["example.org/hold"]);
    meanwhile(&mut drain, place.create("pods", &late)).await?;
    let ends = |drain: &Drain| (stage(drain, "late") == Some(Stage::Terminating)).then_some(());
    until(&mut drain, "the late one ends", ends).await?;
    assert_eq!(place.get("pods/late").await?["spec"]["nodeName"], place.node);
    assert_eq!(drain.progress().total, 2);

    let path = place.path("poddisruptionbudgets/p");
    meanwhile(&mut drain, async { place.caller().delete(&path, &json!({})).await?.object() }).await?;
    let free = json!({"metadata": {"finalizers": null}});
    meanwhile(&mut drain, place.patch("pods/late", &free)).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert!(is_gone(&place, "a").await? && is_gone(&place, "late").await?);
    assert_eq!(evictions(&client)?, 3, "two for the one that a budget held, one for the late one");
    Ok(())
}

/// A Deployment whose pods name the node: its ReplicaSet creates them again there, without the scheduler.
async fn stubborn(place: &Place<'_>) -> Result<String> {
    let mut web = objects::deployment("web", 1, &place.namespace);
    web["spec"]["template"]["spec"]["nodeName"] = json!(place.node);
    place.create("deployments", &web).await?;
    let running = |pods: &Objects| {
        let pod = pods.values().find(|pod| pod["status"]["phase"] == "Running")?;
        pod["metadata"]["ownerReferences"][0]["name"].as_str().map(|name| format!("ReplicaSet/{name}"))
    };
    place.caller().until_all("its pod runs", &place.path("pods"), "", running).await
}

/// Waits until its pod is left alone, and the report says so.
async fn until_left_alone(drain: &mut Drain, owner: &str) -> Result<()> {
    let left =
        |drain: &Drain| drain.blocked().into_iter().find(|blocked| blocked.cause.contains("not evicted"));
    let found = until(drain, "it is left alone", left).await?;
    assert!(
        found.cause.starts_with(&format!("ReturnsToNode: {owner} has created it again on this node")),
        "{found:?}"
    );
    assert!(found.cause.ends_with("it is not evicted again in this attempt"), "{found:?}");
    assert!(found.hint.contains(&format!("{owner} names this node (spec.nodeName)")), "{}", found.hint);
    Ok(())
}

/// Such a drain does not succeed however long it lasts, and the server does not get too many requests meanwhile.
pub(crate) async fn a_pod_that_names_the_node_returns_for_ever(target: &Target) -> Result<()> {
    let place = Place::new(target, "t26").await?;
    let owner = stubborn(&place).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, policy(), &place.node);
    begun_long_ago(&mut drain).await?;
    until_left_alone(&mut drain, &owner).await?;
    // Once more if the kubelet was so quick that no watch has shown how the pod came to its node.
    let sent = evictions(&client)?;
    assert!((2..=3).contains(&sent), "{sent}");
    turn(Duration::from_hours(1));
    assert_eq!(end(&mut drain).await?, Outcome::Failed(Failure::Deadline));
    assert_eq!(evictions(&client)?, sent);
    let left = drain.blocked().into_iter().filter(|blocked| blocked.cause.starts_with("ReturnsToNode: "));
    let holders: Vec<_> = left.map(|blocked| blocked.holder).collect();
    assert_eq!(holders, [owner]);
    Ok(())
}

/// Five pods that stay whatever the drain does.
async fn five_that_stay(place: &Place<'_>) -> Result<()> {
    for name in ["k1", "k2", "k3", "k4", "k5"] {
        let mut pod = objects::bound_pod(name, &place.node, objects::Kubelet::NeverStarts);
        pod["metadata"]["labels"] = json!({"ebb.dev/drain": "skip"});
        place.create("pods", &pod).await?;
    }
    Ok(())
}

pub(crate) async fn a_list_of_several_pages(target: &Target) -> Result<()> {
    let place = Place::new(target, "t27").await?;
    five_that_stay(&place).await?;
    place.pods(&[("z", Ready)]).await?;
    // The server does not look ahead for pods of the node: a pod of another node comes after ours, so there may be more
    // pages.
    Place::new(target, "zz-t27").await?.pods(&[("other", Pending)]).await?;
    let client = target.client(&place.namespace).await?;
    let cluster = client.cluster().clone().with_page(2);
    let look = relist(&cluster, &place.node, None, false).await?;
    let names: Vec<_> = look.pods.iter().map(|pod| pod.id.name.as_str()).collect();
    assert_eq!(names, ["k1", "k2", "k3", "k4", "k5", "z"]);

    let mut drain = drain_with(&cluster, patient(), &place.node);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert!(is_gone(&place, "z").await?);
    for name in ["k1", "k5"] {
        assert!(is_untouched(&place.get(&format!("pods/{name}")).await?), "{name}");
    }
    let asked = client.asked()?;
    let pages = asked.iter().filter(|asked| asked.resource == "pods" && asked.query.contains("limit=2"));
    let pages = pages.filter(|page| page.verb == "list").count();
    assert_eq!(pages, 7, "four pages for the relist, the last of them empty, and three for the final check");
    Ok(())
}

/// The answer of the real server: it offers to continue with a list of two moments, which is no proof.
fn expired_page() -> Effect {
    Effect::Answer(Reply::json(
        410,
        &json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MH0"},
            "status": "Failure", "reason": "Expired", "code": 410,
            "message": "The provided continue parameter is too old to display a consistent list result. You can start a \
                        new list without the continue parameter, or use the continue token in this response to retrieve \
                        the remainder of the results.",
        }),
    ))
}

pub(crate) async fn a_list_that_always_expires_is_no_proof(target: &Target) -> Result<()> {
    let place = Place::new(target, "t27").await?;
    five_that_stay(&place).await?;
    let client = target.client(&place.namespace).await?;
    let cluster = client.cluster().clone().with_page(2);
    let agent = format!("ebb/{} {}", env!("CARGO_PKG_VERSION"), place.namespace);
    let faults = fake(target)?.faults();
    // Each rule lets the pages pass that come before its turn.
    for first_pages in 1..=3 {
        faults.add(Fault::on("list", "pods", expired_page()).from_agent(&agent).after(first_pages));
    }
    let failure = relist(&cluster, &place.node, None, false).await.unwrap_err();
    assert!(failure.text().contains("expired each of 3 times"), "{failure}");
    assert!(!failure.is_unreachable(), "a server that answers is there: {failure}");
    assert_eq!(codes(target, &place.namespace, "list", "pods")?, [200, 410, 200, 410, 200, 410]);
    Ok(())
}

/// The list of a watch has pages of 500 objects.
pub(crate) async fn the_watches_first_list_expires(target: &Target) -> Result<()> {
    let place = Place::new(target, "t27").await?;
    let fake = fake(target)?;
    for number in 0..501 {
        let mut pod =
            objects::bound_pod(&format!("k{number:03}"), &place.node, objects::Kubelet::NeverStarts);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["namespace"] = json!(place.namespace);
        pod["metadata"]["labels"] = json!({"ebb.dev/drain": "skip"});
        fake.apply(pod)?;
    }
    place.pods(&[("z", Ready)]).await?;
    let client = target.client(&place.namespace).await?;
    let agent = format!("ebb/{} {}", env!("CARGO_PKG_VERSION"), place.namespace);
    fake.faults().add(Fault::on("list", "pods", expired_page()).from_agent(&agent).after(1));
    let mut drain = drain(&client, patient(), &place.node);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    let lists = codes(target, &place.namespace, "list", "pods")?;
    assert_eq!(lists, [200, 410, 200, 200, 200, 200]);
    assert!(is_gone(&place, "z").await?);
    assert_eq!(drain.lines().len(), 501);
    Ok(())
}

/// No cache may answer the final list: it names no version.
pub(crate) async fn the_proof_is_a_consistent_list(target: &Target) -> Result<()> {
    let place = Place::new(target, "t28").await?;
    place.pods(&[("k", Pending)]).await?;
    place.patch("pods/k", &json!({"metadata": {"labels": {"ebb.dev/drain": "skip"}}})).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    let lists: Vec<_> = client
        .asked()?
        .into_iter()
        .filter(|asked| asked.verb == "list" && asked.resource == "pods")
        .collect();
    assert!(lists.len() >= 2, "the watch's and the proof: {lists:?}");
    assert!(lists.iter().all(|list| !list.query.contains("resourceVersion")), "{lists:?}");
    Ok(())
}
