use fake_cluster::{Effect, FakeCluster, Fault, Reply};
use serde_json::json;

use super::*;
use crate::testing::{connect_to, json, last, still_cluster};

/// The parts of a node that concern its cordon.
fn marks(fake: &FakeCluster) -> (Option<Value>, Option<Value>, Option<Value>) {
    let node = fake.get("nodes", "", "edge-a").unwrap();
    let annotation = |name: &str| node["metadata"]["annotations"].get(name).cloned();
    (node["spec"].get("unschedulable").cloned(), annotation(CORDONED_BY), annotation(CORDON_REASON))
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

#[tokio::test]
async fn a_schedulable_node_gets_spec_and_annotations_in_one_patch() {
    let (fake, cluster) = still_cluster();
    let cordoned = cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
    assert_eq!(cordoned.before(), PriorCordon::Schedulable);
    assert_eq!(cordoned.name(), "edge-a");
    assert!(cordoned.node().cordoned);
    assert_eq!(marks(&fake), (Some(json!(true)), Some(json!("zedkube")), Some(json!("reboot"))));
    let patch = last(&fake, "patch", "nodes");
    let body = json(&patch.body);
    assert!(body["metadata"]["resourceVersion"].is_string(), "{body}");
    assert_eq!(fake.requests().count("ebb/", "*", "nodes"), 2);
}

#[tokio::test]
async fn who_owns_a_cordon() {
    // unschedulable, annotation; before, owner after; the result of uncordon, unschedulable after it.
    let cases = [
        (true, None, PriorCordon::Foreign, None, Uncordoned::NotOurs, true),
        (true, Some("ebb:eve"), PriorCordon::Foreign, Some("ebb:eve"), Uncordoned::NotOurs, true),
        (true, Some("zedkube"), PriorCordon::Ours, Some("zedkube"), Uncordoned::Changed, false),
        (false, Some("zedkube"), PriorCordon::Schedulable, Some("zedkube"), Uncordoned::Changed, false),
        (false, Some("ebb:eve"), PriorCordon::Schedulable, Some("zedkube"), Uncordoned::Changed, false),
    ];
    for (unschedulable, annotation, before, owner, lifted, after) in cases {
        let (fake, cluster) = still_cluster();
        mark(&fake, unschedulable, annotation);
        let cordoned = cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
        assert_eq!(cordoned.before(), before, "{unschedulable} {annotation:?}");
        assert_eq!(marks(&fake).1, owner.map(|owner| json!(owner)), "{unschedulable} {annotation:?}");
        assert_eq!(
            uncordon(&cluster, "edge-a", "zedkube").await,
            Ok(lifted),
            "{unschedulable} {annotation:?}"
        );
        assert_eq!(marks(&fake).0.unwrap_or_default().as_bool().unwrap_or(false), after);
        if lifted == Uncordoned::Changed {
            assert_eq!(marks(&fake), (None, None, None), "{unschedulable} {annotation:?}");
        }
    }
}

/// A drain for another reason may begin while the node has our cordon from the last one.
#[tokio::test]
async fn an_agents_own_cordon_gets_the_reason_of_the_new_attempt() {
    let (fake, cluster) = still_cluster();
    cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
    fake.requests().clear();
    let cordoned = cordon(&cluster, "edge-a", "zedkube", "update").await.unwrap();
    assert_eq!((cordoned.before(), cordoned.node().cordoned), (PriorCordon::Ours, true));
    assert_eq!(marks(&fake), (Some(json!(true)), Some(json!("zedkube")), Some(json!("update"))));
    let body = json(&last(&fake, "patch", "nodes").body);
    assert!(body["metadata"]["resourceVersion"].is_string() && body["spec"].is_null(), "{body}");
    assert_eq!(fake.requests().count("ebb/", "*", "nodes"), 2);

    fake.requests().clear();
    cordon(&cluster, "edge-a", "zedkube", "update").await.unwrap();
    would_cordon(&cluster, "edge-a", "zedkube", "new disk").await.unwrap();
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

#[tokio::test]
async fn other_cordons_keep_their_reason() {
    for owner in ["ebb:eve", "zedkube"] {
        let (fake, cluster) = still_cluster();
        cordon(&cluster, "edge-a", "ebb:eve", "new disk").await.unwrap();
        cordon(&cluster, "edge-a", owner, "ebb drain").await.unwrap();
        assert_eq!(
            marks(&fake),
            (Some(json!(true)), Some(json!("ebb:eve")), Some(json!("new disk"))),
            "{owner}"
        );
        assert_eq!(fake.requests().count("ebb/", "patch", "nodes"), 1, "{owner}");
    }
}

#[tokio::test]
async fn an_annotation_that_outlived_its_cordon_is_removed() {
    let (fake, cluster) = still_cluster();
    mark(&fake, false, Some("zedkube"));
    assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(Uncordoned::AnnotationRemoved));
    assert_eq!(marks(&fake).1, None);
    assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(Uncordoned::NotOurs));
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
async fn a_version_that_is_not_the_last_is_not_overwritten() {
    let (fake, cluster) = still_cluster();
    // The first read returns an old version of the node.
    let mut old = fake.get("nodes", "", "edge-a").unwrap();
    old["metadata"]["resourceVersion"] = json!("1");
    fake.faults().add(Fault::on("get", "nodes", Effect::Answer(Reply::json(200, &old))));
    cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
    let codes: Vec<_> = fake.requests().recent().iter().map(|request| request.code).collect();
    assert_eq!(codes, [Some(200), Some(409), Some(200), Some(200)]);
    old["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    fake.faults().add(Fault::on("get", "nodes", Effect::Answer(Reply::json(200, &old))));
    let failure = cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap_err();
    assert!(matches!(failure, CordonFailure::Api(ApiFailure::Other { .. })), "{failure}");
}

#[tokio::test]
async fn failures_say_which() {
    let (fake, cluster) = still_cluster();
    let denied = Reply::forbidden("edge", "patch", "nodes", "", "edge-a");
    fake.faults().add(Fault::on("patch", "nodes", Effect::Answer(denied)));
    let failure = cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap_err();
    assert!(matches!(&failure, CordonFailure::Api(ApiFailure::Denied { .. })), "{failure}");
    assert!(failure.to_string().contains("needs the right to `patch` `nodes`"), "{failure}");
    let failure = cordon(&cluster, "edge-x", "zedkube", "reboot").await.unwrap_err();
    assert_eq!(failure, CordonFailure::NodeGone { node: "edge-x".to_owned() });
    assert_eq!(uncordon(&cluster, "edge-x", "zedkube").await, Ok(Uncordoned::NodeGone));
    let failure = cordon(&cluster, "../x", "zedkube", "reboot").await.unwrap_err();
    assert!(matches!(&failure, CordonFailure::Api(ApiFailure::Other { .. })), "{failure}");
    fake.faults().api_down().unwrap();
    let failure = cordon(&connect_to(&fake), "edge-a", "zedkube", "reboot").await.unwrap_err();
    assert!(matches!(&failure, CordonFailure::Api(ApiFailure::Unreachable { .. })), "{failure}");
}

#[tokio::test]
async fn a_person_lifts_any_cordon() {
    let reason = Some("new disk");
    // unschedulable, owner, reason; the result of uncordon_any, and how many calls it makes.
    let cases = [
        (true, None, None, Uncordoned::Changed, 2),
        (true, Some("zedkube"), reason, Uncordoned::Changed, 2),
        (true, Some("ebb:eve"), None, Uncordoned::Changed, 2),
        (false, Some("ebb:eve"), reason, Uncordoned::AnnotationRemoved, 2),
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
        let (field, by, why) = marks(&fake);
        assert_eq!((field.and_then(|field| field.as_bool()).unwrap_or(false), by, why), (false, None, None));
        assert_eq!(
            fake.requests().count("ebb/", "*", "nodes"),
            calls,
            "{unschedulable} {owner:?} {reason:?}"
        );
        assert_eq!(uncordon_any(&cluster, "edge-a").await, Ok(Uncordoned::AlreadySchedulable));
    }
}

#[tokio::test]
async fn a_person_overwrites_nobody_else() {
    let (fake, cluster) = still_cluster();
    mark(&fake, true, None);
    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(3));
    assert_eq!(uncordon_any(&cluster, "edge-a").await, Ok(Uncordoned::Changed));
    assert_eq!(fake.requests().count("ebb/", "get", "nodes"), 4);
    let body = json(&last(&fake, "patch", "nodes").body);
    assert!(body["metadata"]["resourceVersion"].is_string(), "{body}");
    assert_eq!(uncordon_any(&cluster, "edge-x").await, Ok(Uncordoned::NodeGone));
    mark(&fake, true, None);
    fake.faults().add(Fault::on("patch", "nodes", conflict()).always());
    let failure = uncordon_any(&cluster, "edge-a").await.unwrap_err();
    assert!(matches!(failure, ApiFailure::Conflict { .. }), "{failure}");
}

#[tokio::test]
async fn a_dry_run_of_a_cordon_is_checked_by_the_server_and_changes_nothing() {
    let cases = [
        (false, None, PriorCordon::Schedulable, 2),
        (true, None, PriorCordon::Foreign, 1),
        (true, Some("zedkube"), PriorCordon::Ours, 1),
    ];
    for (unschedulable, owner, expected, calls) in cases {
        let (fake, cluster) = still_cluster();
        mark(&fake, unschedulable, owner);
        let before = fake.get("nodes", "", "edge-a");
        assert_eq!(would_cordon(&cluster, "edge-a", "zedkube", "reboot").await, Ok(expected));
        assert_eq!(fake.get("nodes", "", "edge-a"), before);
        assert_eq!(fake.requests().count("ebb/", "*", "nodes"), calls);
    }
    let (fake, cluster) = still_cluster();
    would_cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
    let patch = last(&fake, "patch", "nodes");
    assert_eq!(patch.query, "&dryRun=All&fieldManager=ebb-zedkube");
    assert_eq!(json(&patch.body)["metadata"]["annotations"][CORDONED_BY], "zedkube");
    let denied = Reply::forbidden("edge", "patch", "nodes", "", "edge-a");
    fake.faults().add(Fault::on("patch", "nodes", Effect::Answer(denied)));
    let failure = would_cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap_err();
    assert!(failure.to_string().contains("needs the right to `patch` `nodes`"), "{failure}");
    let failure = would_cordon(&cluster, "edge-x", "zedkube", "reboot").await.unwrap_err();
    assert_eq!(failure, CordonFailure::NodeGone { node: "edge-x".to_owned() });
}

#[tokio::test]
async fn a_cordon_without_owner_can_be_adopted() {
    // unschedulable, owner; whether it is adopted, owner after, calls.
    let cases = [
        (true, None, true, Some("zedkube"), 2),
        (true, Some("zedkube"), false, Some("zedkube"), 1),
        (true, Some("ebb:eve"), false, Some("ebb:eve"), 1),
        (true, Some(""), false, Some(""), 1),
        (false, None, false, None, 1),
        (false, Some("ebb:eve"), false, Some("ebb:eve"), 1),
    ];
    for (unschedulable, owner, adopted, after, calls) in cases {
        let (fake, cluster) = still_cluster();
        mark(&fake, unschedulable, owner);
        let before = fake.get("nodes", "", "edge-a");
        let said = adopt(&cluster, "edge-a", "zedkube", "update").await;
        assert_eq!(said, Ok(adopted), "{unschedulable} {owner:?}");
        assert_eq!(marks(&fake).1, after.map(|owner| json!(owner)), "{unschedulable} {owner:?}");
        assert_eq!(fake.requests().count("ebb/", "*", "nodes"), calls, "{unschedulable} {owner:?}");
        if adopted {
            assert_eq!(marks(&fake), (Some(json!(true)), Some(json!("zedkube")), Some(json!("update"))));
            let body = json(&last(&fake, "patch", "nodes").body);
            assert!(body["metadata"]["resourceVersion"].is_string() && body["spec"].is_null(), "{body}");
            assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(Uncordoned::Changed));
        } else {
            assert_eq!(fake.get("nodes", "", "edge-a"), before, "{unschedulable} {owner:?}");
        }
    }
}

