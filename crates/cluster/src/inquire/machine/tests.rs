use serde_json::json;

use super::*;

#[test]
fn how_a_migration_is() {
    let failed = |reason: &str| Migration::Failed(reason.to_owned());
    let running = |node: &str| Migration::Running(node.to_owned());
    let cases = [
        (Value::Null, Migration::None),
        (json!("x"), Migration::None),
        (json!({"targetNode": 1, "completed": "yes", "failed": 0}), running("")),
        (json!({"targetNode": "edge-b", "completed": false, "failed": false}), running("edge-b")),
        (json!({"targetNode": "edge-b", "completed": true}), Migration::Completed),
        (json!({"completed": true, "failed": true, "failureReason": "no space"}), failed("no space")),
        (json!({"failed": true, "failureReason": null}), failed("no reason given")),
    ];
    for (state, expected) in cases {
        assert_eq!(migration(&json!({"status": {"migrationState": state}})), expected, "{state}");
    }
    assert_eq!(migration(&json!({"status": null})), Migration::None);
}

#[test]
fn why_a_machine_cannot_be_migrated() {
    let no = |message: Value, reason: Value| {
        json!([
            {"type": "Ready", "status": "False", "message": "other"},
            {"type": "LiveMigratable", "status": "False", "message": message, "reason": reason},
        ])
    };
    let cases = [
        (Value::Null, ""),
        (json!([null, 1, {}, {"type": null}]), ""),
        (json!([{"type": "LiveMigratable", "status": "True", "message": "x"}]), ""),
        (no(json!("PVC is not shared"), json!("DisksNotLiveMigratable")), "PVC is not shared"),
        (no(json!(""), json!("DisksNotLiveMigratable")), "DisksNotLiveMigratable"),
        (no(Value::Null, Value::Null), "no reason given"),
    ];
    for (conditions, expected) in cases {
        assert_eq!(not_migratable(&json!({"status": {"conditions": conditions}})), expected, "{conditions}");
    }
}

#[test]
fn whether_kubevirt_was_asked_to_move_it_away_from_here() {
    let cases = [
        (json!({}), false),
        (json!({"status": {"evacuationNodeName": 1}}), false),
        (json!({"status": {"evacuationNodeName": "edge-b"}}), false),
        (json!({"status": {"evacuationNodeName": "edge-a"}}), true),
    ];
    for (machine, expected) in cases {
        assert_eq!(is_evacuating(&machine, "edge-a"), expected, "{machine}");
    }
}
