//! The rules by which a pod may run on a node.

use serde_json::Value;

use crate::object::{self, at, flag, items, label_map, text};
use crate::selector::Labels;

/// The taint of a cordoned node.
pub(super) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// True if the pod tolerates the taint `key` with this value and `effect`.
pub(super) fn tolerates(pod: &Value, key: &str, value: &str, effect: &str) -> bool {
    items(pod, "/spec/tolerations").iter().any(|toleration| {
        let (own_key, own_effect) = (text(toleration, "/key"), text(toleration, "/effect"));
        let is_any_value = text(toleration, "/operator") == "Exists";
        let key_fits = own_key == key || (own_key.is_empty() && is_any_value);
        let value_fits = is_any_value || text(toleration, "/value") == value;
        let effect_fits = own_effect.is_empty() || own_effect == effect;
        key_fits && value_fits && effect_fits
    })
}

/// True if the node is cordoned and the pod does not tolerate that. The field counts even if its taint is not set yet.
pub(super) fn is_cordoned_for(node: &Value, pod: &Value) -> bool {
    flag(node, "/spec/unschedulable") && !tolerates(pod, UNSCHEDULABLE, "", "NoSchedule")
}

/// True if a taint other than the cordon's keeps the pod away.
pub(super) fn is_tainted_for(node: &Value, pod: &Value) -> bool {
    items(node, "/spec/taints").iter().any(|taint| {
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        effect != "PreferNoSchedule" && key != UNSCHEDULABLE && !tolerates(pod, key, value, effect)
    })
}

/// True if the pod's node selector and required node affinity match the node.
pub(super) fn is_selected_by(node: &Value, pod: &Value) -> bool {
    let labels = object::labels(node);
    let wanted = label_map(at(pod, "/spec/nodeSelector"));
    let terms = items(
        pod,
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
        && (terms.is_empty() || terms.iter().any(|term| fits(node, term)))
}

/// True if one term of a node affinity (labels, node name) matches the node.
fn fits(node: &Value, term: &Value) -> bool {
    let (labels, fields) = (object::labels(node), [("metadata.name", object::name(node))].into());
    let matches = |pointer, values| {
        Labels::from_expressions(items(term, pointer)).is_ok_and(|wanted| wanted.matches(values))
    };
    matches("/matchExpressions", &labels) && matches("/matchFields", &fields)
}
