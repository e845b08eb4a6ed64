use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn pod(value: Value) -> PodFacts {
    PodFacts::of(&serde_json::from_value::<Pod>(value).unwrap())
}

fn node(value: Value) -> NodeFacts {
    NodeFacts::of(&serde_json::from_value::<Node>(value).unwrap())
}

fn budget(value: Value) -> BudgetView {
    budget_view(&serde_json::from_value::<Budget>(value).unwrap())
}

#[test]
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
            "containers": [{"name": "main"}],
            "volumes": [{"name": "a", "configMap": {}}, {"name": "b", "emptyDir": {"medium": "Memory"}}],
        },
        "status": {"phase": "Running", "conditions": []},
    }));
    let expected = PodView {
        id: PodId { namespace: "shop".into(), name: "db-0".into(), uid: "u1".into() },
        phase: Phase::Running,
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
        terminating: Some(Terminating { grace: Duration::from_secs(10), overdue: Duration::ZERO }),
        finalizers: vec!["example.org/hold".into()],
    };
    assert_eq!(facts.view(), &expected);
    let overdue = |time: Option<&str>| {
        facts.at(time.map(|time| time.parse().unwrap())).terminating.unwrap().overdue.as_secs()
    };
    assert_eq!(overdue(None), 0);
    assert_eq!(overdue(Some("2026-11-21T11:59:59Z")), 0);
    assert_eq!(overdue(Some("2026-11-21T12:01:30Z")), 90);
}

#[test]
fn what_a_pod_lacks() {
    let empty = PodView { grace: Duration::from_secs(30), ..PodView::default() };
    for value in [
        json!({}),
        json!({"metadata": {}, "spec": {}, "status": {}}),
        json!({"metadata": null, "spec": null, "status": null}),
        json!({"metadata": {"labels": null, "annotations": null, "ownerReferences": null, "finalizers": null},
               "spec": {"volumes": null, "terminationGracePeriodSeconds": null}, "status": {"phase": null}}),
        json!({"metadata": {"annotations": {"other": "x"}, "ownerReferences": []},
               "spec": {"volumes": [{"name": "a", "emptyDir": null}]}, "status": {"phase": "Odd"}}),
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
fn a_whole_node() {
    let facts = node(json!({
        "metadata": {
            "name": "edge-a", "uid": "n1",
            "labels": {"node-uuid": "d1", "tie-breaker-node": "true"},
            "annotations": {"ebb.dev/cordoned-by": "zedkube"},
        },
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": "b1", "machineID": "m1", "architecture": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "operatingSystem": "",
                "osImage": "", "systemUUID": ""},
        },
    }));
    let view = NodeView {
        name: "edge-a".into(),
        uid: "n1".into(),
        cordoned: true,
        cordoned_by: Some("zedkube".into()),
        ready: true,
        tie_breaker: true,
        boot_id: "b1".into(),
    };
    assert_eq!(facts, NodeFacts { view, uuid_label: "d1".into(), machine_id: "m1".into() });
}

#[test]
fn what_makes_a_node_cordoned_and_ready() {
    let cases = [
        (json!({}), false, false),
        (json!({"spec": {"unschedulable": false}}), false, false),
        (
            json!({"spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}),
            true,
            false,
        ),
        (json!({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}), false, false),
        (json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}), false, false),
        (json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}), false, true),
        (json!({"metadata": {"labels": {"tie-breaker-node": "false"}}}), false, false),
    ];
    for (value, cordoned, ready) in cases {
        let view = node(value.clone()).view;
        assert_eq!((view.cordoned, view.ready, view.tie_breaker), (cordoned, ready, false), "{value}");
    }
}

#[test]
fn a_whole_budget() {
    let view = budget(json!({
        "metadata": {"namespace": "shop", "name": "db", "resourceVersion": "9", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"observedGeneration": 2, "expectedPods": 3, "currentHealthy": 2, "desiredHealthy": 2,
            "disruptionsAllowed": 0, "disruptedPods": {"db-0": "2026-11-21T12:00:00Z"}},
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
        disrupted_pods: vec!["db-0".into()],
    };
    assert_eq!(view, expected);
}

#[test]
fn a_status_that_speaks_of_an_older_generation_lags() {
    let cases = [
        (json!({}), false),
        (json!({"metadata": {"generation": 1}}), true),
        (
            json!({"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "expectedPods": 0, "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0}}),
            false,
        ),
        (
            json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2, "expectedPods": 0, "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0}}),
            true,
        ),
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
