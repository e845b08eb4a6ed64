//! The eviction subresource. Every answer is the one that a real server of version 1.34 was measured to give.

mod body;
mod budget;

use serde_json::json;

pub(crate) use body::{Eviction, read};

use crate::object::{self, set_condition};
use crate::refusal::Refusal;
use crate::resources::PODS;
use crate::store::{Object, Store};
use crate::write::{self, Context};

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
