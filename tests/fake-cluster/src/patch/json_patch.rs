//! JSON patch, RFC 6902: all operations are applied, or none.

use serde_json::{Value, json};

use crate::object::text;
use crate::refusal::Refusal;

/// Greatest number of operations, as on a real server.
const MAX_OPERATIONS: usize = 10_000;

/// Greatest number of JSON bytes that all `copy` operations of a patch may add, because each could double the object.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Greatest depth of maps and lists, the same as for requests, so that recursion over an object is bounded.
const MAX_DEPTH: usize = 128;

pub(super) fn apply(object: &Value, patch: &Value) -> Result<Value, Refusal> {
    let operations =
        patch.as_array().ok_or_else(|| Refusal::bad_request("error decoding patch: not a list"))?;
    if operations.len() > MAX_OPERATIONS {
        let message = format!("a JSON patch may have {MAX_OPERATIONS} operations at most");
        return Err(Refusal::new(413, "RequestEntityTooLarge", message));
    }
    let mut patched = object.clone();
    let mut copied = 0;
    for operation in operations {
        perform(&mut patched, operation, &mut copied).ok_or_else(impossible)?;
    }
    Ok(patched)
}

/// The refusal of an operation. As on the server it says neither which operation failed nor why.
fn impossible() -> Refusal {
    let message = "the server rejected our request due to an error in our request";
    Refusal::new(422, "Invalid", message).with_details(json!({}))
}

/// Applies one operation; `None` if that is not possible.
fn perform(object: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let (path, from) = (text(operation, "/path"), text(operation, "/from"));
    let value = || operation.get("value").cloned();
    match text(operation, "/op") {
        "add" => add(object, path, value()?),
        "remove" => remove(object, path).map(drop),
        "replace" => {
            let value = checked(path, value()?)?;
            *object.pointer_mut(path)? = value;
            Some(())
        }
        "move" if path.starts_with(&format!("{from}/")) => None,
        "move" => {
            let moved = remove(object, from)?;
            add(object, path, moved)
        }
        "copy" => {
            let copy = object.pointer(from)?.clone();
            *copied += copy.to_string().len();
            if *copied > MAX_COPIED {
                return None;
            }
            add(object, path, copy)
        }
        "test" => (object.pointer(path)? == &value()?).then_some(()),
        _ => None,
    }
}

/// The value, if the object does not become too deep with it.
fn checked(path: &str, value: Value) -> Option<Value> {
    (path.matches('/').count() + depth(&value) <= MAX_DEPTH).then_some(value)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Option<()> {
    let value = checked(path, value)?;
    if path.is_empty() {
        *object = value;
        return Some(());
    }
    let (parent, last) = parent(object, path)?;
    if let Some(list) = parent.as_array_mut() {
        let index = if last == "-" { list.len() } else { last.parse().ok()? };
        return (index <= list.len()).then(|| list.insert(index, value));
    }
    parent.as_object_mut()?.insert(last, value);
    Some(())
}

fn remove(object: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = parent(object, path)?;
    if let Some(list) = parent.as_array_mut() {
        let index = last.parse().ok()?;
        return (index < list.len()).then(|| list.remove(index));
    }
    parent.as_object_mut()?.shift_remove(&last)
}

/// The map or list that holds the path's last step, and that step.
fn parent<'a>(object: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((object.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~")))
}
