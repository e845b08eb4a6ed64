//! The annotation as text.

use super::Holder;
use crate::operation::is_name;

/// Bytes of the annotation, at most: a quarter of what the API server takes for all annotations of an object.
pub const LONGEST: usize = 64 * 1024;

/// Holders, at most.
pub const MOST: usize = 1_000;

/// The holders, or what is wrong with the text, as the end of a sentence about it and without a piece of it.
pub(super) fn read(text: &str) -> Result<Vec<Holder>, String> {
    check_length(text)?;
    let holders: Vec<Holder> = serde_json::from_str(text).map_err(|error| {
        format!("is not a list of holders (line {}, column {})", error.line(), error.column())
    })?;
    check(&holders)?;
    Ok(holders)
}

/// The text that [`read`] reads as these holders, or why there is none.
pub(super) fn write(holders: &[Holder]) -> Result<String, String> {
    let said = |why| format!("annotation `{}` {why}", super::HOLDERS);
    check(holders).map_err(said)?;
    let text = serde_json::to_string(holders).map_err(|_| said("cannot be written as JSON".to_owned()))?;
    check_length(&text).map_err(said)?;
    Ok(text)
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > LONGEST {
        return Err(format!("has {} bytes, more than {LONGEST}", text.len()));
    }
    Ok(())
}

/// A holder that names no node would look like one whose node is gone, and its slot would be freed.
fn check(holders: &[Holder]) -> Result<(), String> {
    if holders.len() > MOST {
        return Err(format!("has {} holders, more than {MOST}", holders.len()));
    }
    for (place, holder) in (1..).zip(holders) {
        if !is_name(&holder.node) {
            return Err(format!("has a holder without the name of a Node (number {place})"));
        }
        if holder.node_uid.is_empty() {
            return Err(format!("has a holder without NodeUID (number {place})"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "holders_tests.rs"]
mod tests;
