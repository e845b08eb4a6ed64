//! Strategic merge patch, as our agents send it: as a merge patch, but the conditions of the status are merged by their
//! type, and `"$patch": "delete"` removes one. Every other list is replaced as a whole, as taints are in Kubernetes. There are
//! no other directives.

use serde_json::Value;

use super::merge;
use crate::object::{items, text};

pub(super) fn apply(target: &mut Value, mut patch: Value) {
    if let Some(Value::Array(changed)) = patch.pointer_mut("/status/conditions") {
        let mut conditions = items(target, "/status/conditions").to_vec();
        for condition in changed.drain(..) {
            let position = conditions.iter().position(|old| text(old, "/type") == text(&condition, "/type"));
            let is_removed = text(&condition, "/$patch") == "delete";
            match position.and_then(|position| conditions.get_mut(position)) {
                _ if is_removed => drop(position.map(|position| conditions.remove(position))),
                Some(old) => merge::apply(old, &condition),
                None => conditions.push(condition),
            }
        }
        *changed = conditions;
    }
    merge::apply(target, &patch);
}
