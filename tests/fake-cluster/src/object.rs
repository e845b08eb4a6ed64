//! Reads and writes fields in the JSON of a Kubernetes object. A missing field reads as empty, never as an error,
//! because the objects come from users.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The value at a JSON pointer. Pointers in this crate have no escapes, which makes this much faster than the general
/// function; for keys with slashes use [`annotation`] or a map.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(object, |place, step| match place {
        Value::Object(map) => map.get(step),
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// The text at a JSON pointer, or `""`.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a JSON pointer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    at(object, pointer).and_then(Value::as_i64)
}

/// True if the value at the JSON pointer is `true`.
pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    at(object, pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at a JSON pointer, or an empty one.
pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The map at a JSON pointer.
pub(crate) fn map<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    at(object, pointer).and_then(Value::as_object)
}

/// Sets the field at `path`; missing maps on the way are created, and any other value on the way is replaced by a map.
pub(crate) fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let [first, rest @ ..] = path else {
        *object = value.into();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    if let Some(map) = object.as_object_mut() {
        set(map.entry(*first).or_insert(Value::Null), rest, value);
    }
}

/// Sets the field at `path` unless it has a value already.
pub(crate) fn set_default(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let pointer = format!("/{}", path.join("/"));
    if at(object, &pointer).is_none_or(Value::is_null) {
        set(object, path, value);
    }
}

/// Removes and returns the field at `path`; the others keep their order.
pub(crate) fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut place = object;
    for step in parents {
        place = place.get_mut(step)?;
    }
    place.as_object_mut()?.shift_remove(*last)
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The annotation `key`, whose name may contain slashes.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    map(object, "/metadata/annotations")?.get(key)?.as_str()
}

/// The labels whose values are texts.
pub(crate) fn labels(object: &Value) -> BTreeMap<&str, &str> {
    label_map(at(object, "/metadata/labels"))
}

/// A JSON map as labels; empty for anything else.
pub(crate) fn label_map(value: Option<&Value>) -> BTreeMap<&str, &str> {
    let map = value.and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// True if the object has a deletion timestamp.
pub(crate) fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// True if the pod has ended by itself.
pub(crate) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// True if the `Ready` condition of the pod or node is true.
pub(crate) fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|ready| text(ready, "/status") == "True")
}

/// The status condition of this type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind)
}

/// Sets a condition by its type, and `lastTransitionTime` if the condition's status changes. Returns true if anything
/// except the time changed.
pub(crate) fn set_condition(object: &mut Value, condition: Value, now: &str) -> bool {
    let kind = text(&condition, "/type").to_owned();
    let old = self::condition(object, &kind).cloned();
    let mut new = condition;
    let same_status = old.as_ref().is_some_and(|old| text(old, "/status") == text(&new, "/status"));
    // A condition that was written without a time gets one, because no server shows an empty time.
    let known =
        |old: &Value| Some(text(old, "/lastTransitionTime").to_owned()).filter(|time| !time.is_empty());
    let since = old.as_ref().filter(|_| same_status).and_then(known).unwrap_or_else(|| now.to_owned());
    set(&mut new, &["lastTransitionTime"], since);
    if old.as_ref() == Some(&new) {
        return false;
    }
    let mut conditions = items(object, "/status/conditions").to_vec();
    match conditions.iter_mut().find(|place| text(place, "/type") == kind) {
        Some(place) => *place = new,
        None => conditions.push(new),
    }
    set(object, &["status", "conditions"], conditions);
    true
}

/// The owner reference with `controller: true`.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    items(object, "/metadata/ownerReferences").iter().find(|owner| flag(owner, "/controller"))
}

/// True if the object is controlled by the owner with this uid.
pub(crate) fn is_controlled_by(object: &Value, owner: &str) -> bool {
    controller(object).is_some_and(|reference| text(reference, "/uid") == owner)
}

/// An owner reference that makes `owner` the controller.
pub(crate) fn controller_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": text(owner, "/apiVersion"),
        "kind": text(owner, "/kind"),
        "name": name(owner),
        "uid": uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}
