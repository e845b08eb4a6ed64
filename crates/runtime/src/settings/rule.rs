//! One `[[rule]]`: what becomes of the pods that it selects.

use std::time::Duration;

use selector::Selector;

use super::names::DnsLabel;
use super::raw::Raw;
use super::value::SettingValue;
use super::words::Behaviour;

/// One rule. All its conditions must hold; the first rule that selects a pod counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Its name, for messages; no other rule has it.
    pub name: RuleName,
    /// Which labels the pods have; `None` = any.
    pub selector: Option<Selector>,
    /// Their namespace; `None` = any.
    pub namespace: Option<DnsLabel>,
    /// The kind of their controller; `None` = any, also no controller.
    pub owner_kind: Option<OwnerKind>,
    /// What is done with them.
    pub behaviour: Behaviour,
    /// Pods of a higher order leave when all of the lower ones are gone; 0 is that of pods without a rule.
    pub order: i32,
    /// The grace period of their eviction, never zero; `None` leaves it to `pods.grace-period` or the pod.
    pub grace: Option<Duration>,
}

impl Rule {
    /// It skips, and has no condition at all.
    pub(crate) fn keeps_every_pod(&self) -> bool {
        let selects_all = self.selector.as_ref().is_none_or(|selector| selector.requirements.is_empty());
        self.behaviour == Behaviour::Skip
            && selects_all
            && self.namespace.is_none()
            && self.owner_kind.is_none()
    }
}

/// What a rule is called: 1 to 63 characters that can be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName(String);

impl RuleName {
    /// The name itself; empty only in [`Rule::default`].
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SettingValue for RuleName {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        let text = raw.text()?;
        let fits = !text.is_empty() && text.trim() == text && text.chars().nth(63).is_none();
        (fits && !text.contains(char::is_control)).then(|| Self(text.to_owned()))
    }

    fn accepted((): &()) -> String {
        "a text of 1 to 63 characters".to_owned()
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// The kind of a controller as its manifest writes it, such as `StatefulSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerKind(String);

impl OwnerKind {
    /// The kind itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Letters, digits and `-`, from a letter to a letter or digit, at most 63: what the API server takes for the kind of
/// a CustomResourceDefinition.
impl SettingValue for OwnerKind {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        let text = raw.text()?;
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let fits = text.len() <= 63
            && text.bytes().all(inner)
            && text.starts_with(|first: char| first.is_ascii_alphabetic())
            && !text.ends_with('-');
        fits.then(|| Self(text.to_owned()))
    }

    fn accepted((): &()) -> String {
        "the kind of a controller, such as `StatefulSet`".to_owned()
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// So many bytes of a selector: it is compared with every pod.
const LONGEST_SELECTOR: usize = 4096;

impl SettingValue for Selector {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        raw.text().filter(|text| text.len() <= LONGEST_SELECTOR)?.parse().ok()
    }

    fn accepted((): &()) -> String {
        "a label selector as for `kubectl -l`, such as `app in (db, web), !canary`".to_owned()
    }

    fn accepted_instead(refused: &Raw, (): &()) -> String {
        let accepted = Self::accepted(&());
        match refused.text() {
            Some(text) if text.len() > LONGEST_SELECTOR => {
                format!("{accepted}, of at most {LONGEST_SELECTOR} bytes")
            }
            Some(text) => match text.parse::<Self>() {
                Err(error) => format!("{accepted} ({error})"),
                Ok(_) => accepted,
            },
            None => accepted,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}
