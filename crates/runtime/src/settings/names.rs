//! Settings that Kubernetes restricts: names and label values.

use std::collections::BTreeSet;

use selector::is_label_value;

use super::raw::Raw;
use super::value::SettingValue;

/// RFC 1123 label: what a namespace may be called. Lower-case letters, digits and `-`, 1 to 63 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsLabel(String);

impl DnsLabel {
    /// The label itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SettingValue for DnsLabel {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        raw.text().filter(|text| is_dns_label(text)).map(|text| Self(text.to_owned()))
    }

    fn accepted((): &()) -> String {
        "a DNS label (lower-case letters, digits, `-`; at most 63)".to_owned()
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// RFC 1123 subdomain: what a Node may be called. DNS labels joined by dots, at most 253 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName(String);

impl NodeName {
    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SettingValue for NodeName {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        let is_name = |text: &&str| text.len() <= 253 && text.split('.').all(is_dns_label);
        raw.text().filter(is_name).map(|text| Self(text.to_owned()))
    }

    fn accepted((): &()) -> String {
        "the name of a Kubernetes Node".to_owned()
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// So many `app` labels at most: the list is compared with every pod.
const MOST_APPS: usize = 64;

/// Label values, not empty, each at most 63 characters (Kubernetes' rule); `[]` is none.
impl SettingValue for BTreeSet<String> {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        let items = raw.list().filter(|items| items.len() <= MOST_APPS)?;
        let is_app = |text: &&str| !text.is_empty() && is_label_value(text);
        items.iter().map(|item| item.text().filter(is_app).map(str::to_owned)).collect()
    }

    fn accepted((): &()) -> String {
        format!("a list of at most {MOST_APPS} label values")
    }

    fn show(&self) -> String {
        Raw::List(self.iter().cloned().map(Raw::Text).collect()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    #[test]
    fn names_follow_kubernetes() {
        let long = "a".repeat(64);
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
        ] {
            assert_eq!(DnsLabel::read(&text(name), &()).is_some(), label, "{name:?} as a label");
            assert_eq!(NodeName::read(&text(name), &()).is_some(), node, "{name:?} as a node");
        }
        assert_eq!(NodeName::read(&text(&"a.".repeat(126)), &()), None, "ends with a dot");
        assert!(NodeName::read(&text(&format!("{}a", "a.".repeat(126))), &()).is_some(), "253 characters");
        assert_eq!(NodeName::read(&text(&format!("{}aa", "a.".repeat(126))), &()), None, "254 characters");
    }

    #[test]
    fn app_labels_are_label_values() {
        for (value, fits) in
            [("csi-attacher", true), ("A_b.c", true), ("", false), ("a b", false), ("-a", false)]
        {
            let list = Raw::List(vec![text(value)]);
            assert_eq!(BTreeSet::read(&list, &()).is_some(), fits, "{value:?}");
        }
        let many = |n: usize| Raw::List((0..n).map(|n| text(&format!("a{n}"))).collect());
        assert!(BTreeSet::read(&many(MOST_APPS), &()).is_some());
        assert!(BTreeSet::read(&many(MOST_APPS + 1), &()).is_none());
        assert!(BTreeSet::read(&Raw::List(vec![]), &()).is_some_and(|apps| apps.is_empty()));
    }
}
