use fake_cluster::{Effect, FakeCluster, Fault, Reply, objects};
use serde_json::json;

use super::*;
use crate::nodes::list_nodes;
use crate::testing::{last, still_cluster};

/// The parts of a node that concern its cordon.
fn marks(fake: &FakeCluster) -> (Option<Value>, Option<Value>, Option<Value>) {
    let node = fake.get("nodes", "", "edge-a").unwrap();
    let annotation = |name: &str| node["metadata"]["annotations"].get(name).cloned();
    (node["spec"].get("unschedulable").cloned(), annotation(CORDONED_BY), annotation(CORDON_REASON))
}

/// As [`marks`], with a node that was never cordoned as one that is not.
fn marks_of(fake: &FakeCluster) -> (bool, Option<Value>, Option<Value>) {
    let (field, by, why) = marks(fake);
    (field.and_then(|field| field.as_bool()).unwrap_or(false), by, why)
}

fn mark(fake: &FakeCluster, unschedulable: bool, owner: Option<&str>) {
    fake.edit("nodes", "", "edge-a", |node| {
        node["spec"]["unschedulable"] = json!(unschedulable);
        if let Some(owner) = owner {
            node["metadata"]["annotations"][CORDONED_BY] = json!(owner);
        }
    })
    .unwrap();
}

/// A drain for another reason may begin while the node has our cordon from the last one.
#[tokio::test]
async fn an_agents_own_cordon_gets_the_reason_of_the_new_attempt() {
    let (fake, cluster) = still_cluster();
    cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
    fake.requests().clear();
    cordon(&cluster, "edge-a", "zedkube", "update").await.unwrap();
    assert_eq!(fake.requests().count("ebb/", "*", "nodes"), 2);

    fake.requests().clear();
    cordon(&cluster, "edge-a", "zedkube", "update").await.unwrap();
    would_cordon(&cluster, "edge-a", "zedkube", "new disk", Marks::Wished).await.unwrap();
    assert_eq!(fake.requests().count("ebb/", "patch", "nodes"), 0, "the same reason, and a dry run");

    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(3));
    cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
    assert_eq!(marks(&fake).2, Some(json!("reboot")), "after conflicts");

    let denied = Reply::forbidden("edge", "patch", "nodes", "", "edge-a");
    fake.faults().add(Fault::on("patch", "nodes", Effect::Answer(denied)));
    let cordoned = cordon(&cluster, "edge-a", "zedkube", "update").await.unwrap();
    assert_eq!(
        (cordoned.before(), cordoned.node().cordoned),
        (PriorCordon::Ours, true),
        "a text stops no drain"
    );
    assert_eq!(marks(&fake).2, Some(json!("reboot")));
}

/// Other nodes see by the annotation whose slots the node uses.
#[tokio::test]
async fn a_cordon_names_its_group_until_the_uncordon() {
    for group in [Some("line-3"), None] {
        let (fake, cluster) = still_cluster();
        let cordoned = cordon_in_group(&cluster, "edge-a", "zedkube", "reboot", group).await.unwrap();
        assert_eq!(cordoned.node().slots_group.as_deref(), group);
        let listed = list_nodes(&cluster).await.unwrap();
        let groups: Vec<_> = listed.iter().map(|node| node.view.slots_group.as_deref()).collect();
        assert!(groups.contains(&group), "{groups:?}");
        uncordon(&cluster, "edge-a", "zedkube").await.unwrap();
        let node = fake.get("nodes", "", "edge-a").unwrap();
        assert_eq!(node["metadata"]["annotations"].get(SLOTS_GROUP), None, "{node}");
    }
}

