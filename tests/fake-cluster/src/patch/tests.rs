use serde_json::{Value, json};

use super::{MERGE, STRATEGIC, apply};

/// Applies a patch and compares the result; a number is the code of the expected refusal.
fn check(content_type: &str, object: &Value, patch: &Value, expected: &Value) {
    let patched = apply(content_type, object, patch.to_string().as_bytes());
    let found = patched.unwrap_or_else(|refusal| json!(refusal.code));
    assert_eq!(found, *expected, "{object} and {patch}");
}

#[test]
fn merge_patches() {
    let object = json!({"spec": {"unschedulable": true, "taints": [1, 2]}, "kind": "Node"});
    for (patch, expected) in [
        (
            json!({"spec": {"taints": [3]}}),
            json!({"spec": {"unschedulable": true, "taints": [3]}, "kind": "Node"}),
        ),
        (json!({"kind": {"a": {"b": null}}}), json!({"spec": object["spec"], "kind": {"a": {}}})),
        (json!({"spec": 7}), json!({"spec": 7, "kind": "Node"})),
    ] {
        check(MERGE, &object, &patch, &expected);
    }
    assert_eq!(apply(MERGE, &object, b"{").map_err(|refusal| refusal.code), Err(400));
}

#[test]
fn strategic_patches() {
    let object = json!({
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "a"}, {"type": "Disk", "status": "False"},
        ]},
    });
    let taints = json!({"spec": {"taints": [{"key": "b"}]}});
    check(STRATEGIC, &object, &taints, &json!({"spec": taints["spec"], "status": object["status"]}));
    let conditions =
        json!([{"type": "Ready", "status": "False", "reason": null}, {"type": "New", "status": "True"}]);
    let expected = json!([
        {"type": "Ready", "status": "False"}, {"type": "Disk", "status": "False"}, {"type": "New", "status": "True"},
    ]);
    check(
        STRATEGIC,
        &object,
        &json!({"status": {"conditions": conditions}}),
        &json!({"spec": object["spec"], "status": {"conditions": expected}}),
    );
    for directive in [
        json!({"status": {"conditions": [{"type": "Disk", "$patch": "delete"}]}}),
        json!({"spec": {"$setElementOrder/taints": []}}),
    ] {
        check(STRATEGIC, &object, &directive, &json!(400));
    }
}
