//! POST: a new object.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Context, check_namespace, defaults};
use crate::object::{self, set};
use crate::refusal::Refusal;
use crate::resources::{Resource, StatusField};
use crate::store::{Object, Store};

/// The handling of the status that comes with a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewStatus {
    /// By the kind's rule: for requests.
    ByRule,
    /// The status is kept: for the handle.
    Kept,
}

/// Creates an object in `namespace` (empty for a cluster-wide kind).
pub(crate) fn create(
    store: &mut Store,
    resource: &'static Resource,
    namespace: &str,
    object: Value,
    new_status: NewStatus,
    context: Context,
) -> Result<Object, Refusal> {
    let mut object = whole(resource, namespace, object);
    name_it(&mut object);
    let name = object::name(&object).to_owned();
    if resource.is_namespaced() {
        check_namespace(store, resource, namespace, &name)?;
    }
    if store.get(resource, namespace, &name).is_some() {
        return Err(Refusal::already_exists(resource, &name));
    }
    if resource.status == StatusField::Dropped && new_status == NewStatus::ByRule {
        object::remove(&mut object, &["status"]);
    }
    defaults::fill(resource, &mut object);
    stamp(&mut object, resource, context);
    if context.dry_run {
        return Ok(Arc::new(object));
    }
    store.put(resource, object)
}

/// The object, with the kind and the namespace of the URL.
fn whole(resource: &Resource, namespace: &str, object: Value) -> Value {
    let mut whole = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
    if let (Some(map), Value::Object(fields)) = (whole.as_object_mut(), object) {
        map.extend(fields.into_iter().filter(|(key, _)| key != "apiVersion" && key != "kind"));
    }
    if resource.is_namespaced() {
        set(&mut whole, &["metadata", "namespace"], namespace);
    } else {
        object::remove(&mut whole, &["metadata", "namespace"]);
    }
    whole
}

/// Generates the name from `generateName` unless there is one.
fn name_it(object: &mut Value) {
    if object::name(object).is_empty() {
        let prefix = object::text(object, "/metadata/generateName").to_owned();
        set(object, &["metadata", "name"], format!("{prefix}{}", suffix()));
    }
}

/// Five random characters without vowels, so that no words appear, as the server generates them.
fn suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let pick = |byte: &u8| ALPHABET.get(usize::from(*byte) % ALPHABET.len()).copied().map_or('x', char::from);
    Uuid::new_v4().as_bytes().iter().take(5).map(pick).collect()
}

fn stamp(object: &mut Value, resource: &Resource, context: Context) {
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object::remove(object, &["metadata", field]);
    }
    set(object, &["metadata", "uid"], Uuid::new_v4().to_string());
    set(object, &["metadata", "creationTimestamp"], context.now.text());
    if resource.has_generation {
        set(object, &["metadata", "generation"], 1);
    }
}
