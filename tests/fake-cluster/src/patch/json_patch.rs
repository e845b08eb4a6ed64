//! JSON patch, RFC 6902: all operations, or none.

use serde_json::Value;

use crate::object::text;
use crate::refusal::Refusal;

/// As many as a real server takes.
const MAX_OPERATIONS: usize = 10_000;

/// Bytes of JSON that all `copy` operations of a patch may add: each could double the object.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Levels of maps and lists, as many as are read from a request: what recursion over an object needs is bounded.
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
        perform(&mut patched, operation, &mut copied).map_err(|problem| {
            let message =
                format!("the server rejected our request due to an error in our request: {problem}");
            Refusal::new(422, "Invalid", message)
        })?;
    }
    Ok(patched)
}

fn perform(object: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), String> {
    let (path, from) = (text(operation, "/path"), text(operation, "/from"));
    let value = || operation.get("value").cloned().ok_or_else(|| format!("no value for {path:?}"));
    match text(operation, "/op") {
        "add" => add(object, path, value()?),
        "remove" => remove(object, path).map(drop),
        "replace" => {
            let value = checked(path, value()?)?;
            *object.pointer_mut(path).ok_or_else(|| missing(path))? = value;
            Ok(())
        }
        "move" if path.starts_with(&format!("{from}/")) => Err(format!("{from:?} cannot move into itself")),
        "move" => {
            let moved = remove(object, from)?;
            add(object, path, moved)
        }
        "copy" => {
            let copy = object.pointer(from).ok_or_else(|| missing(from))?.clone();
            *copied += copy.to_string().len();
            if *copied > MAX_COPIED {
                return Err(format!("the copies are longer than {MAX_COPIED} bytes"));
            }
            add(object, path, copy)
        }
        "test" if object.pointer(path) == Some(&value()?) => Ok(()),
        "test" => Err(format!("testing value {path} failed")),
        other => Err(format!("unknown operation {other:?}")),
    }
}

fn missing(path: &str) -> String {
    format!("nothing is at {path:?}")
}

/// The value, if the object does not get too deep with it.
fn checked(path: &str, value: Value) -> Result<Value, String> {
    if path.matches('/').count() + depth(&value) <= MAX_DEPTH {
        return Ok(value);
    }
    Err(format!("the object would be deeper than {MAX_DEPTH} levels at {path:?}"))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let value = checked(path, value)?;
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (parent, last) = parent(object, path)?;
    if let Some(list) = parent.as_array_mut() {
        let index = if last == "-" { list.len() } else { index(&last, path)? };
        if index > list.len() {
            return Err(missing(path));
        }
        list.insert(index, value);
        return Ok(());
    }
    let map = parent.as_object_mut().ok_or_else(|| missing(path))?;
    map.insert(last, value);
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, last) = parent(object, path)?;
    if let Some(list) = parent.as_array_mut() {
        let index = index(&last, path)?;
        return if index < list.len() { Ok(list.remove(index)) } else { Err(missing(path)) };
    }
    parent.as_object_mut().and_then(|map| map.shift_remove(&last)).ok_or_else(|| missing(path))
}

/// The place that holds the path's last step, and that step.
fn parent<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| format!("{path:?} is not a JSON pointer"))?;
    let place = object.pointer_mut(parent).ok_or_else(|| missing(path))?;
    Ok((place, last.replace("~1", "/").replace("~0", "~")))
}

fn index(step: &str, path: &str) -> Result<usize, String> {
    step.parse().map_err(|_| format!("{step:?} in {path:?} is not a position in a list"))
}
