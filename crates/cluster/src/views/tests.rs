use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn pod(value: Value) -> PodFacts {
    PodFacts::of(&serde_json::from_value::<Pod>(value).unwrap())
}

fn budget(value: Value) -> BudgetView {
    budget_view(&serde_json::from_value::<Budget>(value).unwrap())
}

#[test]
#[expect(clippy::too_many_lines, reason = "one object with every field")]
fn a_whole_pod() {
    let facts = pod(json!({
        "metadata": {
            "namespace": "shop", "name": "db-0", "uid": "u1", "resourceVersion": "7",
            "labels": {"app": "db"},
            "annotations": {"kubernetes.io/config.mirror": "", "other": "x"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Helper", "name": "h", "uid": "u2"},
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u3", "controller": true},
            ],
            "deletionTimestamp": "2026-11-21T12:00:00Z", "deletionGracePeriodSeconds": 10,
            "finalizers": ["example.org/hold"],
            "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {}}}],
        },
        "spec": {
            "terminationGracePeriodSeconds": 60,
            "priority": 1000,
            "containers": [{"name": "main"}],
            "tolerations": [{"key": "other", "operator": "Exists"}, {"operator": "Exists"}],
            "volumes": [
                {"name": "a", "configMap": {}},
                {"name": "b", "emptyDir": {"medium": "Memory"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "data-db-0", "readOnly": true}},
                {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            ],
        },
        "status": {
            "phase": "Running", "conditions": [],
            "initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"state": {"waiting": {}}}, {"state": {"running": {}}}],
        },
    }));
    let expected = PodView {
        id: PodId { namespace: "shop".into(), name: "db-0".into(), uid: "u1".into() },
        phase: Phase::Running,
        ready: false,
        names_node: false,
        labels: BTreeMap::from([("app".to_owned(), "db".to_owned())]),
        mirror: true,
        controller: Some(Controller {
            api_version: "apps/v1".into(),
            kind: "StatefulSet".into(),
            name: "db".into(),
            uid: "u3".into(),
            existence: Existence::Unknown,
        }),
        empty_dir: true,
        grace: Duration::from_mins(1),
        terminating: Some(Terminating { grace: Duration::from_secs(10), ..Terminating::default() }),
        runs: true,
        finalizers: vec!["example.org/hold".into()],
        priority: 1000,
        tolerates_cordon: true,
        claims: vec![
            PodClaim { name: "data-db-0".into(), ephemeral: false },
            PodClaim { name: "db-0-d".into(), ephemeral: true },
        ],
    };
    assert_eq!(facts.view(), &expected);
    let overdue = |time: Option<&str>| {
        facts.at(time.map(|time| time.parse().unwrap())).terminating.unwrap().overdue.as_secs()
    };
    assert_eq!(overdue(None), 0);
    assert_eq!(overdue(Some("2026-11-21T11:59:59Z")), 0);
    assert_eq!(overdue(Some("2026-11-21T12:01:30Z")), 90);
    let left = |time: Option<&str>| {
        facts.at(time.map(|time| time.parse().unwrap())).terminating.unwrap().left.as_secs()
    };
    assert_eq!(left(None), 0);
    assert_eq!(left(Some("2026-11-21T11:59:50Z")), 10);
    assert_eq!(left(Some("2026-11-21T12:01:30Z")), 0);
}

#[test]
fn readiness_and_how_a_pod_came_to_its_node() {
    let bound = |node: &str, conditions: Value| {
        let facts = pod(
            json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": conditions}}),
        );
        (facts.view().ready, facts.view().names_node)
    };
    let scheduled = json!({"type": "PodScheduled", "status": "True"});
    let ready = |status: &str| json!({"type": "Ready", "status": status});
    for (node, conditions, expected) in [
        ("edge-a", json!([scheduled, ready("True")]), (true, false)),
        ("edge-a", json!([ready("False"), scheduled]), (false, false)),
        ("edge-a", json!([ready("True")]), (true, true)),
        ("edge-a", json!(null), (false, true)),
        ("", json!([]), (false, false)),
    ] {
        assert_eq!(bound(node, conditions.clone()), expected, "{node} {conditions}");
    }
}

#[test]
fn what_a_pod_lacks() {
    let empty = PodView { grace: Duration::from_secs(30), ..PodView::default() };
    for value in [
        json!({}),
        json!({"metadata": null, "spec": null, "status": null}),
        json!({"metadata": {"labels": null, "annotations": null, "ownerReferences": null, "finalizers": null},
               "spec": {"volumes": null, "terminationGracePeriodSeconds": null, "priority": null,
                        "tolerations": null}, "status": {"phase": null}}),
        json!({"metadata": {"annotations": {"other": "x"}, "ownerReferences": []},
               "spec": {"volumes": [{"name": "a", "emptyDir": null}], "tolerations": []},
               "status": {"phase": "Odd"}}),
        json!({"spec": {"volumes": [{"persistentVolumeClaim": null}, {"persistentVolumeClaim": {}}, {"ephemeral": {}},
                                    {"name": "a", "ephemeral": null}, {}]}}),
    ] {
        assert_eq!(pod(value.clone()).view(), &empty, "{value}");
    }
}

#[test]
fn phases_and_odd_graces() {
    let phases = [
        ("Pending", Phase::Pending),
        ("Running", Phase::Running),
        ("Succeeded", Phase::Succeeded),
        ("Failed", Phase::Failed),
        ("Unknown", Phase::Unknown),
    ];
    for (text, phase) in phases {
        assert_eq!(pod(json!({"status": {"phase": text}})).view().phase, phase);
    }
    for (seconds, expected) in [(0, 0), (-5, 1), (i64::MAX, 9_223_372_036_854_775_807)] {
        let view = pod(json!({"spec": {"terminationGracePeriodSeconds": seconds}}));
        assert_eq!(view.view().grace.as_secs(), expected, "{seconds}");
    }
    let dying = pod(json!({"metadata": {"deletionTimestamp": "2026-11-21T12:00:00Z"}}));
    assert_eq!(dying.view().terminating.unwrap().grace.as_secs(), 30, "the pod's own grace");
}

#[test]
fn a_whole_budget() {
    let view = budget(json!({
        "metadata": {"namespace": "shop", "name": "db", "resourceVersion": "9", "generation": 2, "ownerReferences": [
            {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "pg", "uid": "u", "controller": true}]},
        "spec": {"selector": {"matchLabels": {"app": "db"}}, "maxUnavailable": "10%",
            "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {"observedGeneration": 2, "expectedPods": 3, "currentHealthy": 2, "desiredHealthy": 2,
            "disruptionsAllowed": 0, "disruptedPods": {"db-0": "2026-11-21T12:00:00Z"},
            "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed",
                "message": "found no controllers for pod \"db-0\"", "lastTransitionTime": "2026-11-21T12:00:00Z"}]},
    }));
    let expected = BudgetView {
        namespace: "shop".into(),
        name: "db".into(),
        version: "9".into(),
        selector: Some(Selector { requirements: vec![Requirement::In("app".into(), vec!["db".into()])] }),
        status_lags: false,
        expected_pods: 3,
        current_healthy: 2,
        desired_healthy: 2,
        disruptions_allowed: 0,
        never_observed: false,
        demand: Some(Demand::MaxUnavailable(Amount::Percent(10))),
        lets_unready_go: true,
        sync_failure: "found no controllers for pod \"db-0\"".into(),
        disrupted_pods: vec!["db-0".into()],
        keeper: Some(Controller {
            api_version: "postgresql.cnpg.io/v1".into(),
            kind: "Cluster".into(),
            name: "pg".into(),
            uid: "u".into(),
            existence: Existence::Unknown,
        }),
    };
    assert_eq!(view, expected);
}

