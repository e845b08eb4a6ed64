//! Field selectors: `spec.nodeName=edge-a,status.phase!=Failed`. Only the fields that the server offers for a kind.

use std::borrow::Cow;

use serde_json::Value;

use crate::object::at;
use crate::resources::Resource;

/// Comparisons that must all be true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    comparisons: Vec<Comparison>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    pointer: String,
    value: String,
    is_equal: bool,
}

impl Fields {
    /// Reads the `fieldSelector` of a query; an empty one selects everything.
    pub(crate) fn parse(resource: &Resource, selector: &str) -> Result<Self, String> {
        let parts = split_unescaped(selector).into_iter().filter(|part| !part.is_empty());
        Ok(Self { comparisons: parts.map(|part| comparison(resource, &part)).collect::<Result<_, _>>()? })
    }

    /// Selects the one object with this name.
    pub(crate) fn named(name: &str) -> Self {
        let pointer = "/metadata/name".to_owned();
        Self { comparisons: vec![Comparison { pointer, value: name.to_owned(), is_equal: true }] }
    }

    /// A selector that selects what both select.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.comparisons.extend(other.comparisons);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.comparisons.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.comparisons.iter().all(|comparison| {
            (field_text(object, &comparison.pointer) == comparison.value) == comparison.is_equal
        })
    }
}

fn comparison(resource: &Resource, part: &str) -> Result<Comparison, String> {
    let signs = [("!=", false), ("==", true), ("=", true)];
    let found = signs.iter().find_map(|(sign, is_equal)| Some((part.split_once(sign)?, *is_equal)));
    let ((field, value), is_equal) =
        found.ok_or_else(|| format!("invalid selector: '{part}'; can't understand '{part}'"))?;
    let is_known =
        matches!(field, "metadata.name" | "metadata.namespace") || resource.fields.contains(&field);
    if !is_known {
        return Err(format!("field label not supported: {field}"));
    }
    Ok(Comparison { pointer: pointer(field), value: unescape(value), is_equal })
}

fn pointer(field: &str) -> String {
    match field {
        "source" => "/source/component".to_owned(),
        _ => format!("/{}", field.replace('.', "/")),
    }
}

/// The field's text; a missing boolean reads as `false`, any other missing field as empty.
fn field_text<'a>(object: &'a Value, pointer: &str) -> Cow<'a, str> {
    match at(object, pointer) {
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(Value::Bool(flag)) => Cow::Borrowed(if *flag { "true" } else { "false" }),
        Some(Value::Number(number)) => Cow::Owned(number.to_string()),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => match pointer {
            "/spec/unschedulable" | "/spec/hostNetwork" => Cow::Borrowed("false"),
            _ => Cow::Borrowed(""),
        },
    }
}

/// Splits at commas without a backslash before them.
fn split_unescaped(selector: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_escaped = false;
    for character in selector.chars() {
        if character == ',' && !is_escaped {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(character);
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    parts
}

fn unescape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        text.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    text
}