#[tokio::test]
async fn an_adoption_overwrites_nobody() {
    let (fake, cluster) = still_cluster();
    mark(&fake, true, None);
    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(3));
    assert_eq!(adopt(&cluster, "edge-a", "zedkube", "update").await, Ok(true));
    assert_eq!(fake.requests().count("ebb/", "get", "nodes"), 4);

    // Another owner takes the cordon over between the read and the write.
    let (fake, cluster) = still_cluster();
    mark(&fake, true, None);
    let free = fake.get("nodes", "", "edge-a").unwrap();
    mark(&fake, true, Some("ebb:eve"));
    fake.faults().add(Fault::on("get", "nodes", Effect::Answer(Reply::json(200, &free))));
    assert_eq!(adopt(&cluster, "edge-a", "zedkube", "update").await, Ok(false));
    assert_eq!(marks(&fake).1, Some(json!("ebb:eve")));

    assert_eq!(adopt(&cluster, "edge-x", "zedkube", "update").await, Ok(false), "no such node");
    mark(&fake, true, None);
    fake.edit("nodes", "", "edge-a", |node| node["metadata"]["annotations"] = json!({})).unwrap();
    let gone = json!({
        "kind": "Status", "reason": "NotFound", "details": {"kind": "nodes", "name": "edge-a"}, "code": 404,
    });
    fake.faults().add(Fault::on("patch", "nodes", Effect::Answer(Reply::json(404, &gone))));
    assert_eq!(adopt(&cluster, "edge-a", "zedkube", "update").await, Ok(false), "gone in between");
    fake.faults().add(Fault::on("patch", "nodes", conflict()).times(10));
    let failure = adopt(&cluster, "edge-a", "zedkube", "update").await.unwrap_err();
    assert!(matches!(failure, ApiFailure::Conflict { .. }), "{failure}");
    let denied = Reply::forbidden("edge", "patch", "nodes", "", "edge-a");
    fake.faults().add(Fault::on("patch", "nodes", Effect::Answer(denied)));
    let failure = adopt(&cluster, "edge-a", "zedkube", "update").await.unwrap_err();
    assert!(failure.to_string().contains("needs the right to `patch` `nodes`"), "{failure}");
}