/// A node that stays cordoned and gives its slot back counts for no group; its next drain counts again.
#[tokio::test]
async fn our_cordon_can_be_one_without_a_slot() {
    let (fake, cluster) = still_cluster();
    let group = || fake.get("nodes", "", "edge-a").unwrap()["metadata"]["annotations"][SLOTS_GROUP].clone();
    mark_without_slot(&cluster, "edge-a", "zedkube").await.unwrap();
    assert_eq!(group(), Value::Null, "no cordon of ours");
    mark_without_slot(&cluster, "edge-z", "zedkube").await.unwrap();
    let again = || cordon_in_group(&cluster, "edge-a", "zedkube", "fan swap", Some("line-3"));
    again().await.unwrap();
    fake.requests().clear();
    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(2));
    for _ in 0..2 {
        mark_without_slot(&cluster, "edge-a", "zedkube").await.unwrap();
        assert_eq!((group(), marks(&fake).0), (json!(NO_SLOT), Some(json!(true))));
    }
    assert_eq!(
        fake.requests().count("ebb/", "patch", "nodes"),
        3,
        "two conflicts, and nothing to do in the end"
    );
    let cordoned = again().await.unwrap();
    assert_eq!((cordoned.before(), group()), (PriorCordon::Ours, json!("line-3")));
    mark_without_slot(&cluster, "edge-a", "zedkube").await.unwrap();
    cordon(&cluster, "edge-a", "zedkube", "fan swap").await.unwrap();
    assert_eq!(group(), Value::Null, "the default group");
}

#[tokio::test]
async fn a_taint_that_outlives_the_field_is_no_cordon() {
    let (fake, cluster) = still_cluster();
    fake.edit("nodes", "", "edge-a", |node| {
        node["spec"]["taints"] = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
    })
    .unwrap();
    let cordoned = cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
    assert_eq!(cordoned.before(), PriorCordon::Schedulable);
    assert_eq!(marks(&fake).0, Some(json!(true)));
}

fn conflict() -> Effect {
    Effect::Answer(Reply::json(409, &json!({"message": "the object has been modified", "code": 409})))
}

#[tokio::test]
async fn a_conflict_reads_again_at_once_and_not_for_ever() {
    let (fake, cluster) = still_cluster();
    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(3));
    cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
    assert_eq!(fake.requests().count("ebb/", "get", "nodes"), 4);
    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(3));
    uncordon(&cluster, "edge-a", "zedkube").await.unwrap();
    assert_eq!(fake.requests().count("ebb/", "get", "nodes"), 8);
    fake.requests().clear();
    fake.faults().add(Fault::on("patch", "nodes", conflict()).always());
    let failure = cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap_err();
    assert!(matches!(failure, CordonFailure::Api(ApiFailure::Conflict { .. })), "{failure}");
    assert_eq!(fake.requests().count("ebb/", "patch", "nodes"), 10);
}

#[tokio::test]
async fn a_person_lifts_any_cordon() {
    let reason = Some("new disk");
    // unschedulable, owner, reason; the result of uncordon_any, and how many calls it makes.
    let cases = [
        (true, Some("zedkube"), reason, Uncordoned::Changed, 2),
        (false, Some("ebb:eve"), None, Uncordoned::AnnotationRemoved, 2),
        (false, None, reason, Uncordoned::AnnotationRemoved, 2),
        (false, None, None, Uncordoned::AlreadySchedulable, 1),
    ];
    for (unschedulable, owner, reason, expected, calls) in cases {
        let (fake, cluster) = still_cluster();
        mark(&fake, unschedulable, owner);
        if let Some(reason) = reason {
            fake.edit("nodes", "", "edge-a", |node| {
                node["metadata"]["annotations"][CORDON_REASON] = json!(reason);
            })
            .unwrap();
        }
        let said = uncordon_any(&cluster, "edge-a").await.unwrap();
        assert_eq!(said, expected, "{unschedulable} {owner:?} {reason:?}");
        assert_eq!(marks_of(&fake), (false, None, None));
        assert_eq!(fake.requests().count("ebb/", "*", "nodes"), calls, "{owner:?} {reason:?}");
    }
}

#[tokio::test]
async fn the_command_line_keeps_the_reason_of_its_cordon() {
    let (fake, cluster) = still_cluster();
    for reason in ["new disk", "ebb drain"] {
        cordon(&cluster, "edge-a", "ebb:eve", reason).await.unwrap();
    }
    assert_eq!(marks(&fake), (Some(json!(true)), Some(json!("ebb:eve")), Some(json!("new disk"))));
    assert_eq!(fake.requests().count("ebb/", "patch", "nodes"), 1);
}

