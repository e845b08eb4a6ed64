//! The cordon: its owner, and the effects of that.

use anyhow::Result;
use cluster::cordon::PriorCordon;
use cluster::{ApiFailure, Cluster, CordonFailure, Cordoned, Uncordoned, adopt, cordon, get_node, uncordon};
use contract::{Change, Place, Target, objects};
use drain::cordon::Ownerless;
use futures::future::join_all;
use serde_json::{Value, json};

const TAINT: &str = "node.kubernetes.io/unschedulable";

/// The traces of a cordon on the node: the field and both annotations.
async fn traces(place: &Place<'_>) -> Result<[Value; 3]> {
    let node = place.caller().get(&place.node_path()).await?.object()?;
    let annotations = &node["metadata"]["annotations"];
    Ok([
        &node["spec"]["unschedulable"],
        &annotations["ebb.dev/cordoned-by"],
        &annotations["ebb.dev/cordon-reason"],
    ]
    .map(Value::clone))
}

async fn by_hand(place: &Place<'_>, unschedulable: Value) -> Result<()> {
    let patch = json!({"spec": {"unschedulable": unschedulable}});
    // The name that kubectl uses: with our own client's name the cordon would count as ours.
    let path = format!("{}?fieldManager=kubectl-cordon", place.node_path());
    place.caller().patch(&path, Change::Merge, &patch).await?.object().map(drop)
}

async fn until_tainted(place: &Place<'_>, wanted: bool) -> Result<()> {
    let is_tainted = |node: &Value| {
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == TAINT && taint["effect"] == "NoSchedule")
    };
    let look = |node: &Value| (is_tainted(node) == wanted).then_some(());
    place.caller().until(&format!("tainted: {wanted}"), &place.node_path(), look).await
}

fn before(cordoned: Result<Cordoned, CordonFailure>) -> PriorCordon {
    cordoned.unwrap().before()
}

pub(crate) async fn a_cordon_has_an_owner(target: &Target) -> Result<()> {
    let place = Place::new(target, "cordon").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    let free = [Value::Null, Value::Null, Value::Null];
    let ours = [json!(true), json!("zedkube"), json!("reboot")];
    assert_eq!(traces(&place).await?, free);
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::NotOurs);

    let cordoned = cordon(cluster, node, "zedkube", "reboot").await?;
    assert_eq!(
        (cordoned.before(), cordoned.node().cordoned, cordoned.name()),
        (PriorCordon::Schedulable, true, node)
    );
    assert_eq!(traces(&place).await?, ours);
    assert_eq!(before(cordon(cluster, node, "zedkube", "update").await), PriorCordon::Ours);
    assert_eq!(traces(&place).await?, [json!(true), json!("zedkube"), json!("update")]);
    assert_eq!(before(cordon(cluster, node, "zedkube", "reboot").await), PriorCordon::Ours);
    assert_eq!(before(cordon(cluster, node, "ebb:eve", "mine").await), PriorCordon::Foreign);
    assert_eq!(uncordon(cluster, node, "ebb:eve").await?, Uncordoned::NotOurs);
    assert_eq!(traces(&place).await?, ours);
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::Changed);
    assert_eq!(traces(&place).await?, free);
    Ok(())
}

pub(crate) async fn a_cordon_lifted_by_hand_leaves_our_name(target: &Target) -> Result<()> {
    let place = Place::new(target, "lifted").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    // `kubectl uncordon` writes false, which the server leaves out.
    for lifted in [Value::Null, json!(false)] {
        assert_eq!(before(cordon(cluster, node, "zedkube", "reboot").await), PriorCordon::Schedulable);
        by_hand(&place, lifted).await?;
        assert_eq!(traces(&place).await?, [Value::Null, json!("zedkube"), json!("reboot")]);
        assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::AnnotationRemoved);
        assert_eq!(traces(&place).await?, [Value::Null, Value::Null, Value::Null]);
    }
    Ok(())
}

