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
    let mut object = checked(resource, namespace, object)?;
    name_it(&mut object, resource)?;
    let name = object::name(&object).to_owned();
    if resource.is_namespaced() {
        check_namespace(store, resource, namespace, &name)?;
    }
    if let Some(existing) = store.get(resource, namespace, &name) {
        return Err(Refusal::already_exists(resource, &name, object::is_terminating(existing)));
    }
    if resource.status == StatusField::Dropped && new_status == NewStatus::ByRule {
        object::remove(&mut object, &["status"]);
    }
    defaults::check(resource, &object)?;
    defaults::fill(resource, &mut object);
    stamp(&mut object, resource, context);
    if context.dry_run {
        return Ok(Arc::new(object));
    }
    store.put(resource, object)
}

/// The object, with kind and namespace filled in; refused if they contradict the URL.
fn checked(resource: &Resource, namespace: &str, object: Value) -> Result<Value, Refusal> {
    check_kind(resource, &object)?;
    let Value::Object(fields) = object else {
        return Err(Refusal::bad_request("the object provided is not a JSON map"));
    };
    let mut whole = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
    if let Some(map) = whole.as_object_mut() {
        map.extend(fields.into_iter().filter(|(key, _)| key != "apiVersion" && key != "kind"));
    }
    if !resource.is_namespaced() {
        object::remove(&mut whole, &["metadata", "namespace"]);
        return Ok(whole);
    }
    check_object_namespace(&whole, namespace)?;
    set(&mut whole, &["metadata", "namespace"], namespace);
    Ok(whole)
}

/// Checks kind and version: they may be left out, but must not differ from the URL.
pub(super) fn check_kind(resource: &Resource, object: &Value) -> Result<(), Refusal> {
    let (api_version, kind) = (object::text(object, "/apiVersion"), object::text(object, "/kind"));
    let fits = |given: &str, expected: &str| given.is_empty() || given == expected;
    if fits(api_version, &resource.api_version()) && fits(kind, resource.kind) {
        return Ok(());
    }
    let (expected, expected_version) = (resource.kind, resource.api_version());
    Err(Refusal::bad_request(format!(
        "the object is {kind} of {api_version}, but the URL is that of {expected} of {expected_version}"
    )))
}

pub(super) fn check_object_namespace(object: &Value, namespace: &str) -> Result<(), Refusal> {
    if object::namespace(object).is_empty() || object::namespace(object) == namespace {
        return Ok(());
    }
    Err(Refusal::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Checks the name, or generates one from `generateName`.
fn name_it(object: &mut Value, resource: &Resource) -> Result<(), Refusal> {
    if object::name(object).is_empty() {
        let prefix = object::text(object, "/metadata/generateName").to_owned();
        if prefix.is_empty() {
            let problem = "Required value: name or generateName is required";
            return Err(Refusal::invalid_object(resource, "", "metadata.name", problem));
        }
        set(object, &["metadata", "name"], format!("{prefix}{}", suffix()));
    }
    let name = object::name(object);
    if is_subdomain(name) {
        return Ok(());
    }
    let problem = format!("Invalid value: \"{name}\": a lowercase RFC 1123 subdomain is needed");
    Err(Refusal::invalid_object(resource, name, "metadata.name", &problem))
}

/// True for lower-case letters, digits, `-` and `.`, at most 253 characters, with letters or digits at the ends.
fn is_subdomain(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    name.len() <= 253
        && bytes.iter().all(|byte| is_end(byte) || matches!(byte, b'-' | b'.'))
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
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
