//! Reading a topic as Go's `encoding/json` does, in one place for all types.
//!
//! Field names in any letter case, unknown fields ignored, missing and `null` fields are the zero value, of
//! repeated fields the last counts. Map keys are left alone. The letter case is solved where serde names the
//! fields of a struct ([`deserializer`]), so no type has to do anything for it.

mod deserializer;
mod tree;

use thiserror::Error;

use crate::Topic;
use deserializer::FieldError;
use tree::Tree;

/// The longest text that is read as a topic. Files over this size are refused before they get here.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Why a text is not an item of a topic: what is wrong, in which field, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot read {}; accepted: {accepted}", self.reason())]
pub struct ParseError {
    topic: &'static str,
    field: Option<String>,
    found: String,
    accepted: String,
}

impl ParseError {
    /// What is wrong, in words: ``NodeDrainStatus: field `Status`: 10 is out of range``.
    pub fn reason(&self) -> String {
        match &self.field {
            Some(field) => format!("{}: field `{field}`: {}", self.topic, self.found),
            None => format!("{}: {}", self.topic, self.found),
        }
    }

    /// The bad field's path, as `Requests[0].Answer`; nothing when the whole text is bad.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// What would be right.
    pub fn accepted(&self) -> &str {
        &self.accepted
    }
}

/// Reads one item of topic `T`. White space around it, such as the newline of `echo`, is accepted.
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

/// What every item is.
const OBJECT: &str = "a JSON object";

#[cfg(test)]
mod tests;
