//! Rules by which an operator tells some pods from others.

use std::time::Duration;

use selector::Selector;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as NotAWord, StrDeserializer};
use serde::{Deserialize, Serialize};

use crate::view::PodView;

/// What a rule does with the pods that it selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// They leave, as all others do.
    #[default]
    Drain,
    /// They stay, and nobody waits for them.
    Skip,
    /// They end by themselves, and are waited for.
    WaitCompleted,
}

impl Behaviour {
    /// The behaviour that is written like this, in a `[[rule]]` and in the label of a pod.
    pub fn of_word(word: &str) -> Option<Self> {
        let word: StrDeserializer<'_, NotAWord> = word.into_deserializer();
        Self::deserialize(word).ok()
    }
}

/// One rule. The first one that matches a pod counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Its name, for messages.
    pub name: String,
    /// Which labels the pods have; `None` = any.
    pub selector: Option<Selector>,
    /// Their namespace; `None` = any.
    pub namespace: Option<String>,
    /// Kind of their controller, such as `StatefulSet`; `None` = any, also none.
    pub owner_kind: Option<String>,
    /// What is done with them.
    pub behaviour: Behaviour,
    /// Pods of a higher order leave when all of the lower ones are gone and their volumes detached; 0 without a rule.
    pub order: i32,
    /// Grace period sent with their eviction; `None` leaves it to the policy or the pod.
    pub grace: Option<Duration>,
}

impl Rule {
    /// Whether the rule is about this pod.
    pub fn matches(&self, pod: &PodView) -> bool {
        let kind = pod.controller.as_ref().map(|controller| controller.kind.as_str());
        self.selector.as_ref().is_none_or(|selector| selector.selects(&pod.labels))
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == pod.id.namespace)
            && self.owner_kind.as_deref().is_none_or(|wanted| kind == Some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use selector::Requirement;

    use super::*;
    use crate::view::{Controller, PodId};

    #[test]
    fn all_conditions_of_a_rule_must_hold() {
        let pod = PodView {
            id: PodId { namespace: "shop".into(), name: "db-0".into(), uid: "1".into() },
            labels: BTreeMap::from([("app".to_owned(), "db".to_owned())]),
            controller: Some(Controller { kind: "StatefulSet".into(), ..Controller::default() }),
            ..PodView::default()
        };
        let app = |value: &str| Selector {
            requirements: vec![Requirement::In("app".into(), vec![value.to_owned()])],
        };
        let rule = |selector, namespace: Option<&str>, kind: Option<&str>| Rule {
            selector,
            namespace: namespace.map(str::to_owned),
            owner_kind: kind.map(str::to_owned),
            ..Rule::default()
        };
        let cases = [
            (rule(None, None, None), true),
            (rule(Some(app("db")), Some("shop"), Some("StatefulSet")), true),
            (rule(Some(app("web")), Some("shop"), Some("StatefulSet")), false),
            (rule(Some(app("db")), Some("other"), None), false),
            (rule(None, None, Some("Job")), false),
        ];
        for (rule, expected) in cases {
            assert_eq!(rule.matches(&pod), expected, "{rule:?}");
        }
        let bare = PodView::default();
        assert!(
            !rule(None, None, Some("StatefulSet")).matches(&bare),
            "a pod without controller has no kind"
        );
    }
}
