//! Rules of an operator for the drain of some pods.

use std::time::Duration;

use selector::Selector;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as NotAWord, StrDeserializer};
use serde::{Deserialize, Serialize};

use crate::view::PodView;

/// Handling of the pods that a rule selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// They are evicted like all others.
    #[default]
    Drain,
    /// They stay, and the drain does not wait for them.
    Skip,
    /// They end by themselves; the drain waits for that.
    WaitCompleted,
}

impl Behaviour {
    /// Parses the word that is used in a `[[rule]]` and in the label of a pod.
    pub fn of_word(word: &str) -> Option<Self> {
        let word: StrDeserializer<'_, NotAWord> = word.into_deserializer();
        Self::deserialize(word).ok()
    }
}

/// One rule. The first rule that matches a pod is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Name, for messages.
    pub name: String,
    /// Labels of the pods; `None` = any.
    pub selector: Option<Selector>,
    /// Namespace of the pods; `None` = any.
    pub namespace: Option<String>,
    /// Kind of their controller, such as `StatefulSet`; `None` = any kind, or no controller.
    pub owner_kind: Option<String>,
    /// Handling of the pods.
    pub behaviour: Behaviour,
    /// Pods of a higher order leave after all pods of the lower ones are gone and their volumes are detached; 0 without
    /// a rule.
    pub order: i32,
    /// Grace period to send with their eviction; `None` = the policy's or the pod's own.
    pub grace: Option<Duration>,
}

impl Rule {
    /// True if the rule applies to this pod.
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
