//! Strategic merge patch, as `kubectl cordon` and writers of conditions send it: as a merge patch, but the conditions of
//! the status are merged by their type. Every other list is replaced as a whole, as taints are in Kubernetes. A patch
//! with a directive (`$patch`, `$setElementOrder/…`) needs more than that, and is refused.

use serde_json::Value;

use super::merge;
use crate::object::{items, text};
use crate::refusal::Refusal;

pub(super) fn apply(target: &mut Value, mut patch: Value) -> Result<(), Refusal> {
    if let Some(directive) = directive(&patch) {
        return Err(Refusal::bad_request(format!("the patch directive {directive:?} is not supported")));
    }
    if let Some(Value::Array(changed)) = patch.pointer_mut("/status/conditions") {
        let mut conditions = items(target, "/status/conditions").to_vec();
        for condition in changed.drain(..) {
            match conditions.iter_mut().find(|old| text(old, "/type") == text(&condition, "/type")) {
                Some(old) => merge::apply(old, &condition),
                None => conditions.push(condition),
            }
        }
        *changed = conditions;
    }
    merge::apply(target, &patch);
    Ok(())
}

/// The first directive in a patch.
fn directive(patch: &Value) -> Option<&str> {
    match patch {
        Value::Object(map) => {
            let own = map.keys().map(String::as_str).find(|key| key.starts_with('$'));
            own.or_else(|| map.values().find_map(directive))
        }
        Value::Array(list) => list.iter().find_map(directive),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
