//! Strategic merge patch, as our agents send it: as a merge patch, but the conditions of the status are merged by their
//! type. Every other list is replaced as a whole, as taints are in Kubernetes. There are no directives (`$patch`).

use serde_json::Value;

use super::merge;
use crate::object::{items, text};

pub(super) fn apply(target: &mut Value, mut patch: Value) {
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
}