/// A person marks the Node to keep its cordon: when the drain is over, our name is removed and the cordon stays.
pub(crate) async fn a_cordon_that_a_person_wants_to_keep_stays(target: &Target) -> Result<()> {
    let place = Place::new(target, "keep").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    cordon(cluster, node, "zedkube", "reboot").await?;
    let keep = json!({"metadata": {"annotations": {"ebb.dev/keep-cordoned": ""}}});
    place.caller().patch(&place.node_path(), Change::Merge, &keep).await?.object()?;
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::StaysCordoned);
    assert_eq!(traces(&place).await?, [json!(true), Value::Null, Value::Null]);
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::NotOurs);
    Ok(())
}

/// `kubectl uncordon` and `kubectl cordon` leave our annotation on a person's cordon.
pub(crate) async fn a_cordon_that_a_person_set_after_us_stays(target: &Target) -> Result<()> {
    let place = Place::new(target, "anew").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    cordon(cluster, node, "zedkube", "reboot").await?;
    by_hand(&place, Value::Null).await?;
    by_hand(&place, json!(true)).await?;
    assert_eq!(traces(&place).await?, [json!(true), json!("zedkube"), json!("reboot")]);
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::StaysCordoned);
    assert_eq!(traces(&place).await?, [json!(true), Value::Null, Value::Null]);
    Ok(())
}

/// Somebody has removed our annotation: the managed fields still say whose the cordon is.
pub(crate) async fn a_cordon_without_its_annotation_is_ours_if_we_set_it(target: &Target) -> Result<()> {
    let place = Place::new(target, "mark-lost").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    let adopted = || adopt(cluster, node, "zedkube", "again", Ownerless::Ours);
    let remove =
        json!({"metadata": {"annotations": {"ebb.dev/cordoned-by": null, "ebb.dev/cordon-reason": null}}});
    let remove_mark =
        async || place.caller().patch(&place.node_path(), Change::Merge, &remove).await?.object();
    cordon(cluster, node, "zedkube", "reboot").await?;
    remove_mark().await?;
    assert!(adopted().await?);
    assert_eq!(traces(&place).await?, [json!(true), json!("zedkube"), json!("again")]);
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::Changed);

    cordon(cluster, node, "zedkube", "reboot").await?;
    remove_mark().await?;
    by_hand(&place, Value::Null).await?;
    assert!(!adopted().await?, "not cordoned");
    by_hand(&place, json!(true)).await?;
    assert!(!adopted().await?, "a person has cordoned it since");
    assert_eq!(traces(&place).await?, [json!(true), Value::Null, Value::Null]);
    Ok(())
}

pub(crate) async fn a_node_that_is_not_there(target: &Target) -> Result<()> {
    let place = Place::new(target, "no-node").await?;
    let (cluster, node) = (place.caller().cluster(), format!("{}-none", place.namespace));
    assert_eq!(get_node(cluster, &node).await?, None);
    let failure = cordon(cluster, &node, "zedkube", "reboot").await.unwrap_err();
    assert_eq!(failure, CordonFailure::NodeGone { node: node.clone() });
    assert_eq!(uncordon(cluster, &node, "zedkube").await?, Uncordoned::NodeGone);
    Ok(())
}

/// A cordon is one patch of the version just read: of many owners at once, one gets the node.
pub(crate) async fn many_cordons_at_once_have_one_owner(target: &Target) -> Result<()> {
    let place = Place::new(target, "contended").await?;
    let (cluster, node): (&Cluster, _) = (place.caller().cluster(), place.node.as_str());
    let owners: Vec<String> = (0..6).map(|number| format!("ebb:{number}")).collect();
    let outcomes = join_all(owners.iter().map(|owner| cordon(cluster, node, owner, "race"))).await;
    let outcomes: Vec<PriorCordon> = outcomes.into_iter().map(before).collect();
    let winners: Vec<_> =
        outcomes.iter().zip(&owners).filter(|(before, _)| **before == PriorCordon::Schedulable).collect();
    let [(_, winner)] = winners.as_slice() else { panic!("{outcomes:?}") };
    assert_eq!(outcomes.iter().filter(|before| **before == PriorCordon::Foreign).count(), 5, "{outcomes:?}");
    assert_eq!(traces(&place).await?[1], winner.as_str());
    Ok(())
}

