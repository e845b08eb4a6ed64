//! The eviction subresource. Every answer is the one that a real server of version 1.34 was measured to give.

mod body;
mod budget;

use serde_json::{Value, json};

pub(crate) use body::{Eviction, read};
pub(crate) use budget::of_pod as budgets_of;

use crate::object::{self, set_condition, text};
use crate::refusal::Refusal;
use crate::resources::{NODES, PODS};
use crate::store::{Object, Store};
use crate::write::{self, Context};

/// An eviction that was carried out, and what was so at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The kind of the pod's owner; empty if there is none.
    pub owner: String,
    /// The pod's node.
    pub node: String,
    /// When it was bound to it: [`bound_at`].
    pub since: String,
    /// True if the request named the pod's UID.
    pub names_uid: bool,
    /// True if the node was cordoned; `None` if the Node does not exist, or says nothing.
    pub is_cordoned: Option<bool>,
}

/// When the pod was bound to its node, as RFC 3339; for one that was created with a node, when it was created.
pub fn bound_at(pod: &Value) -> &str {
    let bound = object::condition(pod, "PodScheduled").filter(|bound| text(bound, "/status") == "True");
    let bound = bound.map_or("", |bound| text(bound, "/lastTransitionTime"));
    if bound.is_empty() { text(pod, "/metadata/creationTimestamp") } else { bound }
}

/// Evicts a pod, or refuses with a reason. The steps have the server's order, because each has an effect: a budget's
/// disruption is used up before a precondition is checked.
pub(crate) fn evict(
    store: &mut Store,
    (namespace, name): (&str, &str),
    eviction: &Eviction,
    context: Context,
) -> Result<(), Refusal> {
    write::check_namespace(store, PODS, namespace, name)?;
    if eviction.name != name {
        return Err(Refusal::bad_request("name in URL does not match name in Eviction object"));
    }
    let context = Context { dry_run: context.dry_run || eviction.is_dry_run, ..context };
    let pod = store.get(PODS, namespace, name).cloned().ok_or_else(|| Refusal::not_found(PODS, name))?;
    if !is_exempt(&pod) {
        budget::take(store, &pod, context)?;
    }
    eviction.options.preconditions.check(PODS, &pod)?;
    if !context.dry_run {
        mark(store, &pod, context)?;
    }
    if !context.dry_run {
        let node = object::text(&pod, "/spec/nodeName").to_owned();
        let is_cordoned =
            store.get(NODES, "", &node).and_then(|node| node.pointer("/spec/unschedulable")?.as_bool());
        store.note_eviction(Evicted {
            pod: name.to_owned(),
            uid: object::uid(&pod).to_owned(),
            node,
            since: bound_at(&pod).to_owned(),
            names_uid: eviction.options.preconditions.uid.is_some(),
            is_cordoned,
            owner: object::text(&pod, "/metadata/ownerReferences/0/kind").to_owned(),
        });
    }
    // The condition is a change by the server itself: a version given by the caller was that of the pod before it.
    let mut options = eviction.options.clone();
    options.preconditions.resource_version = None;
    write::delete(store, PODS, (namespace, name), &options, context).map(drop)
}

/// True for a pod that does not run yet, or no longer: no budget is asked for it.
fn is_exempt(pod: &Object) -> bool {
    object::is_terminating(pod) || object::is_finished(pod) || object::text(pod, "/status/phase") == "Pending"
}

/// Sets the pod's condition DisruptionTarget.
fn mark(store: &mut Store, pod: &Object, context: Context) -> Result<(), Refusal> {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    let now = context.now.text();
    write::edit(store, PODS, object::namespace(pod), object::name(pod), |pod| {
        set_condition(pod, condition, &now);
    })
    .map(drop)
}
