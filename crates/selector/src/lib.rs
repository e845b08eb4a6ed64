//! Kubernetes label selectors: read from the text that `kubectl -l` accepts, written as the API server accepts it in
//! `labelSelector=`, made from `matchLabels` and `matchExpressions`, and matched against labels.
//!
//! ```
//! use selector::Selector;
//!
//! let selector: Selector = "app in (db, web), !canary".parse()?;
//! assert_eq!(selector.to_string(), "app in (db,web),!canary");
//! # Ok::<(), selector::ParseError>(())
//! ```

mod names;
mod parse;
mod text;

use std::collections::BTreeMap;

pub use names::{is_label_key, is_label_value};
pub use parse::ParseError;

/// A label selector: an object is selected if all requirements are met. Without requirements every object is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub struct Selector {
    /// The requirements; `matchLabels` entries are [`Requirement::In`] with one value.
    pub requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub enum Requirement {
    /// The label exists and has one of these values.
    In(String, Vec<String>),
    /// The label is missing, or has none of these values.
    NotIn(String, Vec<String>),
    /// The label exists.
    Exists(String),
    /// The label is missing.
    DoesNotExist(String),
    /// The label exists and is a whole number above this one. Only the text form has this operator, `matchExpressions`
    /// does not.
    GreaterThan(String, i64),
    /// The label exists and is a whole number below this one.
    LessThan(String, i64),
    /// An operator that the API server would not accept: no object is selected.
    Invalid(String),
}

impl Selector {
    /// True if an object with these labels is selected.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels))
    }
}

impl Requirement {
    /// Key of the label that this requirement is about.
    pub fn key(&self) -> &str {
        match self {
            Self::In(key, _)
            | Self::NotIn(key, _)
            | Self::Exists(key)
            | Self::DoesNotExist(key)
            | Self::GreaterThan(key, _)
            | Self::LessThan(key, _)
            | Self::Invalid(key) => key,
        }
    }

    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let number = |key: &String| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
            Self::GreaterThan(key, bound) => number(key).is_some_and(|number| number > *bound),
            Self::LessThan(key, bound) => number(key).is_some_and(|number| number < *bound),
            Self::Invalid(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator() {
        let labels = [("app", "db"), ("rank", "7"), ("big", "9223372036854775808")];
        let labels = BTreeMap::from(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let values = |v: &[&str]| v.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let cases = [
            (Requirement::In("app".into(), values(&["db", "web"])), true),
            (Requirement::In("app".into(), values(&["web"])), false),
            (Requirement::In("app".into(), values(&[])), false),
            (Requirement::In("tier".into(), values(&["db"])), false),
            (Requirement::NotIn("app".into(), values(&["db"])), false),
            (Requirement::NotIn("app".into(), values(&["web"])), true),
            (Requirement::NotIn("tier".into(), values(&["x"])), true),
            (Requirement::Exists("app".into()), true),
            (Requirement::Exists("tier".into()), false),
            (Requirement::DoesNotExist("app".into()), false),
            (Requirement::DoesNotExist("tier".into()), true),
            (Requirement::GreaterThan("rank".into(), 6), true),
            (Requirement::GreaterThan("rank".into(), 7), false),
            (Requirement::LessThan("rank".into(), 8), true),
            (Requirement::LessThan("rank".into(), 7), false),
            (Requirement::GreaterThan("app".into(), 0), false),
            (Requirement::LessThan("app".into(), 9), false),
            (Requirement::GreaterThan("tier".into(), 0), false),
            (Requirement::LessThan("tier".into(), 9), false),
            (Requirement::GreaterThan("big".into(), 0), false),
            (Requirement::Invalid("app".into()), false),
        ];
        for (requirement, expected) in cases {
            let selector = Selector { requirements: vec![requirement.clone()] };
            assert_eq!(selector.selects(&labels), expected, "{requirement:?}");
        }
        assert!(Selector::default().selects(&labels), "an empty selector selects everything");
    }

    #[test]
    fn all_requirements_must_hold() {
        let labels = BTreeMap::from([("app".to_owned(), "db".to_owned())]);
        for (text, expected) in [("app,!tier", true), ("app,tier", false), ("tier,app", false)] {
            assert_eq!(text.parse::<Selector>().unwrap().selects(&labels), expected, "{text}");
        }
    }
}

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