/// A proxy, or an API server that is starting, answers 404 without naming the node: our cordon is still there, and the
/// uncordon has to be tried again.
#[tokio::test]
async fn a_404_that_does_not_name_the_node_ends_no_uncordon() {
    for verb in ["get", "patch"] {
        let (fake, cluster) = still_cluster();
        cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
        let nobodys = Effect::Answer(Reply::text(404, "404 page not found"));
        fake.faults().add(Fault::on(verb, "nodes", nobodys));
        let failure = uncordon(&cluster, "edge-a", "zedkube").await.unwrap_err();
        assert!(matches!(failure, ApiFailure::Other { .. }), "{verb}: {failure}");
        assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(Uncordoned::Changed), "{verb}");
    }
}

/// `kubectl uncordon` and `kubectl cordon` while zedkube is dead leave our annotation on a person's cordon.
#[tokio::test]
async fn a_cordon_that_somebody_set_after_us_or_wants_to_keep_stays() {
    let managed = |manager: &str| {
        json!([
            {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
            {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
        ])
    };
    let cases = [
        (managed("ebb-zedkube"), None, Uncordoned::Changed, false),
        (managed("ebb"), None, Uncordoned::Changed, false),
        (json!([]), None, Uncordoned::Changed, false),
        (json!("nonsense"), None, Uncordoned::Changed, false),
        (managed("kubectl-cordon"), None, Uncordoned::StaysCordoned, true),
        (managed("ebb-zedkube"), Some(""), Uncordoned::StaysCordoned, true),
    ];
    for (fields, keep, expected, stays) in cases {
        let (fake, cluster) = still_cluster();
        cordon(&cluster, "edge-a", "zedkube", "reboot").await.unwrap();
        assert!(last(&fake, "patch", "nodes").query.contains("fieldManager=ebb-zedkube"));
        fake.edit("nodes", "", "edge-a", |node| {
            node["metadata"]["managedFields"] = fields.clone();
            if let Some(keep) = keep {
                node["metadata"]["annotations"][KEEP_CORDONED] = json!(keep);
            }
        })
        .unwrap();
        assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(expected), "{fields} {keep:?}");
        let (unschedulable, owner, reason) = marks(&fake);
        assert_eq!(unschedulable == Some(json!(true)), stays, "{fields} {keep:?}");
        assert_eq!((owner, reason), (None, None), "{fields} {keep:?}");
        assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(Uncordoned::NotOurs));
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
                node["metadata"]["managedFields"] =
                    json!([{"manager": manager, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]);
            })
            .unwrap();
        };
        set("zedbox");
        assert!(adopt(&cluster, "edge-a", "zedkube", "update").await.unwrap());
        set(later);
        assert_eq!(uncordon(&cluster, "edge-a", "zedkube").await, Ok(expected), "{later}");
        let node = fake.get("nodes", "", "edge-a").unwrap();
        assert!(node["metadata"]["annotations"].get(ADOPTED_FROM).is_none(), "{node}");
    }
}
