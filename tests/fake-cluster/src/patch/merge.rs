//! JSON merge patch, RFC 7386.

use serde_json::{Map, Value};

/// Maps are merged field by field, `null` removes a field, any other value replaces the old one.
pub(super) fn apply(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else { return };
    for (key, value) in fields {
        if value.is_null() {
            map.shift_remove(key);
        } else {
            apply(map.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}
