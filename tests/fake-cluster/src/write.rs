//! The rules of changes to objects: the same for an HTTP request, for a controller and for the handle.

mod create;
mod defaults;
mod delete;
mod update;

use serde_json::Value;

pub(crate) use create::{NewStatus, create};
pub(crate) use delete::{DeleteOptions, Deleted, Preconditions, delete};
pub(crate) use update::{Part, note_manager, update};

use crate::clock::Moment;
use crate::object;
use crate::refusal::Refusal;
use crate::resources::{NAMESPACES, Resource};
use crate::store::{Object, Store};

/// When a change happens, and whether it is a dry run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) now: Moment,
    pub(crate) dry_run: bool,
}

impl Context {
    pub(crate) fn at(now: Moment) -> Self {
        Self { now, dry_run: false }
    }
}

/// Refuses new content in a namespace that is missing or terminating.
pub(crate) fn check_namespace(
    store: &Store,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<(), Refusal> {
    let Some(found) = store.get(NAMESPACES, "", namespace) else {
        return Err(Refusal::not_found(NAMESPACES, namespace));
    };
    if !object::is_terminating(found) {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut refusal = Refusal::forbidden(resource, name, &why);
    if let Some(details) = &mut refusal.details {
        let cause = serde_json::json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        });
        object::set(details, &["causes"], vec![cause]);
    }
    Err(refusal)
}

/// The object as the server would store it: filled in. Used by the handle.
pub(crate) fn completed(resource: &Resource, mut object: Value) -> Value {
    defaults::fill(resource, &mut object);
    object
}

/// Changes one stored object by a closure. Any field may change, also the status. If the object is missing or the
/// closure changes nothing, nothing is stored.
pub(crate) fn edit(
    store: &mut Store,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> Result<Option<Object>, Refusal> {
    let Some(before) = store.get(resource, namespace, name).cloned() else {
        return Ok(None);
    };
    let mut after = (*before).clone();
    change(&mut after);
    update::note_manager(&before, &mut after, None);
    update::commit(store, resource, &before, after, Part::Everything, false).map(Some)
}