#[tokio::test]
async fn a_node_without_version_is_not_changed() {
    let (fake, cluster) = still_cluster();
    let mut node = fake.get("nodes", "", "edge-a").unwrap();
    node["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    fake.faults().add(Fault::on("get", "nodes", Effect::Answer(Reply::json(200, &node))));
    let failure = cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap_err();
    assert!(matches!(failure, CordonFailure::Api(ApiFailure::Other { .. })), "{failure}");
    assert_eq!(fake.requests().count("ebb/", "patch", "nodes"), 0);
}

#[tokio::test]
async fn a_dry_run_of_a_cordon_is_checked_by_the_server() {
    let (fake, cluster) = still_cluster();
    would_cordon(&cluster, "edge-a", "zedkube", "reboot", Marks::Required).await.unwrap();
    assert_eq!(last(&fake, "patch", "nodes").query, "&dryRun=All&fieldManager=ebb-zedkube");
    for (owner, expected) in [(None, PriorCordon::Foreign), (Some("zedkube"), PriorCordon::Ours)] {
        mark(&fake, true, owner);
        fake.requests().clear();
        assert_eq!(
            would_cordon(&cluster, "edge-a", "zedkube", "reboot", Marks::Required).await,
            Ok(expected)
        );
        assert_eq!(fake.requests().count("ebb/", "*", "nodes"), 1, "{owner:?}");
    }
}

/// A policy lets only `spec.unschedulable` change. A person's cordon goes without annotations, as kubectl's; an agent's
/// does not, because it would not know its own.
#[tokio::test]
async fn a_person_cordons_where_only_the_field_may_change() {
    let refusals = [
        Reply::policy_denial("nodes", "edge-a", "only spec.unschedulable"),
        Reply::webhook_denial(422, "nodes.example", "no annotations"),
        Reply::webhook_denial(400, "nodes.example", "no annotations"),
    ];
    for refusal in refusals {
        for (marks, times, is_cordoned) in
            [(Marks::Wished, 1, true), (Marks::Wished, 2, false), (Marks::Required, 1, false)]
        {
            let (fake, cluster) = still_cluster();
            fake.faults().add(Fault::on("patch", "nodes", Effect::Answer(refusal.clone())).times(times));
            let cordoned = cordon_marked(&cluster, "edge-a", "ebb:eve", "disk", marks).await;
            assert_eq!(marks_of(&fake), (is_cordoned, None, None), "{marks:?} {times}");
            match cordoned {
                Ok(cordoned) => {
                    assert!(is_cordoned && cordoned.before() == PriorCordon::Schedulable, "{cordoned:?}");
                    let why = cordoned.unmarked().unwrap();
                    assert!(why.contains("denied") && !why.contains("needs the right"), "{why}");
                    let body = last(&fake, "patch", "nodes").body;
                    assert!(!String::from_utf8_lossy(&body).contains("annotations"), "{body:?}");
                }
                Err(failure) => assert!(!is_cordoned && failure.to_string().contains("denied"), "{failure}"),
            }
        }
    }
}

#[tokio::test]
async fn a_person_uncordons_where_only_the_field_may_change() {
    let denied = Reply::policy_denial("nodes", "edge-a", "only spec.unschedulable");
    let (fake, cluster) = still_cluster();
    mark(&fake, true, Some("ebb:eve"));
    let fault = || Fault::on("patch", "nodes", Effect::Answer(denied.clone()));
    fake.faults().add(fault().times(1));
    uncordon(&cluster, "edge-a", "ebb:eve").await.unwrap_err();
    fake.faults().add(fault().times(2));
    uncordon_any(&cluster, "edge-a").await.unwrap_err();
    fake.faults().add(fault().times(1));
    assert_eq!(uncordon_any(&cluster, "edge-a").await, Ok(Uncordoned::AnnotationsStay));
    assert_eq!(marks_of(&fake), (false, Some(json!("ebb:eve")), None));
}

#[tokio::test]
async fn a_name_that_would_be_another_path_is_not_sent() {
    let (fake, cluster) = still_cluster();
    let failure = cordon(&cluster, "../x", "zedkube", "reboot").await.unwrap_err();
    assert!(matches!(&failure, CordonFailure::Api(ApiFailure::Other { .. })), "{failure}");
    assert_eq!(fake.requests().recent(), []);
}

#[tokio::test]
async fn an_empty_owner_is_an_owner() {
    for (owner, adopted, calls) in [(None, true, 2), (Some(""), false, 1)] {
        let (fake, cluster) = still_cluster();
        mark(&fake, true, owner);
        assert_eq!(
            adopt(&cluster, "edge-a", "zedkube", "update", Ownerless::Eves).await,
            Ok(adopted),
            "{owner:?}"
        );
        assert_eq!(fake.requests().count("ebb/", "*", "nodes"), calls, "{owner:?}");
    }
}

#[tokio::test]
async fn an_adoption_reads_again_after_a_conflict_and_not_for_ever() {
    let (fake, cluster) = still_cluster();
    mark(&fake, true, None);
    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(10));
    let failure = adopt(&cluster, "edge-a", "zedkube", "update", Ownerless::Eves).await.unwrap_err();
    assert!(matches!(failure, ApiFailure::Conflict { .. }), "{failure}");
    let gone = json!({
        "kind": "Status", "reason": "NotFound", "details": {"kind": "nodes", "name": "edge-a"}, "code": 404,
    });
    fake.faults().add(Fault::on("patch", "nodes", Effect::Answer(Reply::json(404, &gone))));
    assert_eq!(
        adopt(&cluster, "edge-a", "zedkube", "update", Ownerless::Eves).await,
        Ok(false),
        "gone in between"
    );
    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(3));
    assert_eq!(adopt(&cluster, "edge-a", "zedkube", "update", Ownerless::Eves).await, Ok(true));
    assert_eq!(fake.requests().count("ebb/", "get", "nodes"), 10 + 1 + 4);
}

