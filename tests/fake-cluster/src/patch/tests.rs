use serde_json::{Value, json};

use super::{JSON, MERGE, STRATEGIC, apply};

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
        (json!({}), object.clone()),
        (json!({"spec": {"unschedulable": null}}), json!({"spec": {"taints": [1, 2]}, "kind": "Node"})),
        (
            json!({"spec": {"taints": [3]}}),
            json!({"spec": {"unschedulable": true, "taints": [3]}, "kind": "Node"}),
        ),
        (json!({"spec": null}), json!({"kind": "Node"})),
        (json!({"kind": {"a": {"b": null}}}), json!({"spec": object["spec"], "kind": {"a": {}}})),
        (json!({"spec": 7}), json!({"spec": 7, "kind": "Node"})),
        (json!([]), json!(400)),
        (json!("text"), json!(400)),
    ] {
        check(MERGE, &object, &patch, &expected);
    }
    check("application/yaml", &object, &json!({}), &json!(415));
    assert_eq!(apply(MERGE, &object, b"{").map_err(|refusal| refusal.code), Err(400));
}

#[test]
fn strategic_patches_of_maps() {
    let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}}});
    for (patch, expected) in [
        (json!({"metadata": {"labels": {"a": null, "c": "3"}}}), json!({"b": "2", "c": "3"})),
        (json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}), json!({"c": "3"})),
        (json!({"metadata": {"labels": {"$patch": "delete"}}}), json!({})),
        (
            json!({"metadata": {"labels": {"$patch": "merge", "c": "3"}}}),
            json!({"a": "1", "b": "2", "c": "3"}),
        ),
        (json!({"metadata": {"labels": {"$retainKeys": ["b", "c"], "c": "3"}}}), json!({"b": "2", "c": "3"})),
    ] {
        let mut whole = object.clone();
        whole["metadata"]["labels"] = expected;
        check(STRATEGIC, &object, &patch, &whole);
    }
    check(STRATEGIC, &object, &json!({"metadata": {"labels": {"$patch": "burn"}}}), &json!(400));
}

#[test]
fn strategic_patches_of_lists() {
    for (field, before, patch, after) in [
        // With a merge key elements are changed, added and kept.
        (
            "conditions",
            json!([{"type": "Ready", "status": "True", "reason": "a"}, {"type": "Disk", "status": "False"}]),
            json!([{"type": "Ready", "status": "False"}, {"type": "New", "status": "True"}]),
            json!([
                {"type": "Ready", "status": "False", "reason": "a"},
                {"type": "Disk", "status": "False"},
                {"type": "New", "status": "True"},
            ]),
        ),
        (
            "conditions",
            json!([{"type": "Ready"}, {"type": "Disk"}]),
            json!([{"type": "Disk", "$patch": "delete"}]),
            json!([{"type": "Ready"}]),
        ),
        (
            "conditions",
            json!([{"type": "Ready"}]),
            json!([{"type": "New"}, {"$patch": "replace"}]),
            json!([{"type": "New"}]),
        ),
        ("conditions", json!([]), json!([{"status": "True"}]), json!(400)),
        // Taints have no merge key in Kubernetes: the list is replaced.
        (
            "taints",
            json!([{"key": "a", "effect": "NoSchedule"}]),
            json!([{"key": "b", "effect": "NoSchedule"}]),
            json!([{"key": "b", "effect": "NoSchedule"}]),
        ),
        ("volumesAttached", json!([{"name": "a"}]), json!([{"name": "b"}]), json!([{"name": "b"}])),
        // Sets of plain values are united.
        ("finalizers", json!(["a", "b"]), json!(["b", "c"]), json!(["a", "b", "c"])),
        ("args", json!(["a", "b"]), json!(["c"]), json!(["c"])),
        ("conditions", json!("nonsense"), json!([{"type": "Ready"}]), json!([{"type": "Ready"}])),
    ] {
        let expected = if after.is_number() { after } else { json!({"it": {field: after}}) };
        check(STRATEGIC, &json!({"it": {field: before}}), &json!({"it": {field: patch}}), &expected);
    }
    let object = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]}});
    check(STRATEGIC, &object, &patch, &json!({"metadata": {"finalizers": ["b"]}}));
}