pub(crate) async fn no_pod_is_put_on_a_cordoned_node(target: &Target) -> Result<()> {
    let place = Place::new(target, "unschedulable").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    cordon(cluster, node, "zedkube", "reboot").await?;
    until_tainted(&place, true).await?;
    place.create("pods", &objects::pending_pod("a", &place.namespace)).await?;
    let refused = |pod: &Value| {
        let condition =
            pod["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == "PodScheduled")?;
        (condition["status"] == "False" && condition["reason"] == "Unschedulable").then(|| pod.clone())
    };
    let pod = place.until("the scheduler refuses the pod", "pods/a", refused).await?;
    assert_eq!((&pod["spec"]["nodeName"], &pod["status"]["phase"]), (&Value::Null, &json!("Pending")));
    uncordon(cluster, node, "zedkube").await?;
    until_tainted(&place, false).await?;
    let is_there = |pod: &Value| (pod["spec"]["nodeName"] == node).then_some(());
    place.until("the pod is bound", "pods/a", is_there).await
}

/// A cordon with only the field, as EVE's zedkube leaves it.
pub(crate) async fn a_cordon_without_owner_is_adopted(target: &Target) -> Result<()> {
    let place = Place::new(target, "adopt").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    assert!(!adopt(cluster, node, "zedkube", "update", Ownerless::Eves).await?, "not cordoned");
    assert_eq!(traces(&place).await?, [Value::Null, Value::Null, Value::Null]);
    by_hand(&place, json!(true)).await?;
    assert!(adopt(cluster, node, "zedkube", "update", Ownerless::Eves).await?);
    let ours = [json!(true), json!("zedkube"), json!("update")];
    assert_eq!(traces(&place).await?, ours);
    for owner in ["zedkube", "ebb:eve"] {
        assert!(!adopt(cluster, node, owner, "again", Ownerless::Eves).await?, "it has an owner");
    }
    assert_eq!(traces(&place).await?, ours);

    by_hand(&place, Value::Null).await?;
    assert!(!adopt(cluster, node, "ebb:eve", "mine", Ownerless::Eves).await?, "lifted by hand");
    assert_eq!(traces(&place).await?, [Value::Null, json!("zedkube"), json!("update")]);
    by_hand(&place, json!(true)).await?;
    assert_eq!(uncordon(cluster, node, "zedkube").await?, Uncordoned::Changed, "and is lifted as ours");

    let none = format!("{}-none", place.namespace);
    assert!(!adopt(cluster, &none, "zedkube", "update", Ownerless::Eves).await?, "no such node");
    Ok(())
}

pub(crate) async fn many_adoptions_at_once_have_one_owner(target: &Target) -> Result<()> {
    let place = Place::new(target, "adopters").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    by_hand(&place, json!(true)).await?;
    let owners: Vec<String> = (0..6).map(|number| format!("ebb:{number}")).collect();
    let outcomes =
        join_all(owners.iter().map(|owner| adopt(cluster, node, owner, "race", Ownerless::Eves))).await;
    let outcomes: Vec<bool> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let winners: Vec<_> = outcomes.iter().zip(&owners).filter(|(adopted, _)| **adopted).collect();
    let [(_, winner)] = winners.as_slice() else { panic!("{outcomes:?}") };
    assert_eq!(traces(&place).await?[1], winner.as_str());
    Ok(())
}

pub(crate) async fn who_may_adopt(target: &Target) -> Result<()> {
    let place = Place::new(target, "adopt-right").await?;
    let client = target.client_without(&place.namespace, "patch", "nodes").await?;
    let adopted = || adopt(client.cluster(), &place.node, "zedkube", "update", Ownerless::Eves);
    assert!(!adopted().await?, "nothing to write");
    by_hand(&place, json!(true)).await?;
    let failure = adopted().await.unwrap_err();
    assert!(matches!(failure, ApiFailure::Denied { .. }), "{failure}");
    assert!(failure.to_string().contains("needs the right to `patch` `nodes`"), "{failure}");
    Ok(())
}
