//! DELETE, also as the second half of an eviction: grace, preconditions, finalizers.

use std::sync::Arc;

use serde_json::Value;

use super::Context;
use crate::object::{self, set};
use crate::refusal::Refusal;
use crate::resources::{NAMESPACES, PODS, Resource};
use crate::store::{Object, Store};

/// Preconditions of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl Preconditions {
    pub(crate) fn check(&self, resource: &Resource, object: &Value) -> Result<(), Refusal> {
        let name = object::name(object);
        let current = object::uid(object);
        if let Some(uid) = self.uid.as_deref().filter(|uid| *uid != current) {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({current}). \
                 The object might have been deleted and then recreated"
            );
            return Err(Refusal::precondition(resource, name, &why));
        }
        let current = object::text(object, "/metadata/resourceVersion");
        if let Some(version) = self.resource_version.as_deref().filter(|version| *version != current) {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
                 ({current}). The object might have been modified"
            );
            return Err(Refusal::precondition(resource, name, &why));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Grace in seconds; `None` means the pod's own.
    pub(crate) grace_period: Option<i64>,
    pub(crate) preconditions: Preconditions,
}

/// The result of a deletion.
#[derive(Clone, Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Object),
    /// The object waits for its grace period or for finalizers.
    Terminating(Object),
}

/// Deletes an object, as far as that is possible at once.
pub(crate) fn delete(
    store: &mut Store,
    resource: &'static Resource,
    (namespace, name): (&str, &str),
    options: &DeleteOptions,
    context: Context,
) -> Result<Deleted, Refusal> {
    let before =
        store.get(resource, namespace, name).ok_or_else(|| Refusal::not_found(resource, name))?.clone();
    options.preconditions.check(resource, &before)?;
    let grace = grace(resource, &before, options);
    let is_held = is_held(&before);
    if grace > 0 || is_held {
        return mark(store, resource, &before, grace, context).map(Deleted::Terminating);
    }
    // Only kinds with a grace are marked before they are removed: watchers see both steps.
    let last = if resource == PODS { mark(store, resource, &before, grace, context)? } else { before };
    if !context.dry_run {
        store.remove(resource, namespace, name);
    }
    Ok(Deleted::Gone(last))
}

/// Stores the object with its deadline. If nothing differs, nothing is stored.
fn mark(
    store: &mut Store,
    resource: &'static Resource,
    before: &Object,
    grace: i64,
    context: Context,
) -> Result<Object, Refusal> {
    let after = terminating(resource, before, grace, context);
    if context.dry_run || after == **before {
        return Ok(Arc::new(after));
    }
    store.put(resource, after)
}

fn is_held(object: &Value) -> bool {
    let has = |pointer| !object::items(object, pointer).is_empty();
    has("/metadata/finalizers")
        || (object::text(object, "/kind") == NAMESPACES.kind && has("/spec/finalizers"))
}

/// The grace in seconds. Only pods that a kubelet runs have any.
fn grace(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    if resource != PODS {
        return 0;
    }
    let has_kubelet = !object::text(object, "/spec/nodeName").is_empty();
    if !has_kubelet || object::is_finished(object) {
        return 0;
    }
    let own = object::number(object, "/spec/terminationGracePeriodSeconds").unwrap_or(30);
    // The server reads a negative grace as one second.
    let wanted = options.grace_period.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let current = object::number(object, "/metadata/deletionGracePeriodSeconds");
    match current.filter(|_| object::is_terminating(object)) {
        Some(current) => wanted.unwrap_or(current),
        None => wanted.unwrap_or_else(|| own.max(0)),
    }
}

/// The object with its deadline. The grace of a running deletion can be made shorter, never longer.
fn terminating(resource: &Resource, before: &Value, grace: i64, context: Context) -> Value {
    let mut after = before.clone();
    let current = object::number(before, "/metadata/deletionGracePeriodSeconds");
    if !object::is_terminating(before) || current.is_some_and(|current| grace < current) {
        let deadline = match asked_at(before, current) {
            Some(asked_at) => seconds_text(asked_at.saturating_add(grace)),
            None => context.now.text_after(grace),
        };
        set(&mut after, &["metadata", "deletionTimestamp"], deadline);
        set(&mut after, &["metadata", "deletionGracePeriodSeconds"], grace);
    }
    if resource == NAMESPACES {
        set(&mut after, &["status", "phase"], "Terminating");
    }
    if resource.has_generation && !object::is_terminating(before) {
        let generation = object::number(before, "/metadata/generation").unwrap_or_default();
        set(&mut after, &["metadata", "generation"], generation.saturating_add(1));
    }
    after
}

/// When the running deletion was requested, in seconds since 1970: its deadline less its grace.
fn asked_at(object: &Value, grace: Option<i64>) -> Option<i64> {
    let deadline: jiff::Timestamp = object::text(object, "/metadata/deletionTimestamp").parse().ok()?;
    deadline.as_second().checked_sub(grace?)
}

fn seconds_text(second: i64) -> String {
    jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::MAX).to_string()
}
