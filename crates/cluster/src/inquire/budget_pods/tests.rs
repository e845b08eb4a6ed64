use serde_json::{Value, json};

use super::*;

fn why(status: &Value) -> Option<String> {
    let pod = json!({"metadata": {"name": "web-1"}, "spec": {"nodeName": "edge-a"}, "status": status});
    let found = unhealthy(&serde_json::from_value(pod).unwrap())?;
    assert_eq!((found.name.as_str(), found.node.as_str()), ("web-1", "edge-a"));
    Some(found.why)
}

#[test]
fn why_a_pod_is_not_healthy() {
    let ready = |status: &str| json!({"type": "Ready", "status": status, "reason": "ContainersNotReady"});
    let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let running = json!({"state": {"running": {}}});
    let open = |message: &str| json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    let cases = [
        (json!({"phase": "Running", "conditions": [ready("True")]}), None),
        (
            json!({"phase": "Running", "conditions": [ready("True")], "containerStatuses": [waiting("CrashLoopBackOff")]}),
            None,
        ),
        (json!({"phase": "Running", "conditions": [ready("False")]}), Some("ContainersNotReady")),
        (
            json!({"phase": "Running", "conditions": [ready("False")],
                   "containerStatuses": [running, waiting("CrashLoopBackOff")]}),
            Some("CrashLoopBackOff"),
        ),
        (
            json!({"phase": "Pending", "conditions": [ready("False")],
                   "initContainerStatuses": [waiting("ImagePullBackOff")],
                   "containerStatuses": [waiting("PodInitializing")]}),
            Some("ImagePullBackOff"),
        ),
        (
            json!({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}),
            Some("ContainerCreating"),
        ),
        (json!({"phase": "Pending", "conditions": [open("0/3 nodes")]}), Some("0/3 nodes")),
        (json!({"phase": "Pending", "conditions": [open("")]}), Some("Unschedulable")),
        (json!({"phase": "Pending"}), Some("Pending")),
        (json!({"phase": "Failed", "conditions": [ready("False")]}), Some("Failed")),
        (json!({"phase": "Running", "conditions": null, "containerStatuses": null}), Some("not Ready")),
        (json!({"phase": null, "conditions": [{"type": "Ready", "status": null}]}), Some("not Ready")),
        (json!({"containerStatuses": [{}, {"state": null}, {"state": {"waiting": {}}}]}), Some("not Ready")),
        (Value::Null, Some("not Ready")),
    ];
    for (status, expected) in cases {
        assert_eq!(why(&status).as_deref(), expected, "{status}");
    }
    assert_eq!(
        unhealthy(&Pod::default()),
        Some(UnhealthyPod { why: "not Ready".into(), ..UnhealthyPod::default() })
    );
}
