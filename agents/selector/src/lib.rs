//! Label selectors, as `matchLabels` and `matchExpressions` mean them.

use std::collections::BTreeMap;

/// A label selector: all requirements must hold. Without any it selects everything.
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
    /// The label is there with one of these values.
    In(String, Vec<String>),
    /// The label is missing, or has none of these values.
    NotIn(String, Vec<String>),
    /// The label is there.
    Exists(String),
    /// The label is missing.
    DoesNotExist(String),
    /// An operator that the API server would not have accepted: selects nothing.
    Invalid(String),
}

impl Selector {
    /// Whether an object with these labels is selected.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
            Self::Invalid(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator() {
        let labels = BTreeMap::from([("app".to_owned(), "db".to_owned())]);
        let values = |v: &[&str]| v.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let cases = [
            (Requirement::In("app".into(), values(&["db", "web"])), true),
            (Requirement::In("app".into(), values(&["web"])), false),
            (Requirement::In("tier".into(), values(&["db"])), false),
            (Requirement::NotIn("app".into(), values(&["db"])), false),
            (Requirement::NotIn("app".into(), values(&["web"])), true),
            (Requirement::NotIn("tier".into(), values(&["x"])), true),
            (Requirement::Exists("app".into()), true),
            (Requirement::Exists("tier".into()), false),
            (Requirement::DoesNotExist("app".into()), false),
            (Requirement::DoesNotExist("tier".into()), true),
            (Requirement::Invalid("Gt".into()), false),
        ];
        for (requirement, expected) in cases {
            let selector = Selector { requirements: vec![requirement.clone()] };
            assert_eq!(selector.selects(&labels), expected, "{requirement:?}");
        }
        assert!(Selector::default().selects(&labels), "an empty selector selects everything");
    }
}
