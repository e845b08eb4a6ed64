//! The text of a selector is read as the same selector, or refused.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn each_requirement_as_text() {
    let a = || "a".to_owned();
    for (requirement, text) in [
        (Requirement::In(a(), owned(&["b"])), "a=b"),
        (Requirement::In(a(), owned(&["b", "b"])), "a=b"),
        (Requirement::In(a(), owned(&[""])), "a="),
        (Requirement::In(a(), owned(&["c", "b"])), "a in (b,c)"),
        (Requirement::NotIn(a(), owned(&["b"])), "a!=b"),
        (Requirement::NotIn(a(), owned(&["c", "b", ""])), "a notin (,b,c)"),
        (Requirement::Exists(a()), "a"),
        (Requirement::DoesNotExist(a()), "!a"),
        (Requirement::GreaterThan(a(), 0), "a>0"),
        (Requirement::LessThan(a(), i64::MAX), "a<9223372036854775807"),
    ] {
        assert_eq!(requirement.to_string(), text, "{requirement:?}");
    }
    assert_eq!(Selector::default().to_string(), "");
}

/// The requirement is tried in front of others, between them and behind them.
#[test]
fn what_cannot_be_said_is_refused_everywhere() {
    let a = || "a".to_owned();
    for odd in [
        Requirement::Invalid(a()),
        Requirement::Invalid(String::new()),
        Requirement::In(a(), vec![]),
        Requirement::NotIn(a(), vec![]),
        Requirement::GreaterThan(a(), -1),
        Requirement::LessThan(a(), i64::MIN),
        Requirement::Exists(String::new()),
        Requirement::Exists("a,b".to_owned()),
        Requirement::DoesNotExist("a\0\0".to_owned()),
        Requirement::In(a(), owned(&["b,c"])),
        Requirement::In(a(), owned(&["b", "-"])),
        Requirement::NotIn("a!=b,c".to_owned(), owned(&["d"])),
    ] {
        let fine = Requirement::Exists("fine".to_owned());
        for requirements in [
            vec![odd.clone()],
            vec![odd.clone(), fine.clone()],
            vec![fine.clone(), odd.clone()],
            vec![fine.clone(), odd.clone(), fine],
        ] {
            let text = Selector { requirements }.to_string();
            assert!(text.parse::<Selector>().is_err(), "{odd:?} as {text:?}");
        }
    }
    assert_eq!(Requirement::Invalid(a()).to_string(), "(no such selector: \"a\")");
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]", "in|notin", "[a-z]{1,3}\\.[a-z]/[A-Za-z0-9]([-._A-Za-z0-9]{0,5}[a-z])?", ".{0,3}"]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[01]?", "in|notin", "[A-Z]([-._a-z]{0,5}[0-9])?", ".{0,3}"]
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let values = || vec(value(), 0..4);
    prop_oneof![
        (key(), values()).prop_map(|(key, values)| Requirement::In(key, values)),
        (key(), values()).prop_map(|(key, values)| Requirement::NotIn(key, values)),
        key().prop_map(Requirement::Exists),
        key().prop_map(Requirement::DoesNotExist),
        (key(), -2..3_i64).prop_map(|(key, bound)| Requirement::GreaterThan(key, bound)),
        (key(), -2..3_i64).prop_map(|(key, bound)| Requirement::LessThan(key, bound)),
        key().prop_map(Requirement::Invalid),
    ]
}

proptest! {
    #[test]
    fn what_is_written_selects_the_same_or_is_refused(
        requirements in vec(requirement(), 0..4),
        labels in vec(btree_map("[ab]", "[01]?", 0..3), 1..9),
    ) {
        let selector = Selector { requirements };
        let is_writable = selector.requirements.iter().all(Requirement::is_writable);
        let again = selector.to_string().parse::<Selector>();
        prop_assert_eq!(again.is_ok(), is_writable, "{}", selector);
        if let Ok(again) = again {
            prop_assert!(labels.iter().all(|labels: &BTreeMap<_, _>| again.selects(labels) == selector.selects(labels)));
            prop_assert_eq!(again.to_string().parse(), Ok(again));
        }
    }
}