/// `kubectl uncordon` and `kubectl cordon` while zedkube is dead leave our annotation on a person's cordon.
#[tokio::test]
async fn a_cordon_that_somebody_set_after_us_stays() {
    let managed = |manager: &str| {
        let kubelet = json!({"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:metadata": {}}});
        json!([kubelet, objects::managed_cordon(manager)[0]])
    };
    let cases = [
        (managed("ebb-zedkube"), Uncordoned::Changed, None),
        (json!("nonsense"), Uncordoned::Changed, None),
        (managed("kubectl-cordon"), Uncordoned::StaysCordoned, Some(json!(true))),
    ];
    for (fields, expected, unschedulable) in cases {
        let (fake, cluster) = still_cluster();
        cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
        assert!(last(&fake, "patch", "nodes").query.contains("fieldManager=ebb-zedkube"));
        fake.edit("nodes", "", "edge-a", |node| node["metadata"]["managedFields"] = fields.clone()).unwrap();
        assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(expected), "{fields}");
        assert_eq!(marks(&fake), (unschedulable, None, None), "{fields}");
    }
}

/// A cordon of EVE's zedkube shows in the managed fields, and is ours after the adoption.
#[tokio::test]
async fn an_adopted_cordon_is_lifted_unless_a_person_set_it_anew() {
    for (later, expected) in [("zedbox", Uncordoned::Changed), ("kubectl", Uncordoned::StaysCordoned)] {
        let (fake, cluster) = still_cluster();
        let set = |manager: &str| {
            fake.edit("nodes", "", "edge-a", |node| {
                node["spec"]["unschedulable"] = json!(true);
                node["metadata"]["managedFields"] = objects::managed_cordon(manager);
            })
            .unwrap();
        };
        set("zedbox");
        assert!(adopt(&cluster, "edge-a", "zedkube", "update", Ownerless::Eves).await.unwrap());
        set(later);
        assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(expected), "{later}");
        let node = fake.get("nodes", "", "edge-a").unwrap();
        assert!(node["metadata"]["annotations"].get(ADOPTED_FROM).is_none(), "{node}");
    }
}
