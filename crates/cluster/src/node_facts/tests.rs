use serde_json::{Value, json};

use super::*;

fn node(value: Value) -> NodeFacts {
    NodeFacts::of(&serde_json::from_value::<Node>(value).unwrap())
}

#[test]
fn a_whole_node() {
    let facts = node(json!({
        "metadata": {
            "name": "edge-a", "uid": "n1",
            "labels": {"node-uuid": "d1", "tie-breaker-node": "true"},
            "annotations": {
                "ebb.dev/cordoned-by": "zedkube", "ebb.dev/slots-group": "line-3", "ebb.dev/drain": "a new fan",
                "ebb.dev/cordon-reason": "reboot",
            },
        },
        "spec": {"unschedulable": true},
        "status": {
            "volumesAttached": [{"name": "kubernetes.io/csi/csi.bench^handle-3", "devicePath": ""}, {}],
            "volumesInUse": ["kubernetes.io/csi/csi.bench^handle-4"],
            "conditions": [
                {"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"},
                {"type": "DiskPressure", "status": "True", "reason": "Full", "message": "a\nb",
                    "lastTransitionTime": "2026-11-27T12:03:00Z"},
            ],
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
        slots_group: Some("line-3".into()),
        is_drain_commanded: true,
        ready: true,
        tie_breaker: true,
        boot_id: "b1".into(),
        unhealthy: None,
        silent: None,
        conditions: vec![NodeCondition {
            kind: "DiskPressure".into(),
            since: "2026-11-27T12:03:00Z".into(),
            message: "a b".into(),
        }],
        volumes_attached: vec!["kubernetes.io/csi/csi.bench^handle-3".into()],
        volumes_in_use: vec!["kubernetes.io/csi/csi.bench^handle-4".into()],
    };
    let annotations = BTreeMap::from([("ebb.dev/drain".to_owned(), "a new fan".to_owned())]);
    let expected = NodeFacts {
        view,
        uuid_label: "d1".into(),
        machine_id: "m1".into(),
        cordon_reason: "reboot".into(),
        commands: NodeCommands::of("n1", &annotations),
        ..NodeFacts::default()
    };
    assert_eq!(facts, expected);
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
fn which_conditions_may_mean_trouble() {
    let found = |conditions: Value| -> Vec<(String, String)> {
        let view = node(json!({"status": {"conditions": conditions}})).view;
        view.conditions.into_iter().map(|found| (found.kind, found.message)).collect()
    };
    let of = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "Why"});
    for (condition, is_one) in [
        (of("Ready", "True"), false),
        (of("Ready", "False"), true),
        (of("Ready", "Unknown"), true),
        (of("KernelDeadlock", "True"), true),
        (of("KernelDeadlock", "False"), false),
        (of("KernelDeadlock", "Unknown"), false),
        (json!({"type": "PIDPressure"}), false),
        (json!({"status": "True"}), false),
    ] {
        let kind = condition["type"].as_str().unwrap_or_default().to_owned();
        let expected = is_one.then(|| (kind, "Why".to_owned()));
        assert_eq!(found(json!([condition])), expected.into_iter().collect::<Vec<_>>(), "{condition}");
    }
    assert_eq!(found(vec![of("KernelDeadlock", "True"); 40].into()).len(), MOST_CONDITIONS);
}

/// A condition that has had this status since a minute past noon.
fn condition(kind: &str, status: &str, minute: u32) -> Value {
    let since = format!("2026-11-21T12:{minute:02}:00Z");
    json!({"type": kind, "status": status, "lastTransitionTime": since, "lastHeartbeatTime": null})
}

#[test]
fn what_makes_a_node_unhealthy_and_for_how_long() {
    let ready = |minute| condition("Ready", "True", minute);
    let cases = [
        (json!([ready(1)]), None),
        (json!([condition("Ready", "Unknown", 8)]), Some(("NotReady", 2 * 60))),
        (json!([{"type": "Ready", "status": "False"}]), Some(("NotReady", 0))),
        (json!([{"type": "Ready", "lastTransitionTime": null}]), Some(("NotReady", 0))),
        (json!([{"type": "Ready", "status": "False", "lastTransitionTime": 7}]), Some(("NotReady", 0))),
        (json!([condition("Ready", "False", 20)]), Some(("NotReady", 0))),
        (json!([condition("MemoryPressure", "True", 1)]), Some(("NotReady", 0))),
        (Value::Null, Some(("NotReady", 0))),
        (json!([ready(1), condition("ReadonlyFilesystem", "False", 1)]), None),
        (json!([ready(1), condition("ReadonlyFilesystem", "True", 5)]), Some(("ReadonlyFilesystem", 5 * 60))),
        (
            json!([ready(1), condition("ReadonlyFilesystem", "Unknown", 5)]),
            Some(("ReadonlyFilesystem", 5 * 60)),
        ),
        (json!([ready(1), {"type": "ReadonlyFilesystem"}]), Some(("ReadonlyFilesystem", 0))),
        (
            json!([condition("Ready", "False", 4), condition("ReadonlyFilesystem", "True", 5)]),
            Some(("NotReady", 6 * 60)),
        ),
        (
            json!([condition("Ready", "False", 6), condition("ReadonlyFilesystem", "True", 5)]),
            Some(("ReadonlyFilesystem", 5 * 60)),
        ),
        (
            json!([condition("Ready", "False", 5), condition("ReadonlyFilesystem", "True", 5)]),
            Some(("NotReady", 5 * 60)),
        ),
    ];
    for (conditions, expected) in cases {
        let facts = node(json!({"status": {"conditions": conditions}}));
        let unhealthy = facts.at(Some("2026-11-21T12:10:00Z".parse().unwrap())).unhealthy;
        let seen = unhealthy.as_ref().map(|seen| (seen.condition.as_str(), seen.lasting.as_secs()));
        assert_eq!(seen, expected, "{conditions}");
        let unknown = facts.at(None).unhealthy;
        assert_eq!(unknown, facts.view.unhealthy, "{conditions}");
        assert_eq!(unknown.is_some(), expected.is_some(), "{conditions}");
        assert_eq!(unknown.unwrap_or_default().lasting, Duration::ZERO, "no time is known: {conditions}");
    }
}

#[test]
fn a_heartbeat_changes_nothing() {
    let at = |time: &str| {
        node(
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": time}]}}),
        )
    };
    assert_eq!(at("2026-11-21T12:00:00Z"), at("2026-11-21T12:05:00Z"));
}

#[test]
fn which_nodes_take_pods() {
    let takes = |change: &dyn Fn(&mut Value)| {
        let mut value = json!({"metadata": {"labels": {}}, "spec": {}, "status": {"conditions": [condition("Ready", "True", 1)]}});
        change(&mut value);
        takes_pods(&serde_json::from_value::<Node>(value).unwrap())
    };
    let tainted = |effect: &'static str| {
        takes(&move |node| node["spec"]["taints"] = json!([{"key": "x", "effect": effect}]))
    };
    assert!(takes(&|_| {}));
    assert!(tainted("PreferNoSchedule"));
    assert!(!tainted("NoSchedule"));
    assert!(!tainted("NoExecute"));
    assert!(!takes(&|node| node["spec"]["unschedulable"] = json!(true)));
    assert!(!takes(&|node| node["status"]["conditions"][0]["status"] = json!("Unknown")));
    assert!(!takes(&|node| node["status"] = Value::Null));
    assert!(!takes(&|node| node["metadata"]["labels"]["tie-breaker-node"] = json!("true")));
}
