//! Strategic merge patch: as a merge patch, but some lists merge element by element, by the field that Kubernetes'
//! API types name as their merge key. Directives: `$patch` (`delete`, `replace`, `merge`),
//! `$deleteFromPrimitiveList/…`, `$retainKeys`; `$setElementOrder/…` is accepted and changes nothing.

use serde_json::{Map, Value};

use crate::object::text;
use crate::refusal::Refusal;

/// The merge key of a list, by the name of the list's field. Lists without a merge key are replaced as a whole, as
/// taints, tolerations and `volumesAttached` are in Kubernetes.
fn merge_key(field: &str) -> Option<&'static str> {
    match field {
        "conditions" | "addresses" => Some("type"),
        "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env" | "imagePullSecrets" => {
            Some("name")
        }
        "ownerReferences" => Some("uid"),
        "ports" => Some("containerPort"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "podIPs" | "hostIPs" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

/// True for lists of plain values that are merged as sets.
fn is_set(field: &str) -> bool {
    matches!(field, "finalizers" | "podCIDRs")
}

pub(super) fn apply(target: &mut Value, patch: Value) -> Result<(), Refusal> {
    let Value::Object(mut patch) = patch else {
        *target = patch;
        return Ok(());
    };
    match patch.shift_remove("$patch").as_ref().map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            *target = Value::Object(patch);
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(Refusal::bad_request(format!("unknown patch directive {other:?}"))),
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else { return Ok(()) };
    if let Some(Value::Array(kept)) = patch.shift_remove("$retainKeys") {
        map.retain(|key, _| kept.iter().any(|kept| kept == key));
    }
    patch.into_iter().try_for_each(|(field, value)| merge_field(map, &field, value))
}

fn merge_field(map: &mut Map<String, Value>, field: &str, value: Value) -> Result<(), Refusal> {
    if let Some((directive, list)) = field.split_once('/').filter(|(directive, _)| directive.starts_with('$'))
    {
        if directive == "$deleteFromPrimitiveList"
            && let (Some(list), Some(gone)) =
                (map.get_mut(list).and_then(Value::as_array_mut), value.as_array())
        {
            list.retain(|element| !gone.contains(element));
        }
        return Ok(());
    }
    if value.is_null() {
        map.shift_remove(field);
        return Ok(());
    }
    let place = map.entry(field).or_insert(Value::Null);
    match value {
        Value::Array(elements) => merge_list(place, field, elements),
        value @ Value::Object(_) => apply(place, value),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            *place = value;
            Ok(())
        }
    }
}

fn merge_list(place: &mut Value, field: &str, elements: Vec<Value>) -> Result<(), Refusal> {
    let mut list = place.as_array().cloned().unwrap_or_default();
    if is_set(field) {
        for element in elements {
            if !list.contains(&element) {
                list.push(element);
            }
        }
    } else if let Some(key) = merge_key(field) {
        let replaces = |element: &Value| text(element, "/$patch") == "replace";
        if elements.iter().any(replaces) {
            list = elements.into_iter().filter(|element| !replaces(element)).collect();
        } else {
            elements.into_iter().try_for_each(|element| merge_element(&mut list, key, element))?;
        }
    } else {
        list = elements;
    }
    *place = Value::Array(list);
    Ok(())
}

fn merge_element(list: &mut Vec<Value>, key: &str, element: Value) -> Result<(), Refusal> {
    let Some(identity) = element.get(key).cloned() else {
        let message = format!("map: {element} does not contain declared merge key: {key}");
        return Err(Refusal::bad_request(message));
    };
    if text(&element, "/$patch") == "delete" {
        list.retain(|old| old.get(key) != Some(&identity));
        return Ok(());
    }
    if let Some(old) = list.iter_mut().find(|old| old.get(key) == Some(&identity)) {
        return apply(old, element);
    }
    let mut new = Value::Object(Map::new());
    apply(&mut new, element)?;
    list.push(new);
    Ok(())
}