#[test]
fn json_patches() {
    let object = json!({"a": {"b/c": 1, "~": 2}, "list": [1, 2, 3]});
    let list = |list: Value| json!({"a": {"b/c": 1, "~": 2}, "list": list});
    let refused = || json!(422);
    for (patch, expected) in [
        (json!([]), object.clone()),
        (json!([{"op": "add", "path": "/list/1", "value": 9}]), list(json!([1, 9, 2, 3]))),
        (json!([{"op": "add", "path": "/list/-", "value": 9}]), list(json!([1, 2, 3, 9]))),
        (json!([{"op": "add", "path": "/list/4", "value": 9}]), refused()),
        (json!([{"op": "remove", "path": "/list/0"}]), list(json!([2, 3]))),
        (json!([{"op": "remove", "path": "/list/3"}]), refused()),
        (json!([{"op": "remove", "path": "/missing"}]), refused()),
        (json!([{"op": "replace", "path": "/list/0", "value": 7}]), list(json!([7, 2, 3]))),
        (json!([{"op": "replace", "path": "/missing", "value": 7}]), refused()),
        (json!([{"op": "replace", "path": "/list"}]), refused()),
        (json!([{"op": "move", "from": "/list/0", "path": "/list/2"}]), list(json!([2, 3, 1]))),
        (json!([{"op": "move", "from": "/a", "path": "/a/b"}]), refused()),
        (json!([{"op": "copy", "from": "/list/0", "path": "/list/-"}]), list(json!([1, 2, 3, 1]))),
        (
            json!([{"op": "test", "path": "/a/b~1c", "value": 1}, {"op": "remove", "path": "/list"}]),
            json!({"a": object["a"]}),
        ),
        (json!([{"op": "test", "path": "/a/~0", "value": 3}, {"op": "remove", "path": "/list"}]), refused()),
        (
            json!([{"op": "add", "path": "/a/x~1y", "value": 0}, {"op": "remove", "path": "/a/x~1y"}]),
            object.clone(),
        ),
        (json!([{"op": "add", "path": "", "value": {"new": true}}]), json!({"new": true})),
        (json!([{"op": "add", "path": "nonsense", "value": 1}]), refused()),
        (json!([{"op": "burn", "path": "/a"}]), refused()),
        (json!({"op": "add"}), json!(400)),
    ] {
        check(JSON, &object, &patch, &expected);
    }
}

#[test]
fn a_json_patch_cannot_grow_without_bound() {
    // Twenty doublings exceed the limit, and would do no harm if there were none.
    let doubling: Vec<Value> = (0..20).map(|_| json!({"op": "copy", "from": "/x", "path": "/x/-"})).collect();
    check(JSON, &json!({"x": ["some text"]}), &json!(doubling), &json!(422));
    let deepening = |count| -> Vec<Value> {
        (1..=count).map(|depth| json!({"op": "add", "path": "/x".repeat(depth), "value": {}})).collect()
    };
    let deep = apply(JSON, &json!({}), json!(deepening(127)).to_string().as_bytes());
    assert!(deep.is_ok());
    check(JSON, &json!({}), &json!(deepening(128)), &json!(422));
    let replaced =
        json!([{"op": "add", "path": "/x", "value": []}, {"op": "replace", "path": "/x", "value": {}}]);
    check(JSON, &json!({}), &replaced, &json!({"x": {}}));
    let many: Vec<Value> = (0..10_001).map(|_| json!({"op": "test", "path": "", "value": {}})).collect();
    check(JSON, &json!({}), &json!(many), &json!(413));
}
