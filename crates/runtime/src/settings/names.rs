//! Settings that are texts of a given form: names, label values, words of other programs.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use jiff::civil::Weekday;
use schemas::Source;
use selector::{Selector, is_label_value};
use serde_json::Value;

use super::notation::{Notation, quoted};

/// A form of a text.
pub(crate) trait Form {
    /// The description of the form.
    const WORDS: &str;

    /// True if the text has the form.
    fn fits(text: &str) -> bool;
}

impl<F: Form> Notation for F {
    type Of = String;
    const ACCEPTED: &str = F::WORDS;

    fn read(written: &Value) -> Option<String> {
        written.as_str().filter(|text| F::fits(text)).map(str::to_owned)
    }

    fn write(value: &String) -> Value {
        value.as_str().into()
    }
}

/// RFC 1123 label, the form of a namespace's name: lower-case letters, digits and `-`, 1 to 63 characters.
pub(crate) struct DnsLabel;

impl Form for DnsLabel {
    const WORDS: &str = "a DNS label (lower-case letters, digits, `-`; at most 63)";

    fn fits(text: &str) -> bool {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-')
    }
}

/// RFC 1123 subdomain, the form of a Node's name: DNS labels joined by dots, at most 253 characters.
pub(crate) struct NodeName;

impl Form for NodeName {
    const WORDS: &str = "the name of a Kubernetes Node";

    fn fits(text: &str) -> bool {
        text.len() <= 253 && text.split('.').all(DnsLabel::fits)
    }
}

/// The name of a rule: 1 to 63 characters that can be displayed.
pub(crate) struct RuleName;

impl Form for RuleName {
    const WORDS: &str = "a text of 1 to 63 characters";

    fn fits(text: &str) -> bool {
        let is_short = !text.is_empty() && text.chars().nth(63).is_none();
        is_short && text.trim() == text && !text.contains(char::is_control)
    }
}

/// The kind of a controller as in its manifest: letters, digits and `-`, from a letter to a letter or digit, at most
/// 63. The API server accepts the same for the kind of a CustomResourceDefinition.
pub(crate) struct OwnerKind;

impl Form for OwnerKind {
    const WORDS: &str = "the kind of a controller, such as `StatefulSet`";

    fn fits(text: &str) -> bool {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        text.len() <= 63
            && text.bytes().all(inner)
            && text.starts_with(|first: char| first.is_ascii_alphabetic())
            && !text.ends_with('-')
    }
}

/// The name of a time zone. Whether there is such a zone depends on the zones of this device, which may be others
/// tomorrow.
pub(crate) struct ZoneName;

impl Form for ZoneName {
    const WORDS: &str = "the name of a time zone, such as `Europe/Berlin`";

    fn fits(text: &str) -> bool {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        let begins = text.starts_with(|first: char| first.is_ascii_alphabetic());
        text.len() <= 64 && text.bytes().all(inner) && begins
    }
}

/// A word of a list that a setting takes.
pub(crate) trait ListWord: Copy + Ord + 'static {
    /// All of them.
    const WORDS: &[Self];

    /// How it is written.
    fn word(self) -> &'static str;
}

/// A list of such words, in any order; `[]` is none.
pub(crate) struct Words<T>(PhantomData<T>);

impl<T: ListWord> Notation for Words<T> {
    type Of = BTreeSet<T>;

    fn read(written: &Value) -> Option<BTreeSet<T>> {
        let word = |item: &Value| T::WORDS.iter().copied().find(|known| item == known.word());
        written.as_array()?.iter().map(word).collect()
    }

    fn write(value: &BTreeSet<T>) -> Value {
        value.iter().map(|word| word.word()).collect()
    }

    fn accepted() -> String {
        let words: Vec<&str> = T::WORDS.iter().map(|word| word.word()).collect();
        format!("a list of {}", quoted(&words))
    }
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(i8);

impl Day {
    /// The word of settings, such as `mon`.
    pub fn name(self) -> &'static str {
        let names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
        usize::try_from(self.0).ok().and_then(|day| names.get(day).copied()).unwrap_or_default()
    }
}

impl From<Weekday> for Day {
    fn from(weekday: Weekday) -> Self {
        Self(weekday.to_monday_zero_offset())
    }
}

