//! A label selector of a person: it is a selector or none, its text means the same, and both select the same objects.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use selector::{Requirement, Selector};

type Labels = BTreeMap<String, String>;

/// An object that this selector most likely selects.
fn fitting(selector: &Selector) -> Labels {
    let mut labels = Labels::new();
    for requirement in &selector.requirements {
        let value = match requirement {
            Requirement::In(_, values) => values.first().cloned(),
            Requirement::Exists(_) => Some(String::new()),
            Requirement::GreaterThan(_, bound) => Some(bound.saturating_add(1).to_string()),
            Requirement::LessThan(_, bound) => Some(bound.saturating_sub(1).to_string()),
            Requirement::NotIn(..) | Requirement::DoesNotExist(_) | Requirement::Invalid(_) => None,
        };
        if let Some(value) = value {
            labels.insert(requirement.key().to_owned(), value);
        }
    }
    labels
}

/// What the API server does with one requirement, written down a second time.
fn is_met(requirement: &Requirement, labels: &Labels) -> bool {
    let value = labels.get(requirement.key());
    let number = value.and_then(|value| value.parse::<i64>().ok());
    match requirement {
        Requirement::In(_, values) => value.is_some_and(|value| values.contains(value)),
        Requirement::NotIn(_, values) => !value.is_some_and(|value| values.contains(value)),
        Requirement::Exists(_) => value.is_some(),
        Requirement::DoesNotExist(_) => value.is_none(),
        Requirement::GreaterThan(_, bound) => number.is_some_and(|number| number > *bound),
        Requirement::LessThan(_, bound) => number.is_some_and(|number| number < *bound),
        Requirement::Invalid(_) => false,
    }
}

fuzz_target!(|input: &str| {
    match input.parse::<Selector>() {
        Ok(selector) => {
            let text = selector.to_string();
            assert!(!text.contains('\n'));
            let again: Selector = text.parse().expect("what was written can be read");
            assert_eq!(again, selector, "{text}");
            assert_eq!(again.to_string(), text);
            let mut labels = fitting(&selector);
            for _ in 0..3 {
                let is_selected = selector.requirements.iter().all(|one| is_met(one, &labels));
                assert_eq!(selector.selects(&labels), is_selected, "{text}: {labels:?}");
                labels.pop_first();
            }
        }
        Err(error) => {
            assert!((1..=input.chars().count() + 1).contains(&error.at), "{error}");
            assert!(!error.wrong.is_empty() && !error.to_string().contains('\n'), "{error}");
        }
    }
});
