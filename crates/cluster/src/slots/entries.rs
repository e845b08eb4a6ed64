//! Reads and writes an entry as text.

use super::Holder;
use crate::operation::is_name;

/// Most bytes of a value: an API server takes 1 MiB for all of them together.
pub const LONGEST: usize = 64 * 1024;

/// Most entries that one entry may name as passed over.
pub const MOST: usize = 1_000;

/// Reads the entry under this key. The error is the end of a sentence about its value, and quotes no part of it.
pub(super) fn read(node: &str, text: &str) -> Result<Holder, String> {
    check_length(text)?;
    let holder: Holder = serde_json::from_str(text).map_err(|error| {
        format!("is not an entry of the slots (line {}, column {})", error.line(), error.column())
    })?;
    check(node, &holder)?;
    Ok(holder)
}

/// Makes the text that [`read`] reads as this entry. The error is the reason for which that is impossible.
pub(super) fn write(node: &str, holder: &Holder) -> Result<String, String> {
    check(node, holder)?;
    let text = serde_json::to_string(holder).map_err(|_| "cannot be written as JSON".to_owned())?;
    check_length(&text)?;
    Ok(text)
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > LONGEST {
        return Err(format!("has {} bytes, more than {LONGEST}", text.len()));
    }
    Ok(())
}

/// Refuses an entry that does not name its node: it would look like one whose node is gone.
fn check(node: &str, holder: &Holder) -> Result<(), String> {
    if !is_name(node) || holder.node != node {
        return Err("does not name its Node".to_owned());
    }
    if holder.node_uid.is_empty() {
        return Err("has no NodeUID".to_owned());
    }
    if holder.passed_over.len() > MOST {
        return Err(format!("names {} entries as passed over, more than {MOST}", holder.passed_over.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
