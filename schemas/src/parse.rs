//! Reads a topic as Go's `encoding/json` does, in one place for all types.
//!
//! Field names match in any letter case. Unknown fields are ignored. Missing and `null` fields get the zero value. If a
//! field is repeated, the last one counts. Keys of maps are not changed. The letter case is handled where serde passes
//! the fields of a struct ([`deserializer`]), so no type has to do anything for it.

mod deserializer;
mod tree;

use thiserror::Error;

use crate::Topic;
use deserializer::Part;

/// The longest text that is read as a topic, in bytes. Longer files are refused before they get here.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The error for a text that is no item of its topic: it names the bad field, the reason, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot read {}; accepted: {accepted}", self.reason())]
pub struct ParseError {
    /// Empty until [`parse`] fills it in.
    topic: &'static str,
    /// Empty if the whole text is bad.
    field: String,
    found: String,
    accepted: String,
}

impl ParseError {
    /// The reason in words: ``NodeDrainStatus: field `Status`: 10 is out of range``.
    pub fn reason(&self) -> String {
        match self.field() {
            Some(field) => format!("{}: field `{field}`: {}", self.topic, self.found),
            None => format!("{}: {}", self.topic, self.found),
        }
    }

    /// Path of the bad field, such as `Requests[0].Answer`; `None` if the whole text is bad.
    pub fn field(&self) -> Option<&str> {
        Some(self.field.as_str()).filter(|field| !field.is_empty())
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
    object(bytes).and_then(T::deserialize).map_err(|error| ParseError { topic: T::NAME, ..error })
}

/// The text as a JSON object.
fn object(bytes: &[u8]) -> Result<Part, ParseError> {
    let bad = |found: &str| ParseError::new(found, "a JSON object");
    if MAX_BYTES < bytes.len() {
        let accepted = format!("at most {MAX_BYTES} bytes");
        return Err(ParseError::new(&format!("{} bytes", bytes.len()), &accepted));
    }
    let text = bytes.trim_ascii();
    if text.is_empty() {
        return Err(bad("the text is empty"));
    }
    let tree = serde_json::from_slice(bytes).map_err(|error| bad(&format!("not JSON: {error}")))?;
    match text {
        [b'{', ..] => Ok(Part { name: String::new(), tree }),
        [b'[', ..] => Err(bad("the text is a list")),
        [b'"', ..] => Err(bad("the text is a string")),
        [b'n', ..] => Err(bad("the text is null")),
        [b't' | b'f', ..] => Err(bad("the text is a boolean")),
        _ => Err(bad("the text is a number")),
    }
}

#[cfg(test)]
mod tests;
