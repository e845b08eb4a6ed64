//! The objects that a list or watch selects.

mod fields;
mod labels;

use serde_json::Value;

pub(crate) use fields::Fields;
pub(crate) use labels::Labels;

use crate::object;

/// A namespace, fields and labels, all of which must match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// The namespace; `None` means all.
    pub(crate) namespace: Option<String>,
    pub(crate) fields: Fields,
    pub(crate) labels: Labels,
}

impl Selection {
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == object::namespace(object))
            && self.fields.matches(object)
            && (self.labels.is_empty() || self.labels.matches(&object::labels(object)))
    }

    /// True if fields or labels select, because the server then cannot say how many objects are left.
    pub(crate) fn has_selector(&self) -> bool {
        !(self.fields.is_empty() && self.labels.is_empty())
    }
}