impl ListWord for Day {
    const WORDS: &[Self] = &[Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6)];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl ListWord for Source {
    const WORDS: &[Self] = &Self::ALL;

    fn word(self) -> &'static str {
        self.name()
    }
}

/// Limit in bytes for a selector, which is compared with every pod.
const LONGEST_SELECTOR: usize = 4096;

/// A label selector, as `kubectl -l` takes it.
pub(crate) struct PodSelector;

impl Notation for PodSelector {
    type Of = Selector;
    const ACCEPTED: &str = "a label selector as for `kubectl -l`, such as `app in (db, web), !canary`";

    fn read(written: &Value) -> Option<Selector> {
        written.as_str().filter(|text| text.len() <= LONGEST_SELECTOR)?.parse().ok()
    }

    fn write(value: &Selector) -> Value {
        value.to_string().into()
    }

    fn accepted_instead(refused: &Value) -> String {
        let accepted = Self::accepted();
        match refused.as_str() {
            Some(text) if text.len() > LONGEST_SELECTOR => {
                format!("{accepted}, of at most {LONGEST_SELECTOR} bytes")
            }
            Some(text) => match text.parse::<Selector>() {
                Err(error) => format!("{accepted} ({error})"),
                Ok(_) => accepted,
            },
            None => accepted,
        }
    }
}

/// Limit for the number of `app` labels: the list is compared with every pod.
const MOST_APPS: usize = 64;

/// A list of label values, each not empty and at most 63 characters (Kubernetes' rule); `[]` is none.
pub(crate) struct Apps;

impl Notation for Apps {
    type Of = BTreeSet<String>;

    fn read(written: &Value) -> Option<BTreeSet<String>> {
        let items = written.as_array().filter(|items| items.len() <= MOST_APPS)?;
        let is_app = |text: &&str| !text.is_empty() && is_label_value(text);
        items.iter().map(|item| item.as_str().filter(is_app).map(str::to_owned)).collect()
    }

    fn write(value: &BTreeSet<String>) -> Value {
        value.iter().map(String::as_str).collect()
    }

    fn accepted() -> String {
        format!("a list of at most {MOST_APPS} label values")
    }
}

/// Longhorn's setting `node-drain-policy`: one of the five words that Longhorn and EVE accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LonghornDrainPolicy(&'static str);

impl LonghornDrainPolicy {
    const WORDS: [&str; 5] = [
        "block-for-eviction-if-contains-last-replica",
        "block-for-eviction",
        "block-if-contains-last-replica",
        "allow-if-replica-is-stopped",
        "always-allow",
    ];

    /// The word, for Longhorn.
    pub fn word(self) -> &'static str {
        self.0
    }
}

impl Notation for LonghornDrainPolicy {
    type Of = Self;

    fn read(written: &Value) -> Option<Self> {
        Self::WORDS.into_iter().find(|word| written == word).map(Self)
    }

    fn write(value: &Self) -> Value {
        value.0.into()
    }

    fn accepted() -> String {
        quoted(&Self::WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kubernetes() {
        let long = "a".repeat(64);
        let dots = |end: &str| format!("{}{end}", "a.".repeat(126));
        let (ends_with_a_dot, fits, too_long) = (dots(""), dots("a"), dots("aa"));
        for (name, label, node) in [
            ("kube-system", true, true),
            ("a", true, true),
            ("edge-1.example", false, true),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a..b", false, false),
            ("Upper", false, false),
            ("under_score", false, false),
            ("ä", false, false),
            (&long, false, false),
            (&ends_with_a_dot, false, false),
            (&fits, false, true),
            (&too_long, false, false),
        ] {
            assert_eq!((DnsLabel::fits(name), NodeName::fits(name)), (label, node), "{name:?}");
        }
    }

    #[test]
    fn app_labels_are_label_values() {
        for (value, fits) in
            [("csi-attacher", true), ("A_b.c", true), ("", false), ("a b", false), ("-a", false)]
        {
            assert_eq!(Apps::read(&vec![value].into()).is_some(), fits, "{value:?}");
        }
        let many = |count: usize| Apps::read(&(0..count).map(|n| format!("a{n}")).collect());
        assert_eq!(
            [many(0), many(MOST_APPS), many(MOST_APPS + 1)].map(|apps| apps.is_some()),
            [true, true, false]
        );
    }
}
