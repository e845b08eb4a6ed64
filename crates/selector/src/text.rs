//! Writes selectors as text.

use std::collections::BTreeSet;
use std::fmt;

use crate::names::{is_label_key, is_label_value};
use crate::{Requirement, Selector};

/// The selector as the API server accepts it in `labelSelector=`; empty for a selector that selects everything. A
/// selector that was read from text gives the same selector when its text is read again.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

/// The canonical form: `a=b` and `a!=b` for one value, `a in (x,y)` with the values sorted for more, `a`, `!a`, `a>1`.
///
/// A requirement that this form cannot express ([`Requirement::Invalid`], a set without values, a negative bound, keys
/// and values that no label can have) is written as a text that begins with `(`. The API server and [`str::parse`]
/// refuse `(` at any place of a selector, so such a requirement can never select more than it should: neither more
/// objects, nor by words hidden in a key.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        if !self.is_writable() {
            return write!(f, "(no such selector: {key:?})");
        }
        match self {
            Self::In(_, values) => set(f, key, values, ["=", "in"]),
            Self::NotIn(_, values) => set(f, key, values, ["!=", "notin"]),
            Self::Exists(_) | Self::Invalid(_) => f.write_str(key),
            Self::DoesNotExist(_) => write!(f, "!{key}"),
            Self::GreaterThan(_, bound) => write!(f, "{key}>{bound}"),
            Self::LessThan(_, bound) => write!(f, "{key}<{bound}"),
        }
    }
}

impl Requirement {
    fn is_writable(&self) -> bool {
        let is_set =
            |values: &[String]| !values.is_empty() && values.iter().all(|value| is_label_value(value));
        is_label_key(self.key())
            && match self {
                Self::In(_, values) | Self::NotIn(_, values) => is_set(values),
                Self::Exists(_) | Self::DoesNotExist(_) => true,
                // A label's value cannot have a sign, and the API server takes the bound for a label's value.
                Self::GreaterThan(_, bound) | Self::LessThan(_, bound) => *bound >= 0,
                Self::Invalid(_) => false,
            }
    }
}

fn set(f: &mut fmt::Formatter<'_>, key: &str, values: &[String], [one, many]: [&str; 2]) -> fmt::Result {
    let values: BTreeSet<&str> = values.iter().map(String::as_str).collect();
    let values: Vec<&str> = values.into_iter().collect();
    match values.as_slice() {
        [value] => write!(f, "{key}{one}{value}"),
        values => write!(f, "{key} {many} ({})", values.join(",")),
    }
}

#[cfg(test)]
mod tests;