#[test]
fn a_status_that_speaks_of_an_older_generation_lags() {
    let cases = [
        (json!({}), false),
        (json!({"metadata": {"generation": 1}}), true),
        (json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2}}), true),
    ];
    for (value, lags) in cases {
        assert_eq!(budget(value.clone()).status_lags, lags, "{value}");
    }
}

#[test]
fn selectors() {
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
    let only = |requirement| Some(Selector { requirements: vec![requirement] });
    let app = || "app".to_owned();
    let cases = [
        (Value::Null, None),
        (json!({}), Some(Selector::default())),
        (expression("In", json!(["a", "b"])), only(Requirement::In(app(), vec!["a".into(), "b".into()]))),
        (expression("NotIn", json!(["a"])), only(Requirement::NotIn(app(), vec!["a".into()]))),
        (expression("Exists", Value::Null), only(Requirement::Exists(app()))),
        (expression("DoesNotExist", json!([])), only(Requirement::DoesNotExist(app()))),
        (expression("In", Value::Null), only(Requirement::Invalid(app()))),
        (expression("NotIn", json!([])), only(Requirement::Invalid(app()))),
        (expression("Exists", json!(["a"])), only(Requirement::Invalid(app()))),
        (expression("Gt", json!(["1"])), only(Requirement::Invalid(app()))),
    ];
    for (selector, expected) in cases {
        let view = budget(json!({"spec": {"selector": selector}}));
        assert_eq!(view.selector, expected, "{selector}");
    }
    let both = budget(json!({"spec": {"selector": {
        "matchLabels": {"tier": "x"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}}}));
    assert_eq!(both.selector.unwrap().requirements.len(), 2);
}

#[test]
fn what_a_budget_says_about_its_controller() {
    let condition = |kind: &str, status: &str, reason: Value, message: Value| {
        json!([
            {"type": "Other", "status": "False", "reason": "SyncFailed", "message": "other"},
            {"type": kind, "status": status, "reason": reason, "message": message},
        ])
    };
    let failed = |message| condition("DisruptionAllowed", "False", json!("SyncFailed"), message);
    let cases = [
        (json!({}), true, ""),
        (json!({"status": {"observedGeneration": null, "conditions": null}}), true, ""),
        (json!({"status": {"observedGeneration": 1}}), false, ""),
        (json!({"status": {"observedGeneration": 1, "conditions": failed(json!("why"))}}), false, "why"),
        (json!({"status": {"conditions": failed(Value::Null)}}), true, "SyncFailed"),
        (
            json!({"status": {"conditions":
                condition("DisruptionAllowed", "True", json!("SyncFailed"), json!("why"))}}),
            true,
            "",
        ),
        (
            json!({"status": {"conditions":
                condition("DisruptionAllowed", "False", json!("InsufficientPods"), json!("why"))}}),
            true,
            "",
        ),
    ];
    for (value, never_observed, sync_failure) in cases {
        let view = budget(value.clone());
        assert_eq!(
            (view.never_observed, view.sync_failure.as_str()),
            (never_observed, sync_failure),
            "{value}"
        );
    }
}

#[test]
fn what_a_budget_demands() {
    for (spec, expected) in [
        (json!({}), None),
        (json!({"maxUnavailable": null}), None),
        (json!({"minAvailable": 1}), Some(Demand::MinAvailable(Amount::Count(1)))),
        (json!({"minAvailable": null, "maxUnavailable": 0}), Some(Demand::MaxUnavailable(Amount::Count(0)))),
        (json!({"minAvailable": "100%"}), Some(Demand::MinAvailable(Amount::Percent(100)))),
        (json!({"maxUnavailable": "0%"}), Some(Demand::MaxUnavailable(Amount::Percent(0)))),
        (json!({"minAvailable": "x"}), None),
        (json!({"minAvailable": 1.5}), None),
        (json!({"minAvailable": {}}), None),
    ] {
        let view = budget(json!({"spec": spec}));
        assert_eq!((view.demand, view.lets_unready_go), (expected, false), "{spec}");
    }
    let policy = |word: &str| json!({"spec": {"unhealthyPodEvictionPolicy": word}});
    assert!(!budget(policy("IfHealthyBudget")).lets_unready_go);
}

#[test]
fn which_tolerations_let_a_pod_return_to_a_cordoned_node() {
    let key = "node.kubernetes.io/unschedulable";
    let cases = [
        (json!({}), false),
        (json!({"operator": "Exists"}), true),
        (json!({"operator": "Exists", "effect": "NoSchedule"}), true),
        (json!({"operator": "Exists", "effect": "NoExecute"}), false),
        (json!({"operator": "Exists", "key": key}), true),
        (json!({"operator": "Exists", "key": "node.kubernetes.io/not-ready"}), false),
        (json!({"operator": "Equal", "key": key, "value": ""}), true),
        (json!({"operator": "Equal", "key": key, "value": "true"}), false),
        (json!({"operator": "Equal"}), false),
        (json!({"key": key, "operator": null, "value": null, "effect": null}), true),
        (json!({"key": key, "operator": "Gt"}), false),
    ];
    for (toleration, expected) in cases {
        let facts = pod(json!({"spec": {"tolerations": [{"key": "x"}, toleration]}}));
        assert_eq!(facts.view().tolerates_cordon, expected, "{toleration}");
    }
}

#[test]
fn each_claim_counts_once() {
    let claim = |name: &str, ephemeral| PodClaim { name: name.to_owned(), ephemeral };
    let facts = pod(json!({"metadata": {"name": "web-1"}, "spec": {"volumes": [
        {"name": "b", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "a", "ephemeral": {}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "web-1-a"}},
    ]}}));
    let expected = [claim("shared", false), claim("web-1-a", true), claim("web-1-a", false)];
    assert_eq!(facts.view().claims, expected);
}
