//! kubectl's texts for pods that forbid a drain, and for its warnings, grouped by reason.

use std::collections::BTreeMap;

use crate::plan::{DRAIN_LABEL, Reason, Verdict};
use crate::view::PodId;

/// One pod with its verdict.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// Namespace, name and UID.
    pub pod: &'a PodId,
    /// The verdict.
    pub verdict: Verdict,
    /// Reasons of the verdict.
    pub reasons: &'a [Reason],
}

/// One sentence for each reason that forbids the drain: `cannot delete …: ns/a, ns/b`.
pub fn refusals<'a>(pods: impl IntoIterator<Item = Judged<'a>>) -> Vec<String> {
    let refused = pods.into_iter().filter(|pod| pod.verdict == Verdict::Refuse);
    by_words(refused, |reason| forbidding(reason).map(|(words, _)| words))
        .into_iter()
        .map(|(words, pods)| format!("cannot delete {words}: {pods}"))
        .collect()
}

/// One part for each warning: `ignoring DaemonSet-managed Pods: ns/a, ns/b`.
pub fn warnings<'a>(pods: impl IntoIterator<Item = Judged<'a>>) -> Vec<String> {
    let others = pods.into_iter().filter(|pod| pod.verdict != Verdict::Refuse);
    by_words(others, warning).into_iter().map(|(words, pods)| format!("{words}: {pods}")).collect()
}

/// Several errors in one text, as kubectl writes them.
pub fn aggregate(errors: &[String]) -> String {
    match errors {
        [error] => error.clone(),
        errors => format!("[{}]", errors.join(", ")),
    }
}

/// All reasons of all pods, each with its pods.
fn by_words<'a>(
    pods: impl Iterator<Item = Judged<'a>>,
    words: fn(&Reason) -> Option<String>,
) -> BTreeMap<String, String> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods {
        for words in pod.reasons.iter().filter_map(words) {
            groups.entry(words).or_default().push(pod.pod.to_string());
        }
    }
    groups.into_iter().map(|(words, pods)| (words, pods.join(", "))).collect()
}

/// Name of the flag of `kubectl drain` that permits what this reason forbids; the settings are `pods.NAME`. `None` of a
/// reason that forbids nothing.
pub fn permitting_flag(reason: &Reason) -> Option<&'static str> {
    forbidding(reason).map(|(_, flag)| flag)
}

/// kubectl's words for a reason that may forbid a drain, and the flag that permits it.
fn forbidding(reason: &Reason) -> Option<(String, &'static str)> {
    let row = |words: &str, flag| Some((words.to_owned(), flag));
    match reason {
        Reason::DaemonSet => {
            row("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)", "ignore-daemonsets")
        }
        Reason::OrphanOfDaemonSet(name) => row(&format!("daemonsets.apps {name:?} not found"), "force"),
        Reason::EmptyDir => {
            row("Pods with local storage (use --delete-emptydir-data to override)", "delete-emptydir-data")
        }
        Reason::NoController => row("Pods that declare no controller (use --force to override)", "force"),
        Reason::Mirror
        | Reason::Finished
        | Reason::KeptApp(_)
        | Reason::TerminatingTooLong
        | Reason::Label(_)
        | Reason::UnknownLabel(_)
        | Reason::Rule(_)
        | Reason::NotSelected => None,
    }
}

fn warning(reason: &Reason) -> Option<String> {
    match reason {
        Reason::DaemonSet => Some("ignoring DaemonSet-managed Pods".to_owned()),
        Reason::OrphanOfDaemonSet(name) => Some(format!("daemonsets.apps {name:?} not found")),
        Reason::EmptyDir => Some("deleting Pods with local storage".to_owned()),
        Reason::NoController => Some("deleting Pods that declare no controller".to_owned()),
        // kubectl has no such labels; a pod that stays because of one must be shown.
        Reason::Label(value) => Some(format!("Pods with label {DRAIN_LABEL}={value}")),
        Reason::UnknownLabel(_) => Some(reason.to_string()),
        Reason::Mirror
        | Reason::Finished
        | Reason::KeptApp(_)
        | Reason::TerminatingTooLong
        | Reason::Rule(_)
        | Reason::NotSelected => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> PodId {
        PodId { namespace: "shop".into(), name: name.into(), uid: name.into() }
    }

    #[test]
    fn every_reason_in_kubectls_words() {
        let reasons = [
            (Reason::DaemonSet, "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"),
            (Reason::OrphanOfDaemonSet("x".into()), "daemonsets.apps \"x\" not found"),
            (Reason::EmptyDir, "Pods with local storage (use --delete-emptydir-data to override)"),
            (Reason::NoController, "Pods that declare no controller (use --force to override)"),
        ];
        for (reason, words) in reasons {
            let (pod, reasons) = (pod("a"), [reason]);
            let judged = Judged { pod: &pod, verdict: Verdict::Refuse, reasons: &reasons };
            assert_eq!(refusals([judged]), [format!("cannot delete {words}: shop/a")]);
            assert_eq!(warnings([judged]), [""; 0]);
        }
    }

    #[test]
    fn all_warnings_are_kept_and_grouped() {
        let (a, b, c, d) = (pod("a"), pod("b"), pod("c"), pod("d"));
        let evict = |pod, reasons| Judged { pod, verdict: Verdict::Evict, reasons };
        let pods = [
            evict(&a, &[Reason::EmptyDir, Reason::NoController]),
            Judged { pod: &b, verdict: Verdict::Leave, reasons: &[Reason::DaemonSet] },
            evict(&c, &[Reason::EmptyDir]),
            evict(&d, &[Reason::Finished]),
        ];
        let expected = [
            "deleting Pods that declare no controller: shop/a",
            "deleting Pods with local storage: shop/a, shop/c",
            "ignoring DaemonSet-managed Pods: shop/b",
        ];
        assert_eq!(warnings(pods), expected);
        assert_eq!(refusals(pods), [""; 0]);
    }

    #[test]
    fn several_errors_are_in_brackets() {
        let errors = |errors: &[&str]| errors.iter().map(|error| (*error).to_owned()).collect::<Vec<_>>();
        assert_eq!(aggregate(&errors(&["a"])), "a");
        assert_eq!(aggregate(&errors(&["a", "b"])), "[a, b]");
    }
}
