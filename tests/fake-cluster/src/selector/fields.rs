//! Field selectors: `spec.nodeName=edge-a,status.phase!=Failed`. Only the fields that our clients select by, all of them
//! texts.

use serde_json::Value;

use crate::object::text;
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
        let parts = selector.split(',').filter(|part| !part.is_empty());
        Ok(Self { comparisons: parts.map(|part| comparison(resource, part)).collect::<Result<_, _>>()? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.comparisons.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.comparisons
            .iter()
            .all(|comparison| (text(object, &comparison.pointer) == comparison.value) == comparison.is_equal)
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
    Ok(Comparison { pointer: pointer(field), value: value.to_owned(), is_equal })
}

fn pointer(field: &str) -> String {
    match field {
        "source" => "/source/component".to_owned(),
        _ => format!("/{}", field.replace('.', "/")),
    }
}
