//! Reads a topic as Go's `encoding/json` does, in one place for all types.
//!
//! Field names match in any letter case. Unknown fields are ignored. Missing and `null` fields get the zero value. If a
//! field is repeated, the last one counts. Keys of maps are not changed. The letter case is handled where serde passes
//! the field names of a struct ([`deserializer`]), so the types themselves need nothing for it.
//! fields of a struct ([`deserializer`]), so no type has to do anything for it.

mod deserializer;
mod tree;

use thiserror::Error;

use crate::Topic;
use deserializer::FieldError;
use tree::Tree;

/// The longest text that is read as a topic, in bytes. Longer files are refused before they get here.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The error for a text that is no item of its topic: it names the bad field, the reason, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot read {}; accepted: {accepted}", self.reason())]
pub struct ParseError {
    topic: &'static str,
    field: Option<String>,
    found: String,
    accepted: String,
}

impl ParseError {
    /// The reason in words: ``NodeDrainStatus: field `Status`: 10 is out of range``.
    pub fn reason(&self) -> String {
        match &self.field {
            Some(field) => format!("{}: field `{field}`: {}", self.topic, self.found),
            None => format!("{}: {}", self.topic, self.found),
        }
    }

    /// Path of the bad field, such as `Requests[0].Answer`; `None` if the whole text is bad.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Values that would be accepted.
    pub fn accepted(&self) -> &str {
        &self.accepted
    }
}

/// Reads one item of topic `T`. White space around the item, such as the newline of `echo`, is accepted.
///
/// The nesting depth is limited by `serde_json` (128), the length by [`MAX_BYTES`].
pub fn parse<T: Topic>(bytes: &[u8]) -> Result<T, ParseError> {
    let bad = |found: &str, accepted: &str| ParseError {
        topic: T::NAME,
        field: None,
        found: found.to_owned(),
        accepted: accepted.to_owned(),
    };
    if MAX_BYTES < bytes.len() {
        return Err(bad(&format!("{} bytes", bytes.len()), &format!("at most {MAX_BYTES} bytes")));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(bad("the text is empty", OBJECT));
    }
    let tree: Tree =
        serde_json::from_slice(bytes).map_err(|error| bad(&format!("not JSON: {error}"), OBJECT))?;
    if !matches!(tree, Tree::Object(_)) {
        return Err(bad(&format!("the text is {}", tree.kind()), OBJECT));
    }
    T::deserialize(tree).map_err(|FieldError { path, reason, accepted }| ParseError {
        topic: T::NAME,
        field: Some(path).filter(|path| !path.is_empty()),
        found: reason,
        accepted,
    })
}

/// The form of every item.
const OBJECT: &str = "a JSON object";

#[cfg(test)]
mod tests;
