//! PUT and the end of every PATCH: a new version of an object.

use std::sync::Arc;

use serde_json::Value;

use super::{Context, defaults};
use crate::object::{self, at, set};
use crate::objects;
use crate::refusal::Refusal;
use crate::resources::{Resource, StatusField, UpdateRule};
use crate::store::{Object, Store};

/// The fields that a writer may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status, if the kind has a status subresource.
    Main,
    /// The status and the metadata.
    Status,
    /// Every field: for a controller or the handle.
    Everything,
}

const MANAGED: &str = "/metadata/managedFields";

/// Fields that only the server sets: a writer's values are ignored.
const SYSTEM_METADATA: &[&str] = &[
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// Replaces the object `name` by `object`.
pub(crate) fn update(
    store: &mut Store,
    resource: &'static Resource,
    (namespace, name): (&str, &str),
    object: Value,
    part: Part,
    context: Context,
) -> Result<Object, Refusal> {
    let before =
        store.get(resource, namespace, name).cloned().ok_or_else(|| Refusal::not_found(resource, name))?;
    check_version(resource, &before, &object)?;
    check_uid(resource, &before, &object)?;
    commit(store, resource, &before, object, part, context.dry_run)
}

fn check_version(resource: &Resource, before: &Value, object: &Value) -> Result<(), Refusal> {
    let name = object::name(before);
    // The server treats version 0 as no version.
    let version = Some(object::text(object, "/metadata/resourceVersion")).filter(|version| *version != "0");
    let version = version.unwrap_or_default();
    if version.is_empty() && resource.update != UpdateRule::Unconditional {
        let problem = "Invalid value: 0: must be specified for an update";
        return Err(Refusal::invalid_object(resource, name, "metadata.resourceVersion", problem));
    }
    if !version.is_empty() && version != object::text(before, "/metadata/resourceVersion") {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Refusal::conflict(resource, name, why));
    }
    Ok(())
}

fn check_uid(resource: &Resource, before: &Value, object: &Value) -> Result<(), Refusal> {
    let uid = object::uid(object);
    if uid.is_empty() || uid == object::uid(before) {
        return Ok(());
    }
    let problem = format!("Invalid value: {uid:?}: field is immutable");
    Err(Refusal::invalid_object(resource, object::name(before), "metadata.uid", &problem))
}

/// Stores the new version of `before`. If nothing differs, nothing is stored. A terminating object whose last finalizer
/// is gone is removed.
pub(super) fn commit(
    store: &mut Store,
    resource: &'static Resource,
    before: &Object,
    mut after: Value,
    part: Part,
    dry_run: bool,
) -> Result<Object, Refusal> {
    keep_what_is_not_written(resource, before, &mut after, part);
    defaults::omit_zeros(resource, &mut after);
    if resource.has_generation && after.get("spec") != before.get("spec") {
        let generation = object::number(before, "/metadata/generation").unwrap_or_default();
        set(&mut after, &["metadata", "generation"], generation.saturating_add(1));
    }
    if after == **before {
        return Ok(Arc::clone(before));
    }
    if dry_run {
        return Ok(Arc::new(after));
    }
    let stored = store.put(resource, after)?;
    if may_go(&stored) {
        store.remove(resource, object::namespace(&stored), object::name(&stored));
    }
    Ok(stored)
}

/// Writes down who has set `spec.unschedulable`, as the server does for every field. An edit that is no request has no
/// manager: then the server does not say who it was.
pub(crate) fn note_manager(before: &Value, after: &mut Value, manager: Option<&str>) {
    let is_set = |object: &Value| object::flag(object, "/spec/unschedulable");
    if is_set(before) == is_set(after) || at(before, MANAGED) != at(after, MANAGED) {
        return;
    }
    match manager.filter(|_| is_set(after)) {
        Some(manager) => set(after, &["metadata", "managedFields"], objects::managed_cordon(manager)),
        None => drop(object::remove(after, &["metadata", "managedFields"])),
    }
}

/// True if the object was deleted, its grace is over and no finalizer holds it.
fn may_go(object: &Value) -> bool {
    object::is_terminating(object)
        && object::number(object, "/metadata/deletionGracePeriodSeconds").is_none_or(|grace| grace == 0)
        && object::items(object, "/metadata/finalizers").is_empty()
        && object::items(object, "/spec/finalizers").is_empty()
}

fn keep_what_is_not_written(resource: &Resource, before: &Value, after: &mut Value, part: Part) {
    set(after, &["apiVersion"], resource.api_version());
    set(after, &["kind"], resource.kind);
    set(after, &["metadata", "name"], object::name(before));
    let version = object::text(before, "/metadata/resourceVersion");
    set(after, &["metadata", "resourceVersion"], version);
    for field in SYSTEM_METADATA {
        carry(before, after, &["metadata", field]);
    }
    match part {
        Part::Main if resource.status != StatusField::Plain => carry(before, after, &["status"]),
        Part::Main | Part::Everything => {}
        Part::Status => keep_all_but_status(before, after),
    }
}

fn keep_all_but_status(before: &Value, after: &mut Value) {
    let is_kept = |key: &str| !matches!(key, "metadata" | "status" | "apiVersion" | "kind");
    let fields = [before, &*after].into_iter().filter_map(Value::as_object).flat_map(|map| map.keys());
    let fields: Vec<String> = fields.filter(|key| is_kept(key)).cloned().collect();
    for field in fields {
        carry(before, after, &[&field]);
    }
}

/// Restores one field to its previous value, or removes it if it was absent.
fn carry(before: &Value, after: &mut Value, path: &[&str]) {
    match at(before, &format!("/{}", path.join("/"))) {
        Some(value) => set(after, path, value.clone()),
        None => drop(object::remove(after, path)),
    }
}
