//! Decides which pods leave the node, which stay, and which forbid the drain.
//!
//! The rules are `kubectl drain`'s, with two differences: all reasons are kept (kubectl shows only the last one), and a
//! DaemonSet that cannot be read counts as present (kubectl fails).

use std::fmt;
use std::time::Duration;

use crate::policy::Policy;
use crate::rule::{Behaviour, Rule};
use crate::view::{Existence, PodId, PodView, Snapshot};

/// Label of a pod that sets its handling in a drain.
pub const DRAIN_LABEL: &str = "ebb.dev/drain";

/// Verdict on one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod must leave, by eviction.
    Evict,
    /// The pod must leave, but ends by itself: no eviction is sent.
    Await,
    /// The pod stays, and does not hold up the drain.
    Leave,
    /// The policy does not allow to evict the pod: the drain cannot succeed.
    Refuse,
}

impl Verdict {
    /// True if the pod must be gone before the node counts as drained.
    pub const fn must_leave(self) -> bool {
        match self {
            Self::Evict | Self::Await | Self::Refuse => true,
            Self::Leave => false,
        }
    }

    /// One word, for reports and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Evict => "Evict",
            Self::Await => "Await",
            Self::Leave => "Leave",
            Self::Refuse => "Refuse",
        }
    }
}

/// Reason of a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Static pod of the kubelet.
    Mirror,
    /// The pod has finished.
    Finished,
    /// Belongs to a DaemonSet, whose controller would create it again at once.
    DaemonSet,
    /// Belongs to a DaemonSet that is gone.
    OrphanOfDaemonSet(String),
    /// Has local data, which an eviction deletes.
    EmptyDir,
    /// Has no controller that would create it again elsewhere.
    NoController,
    /// Its `app` label is on the list of apps that stay.
    KeptApp(String),
    /// Has been terminating for longer than the policy waits.
    TerminatingTooLong,
    /// Its label `ebb.dev/drain` has this value.
    Label(String),
    /// Its label `ebb.dev/drain` has an unknown value, which is ignored.
    UnknownLabel(String),
    /// The rule with this name matches the pod.
    Rule(String),
    /// The pod selector does not select it.
    NotSelected,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirror => write!(f, "static pod of the kubelet"),
            Self::Finished => write!(f, "finished"),
            Self::DaemonSet => write!(f, "managed by a DaemonSet"),
            Self::OrphanOfDaemonSet(name) => write!(f, "its DaemonSet {name} does not exist"),
            Self::EmptyDir => write!(f, "has local data in an emptyDir volume"),
            Self::NoController => write!(f, "has no controller that would create it again"),
            Self::KeptApp(app) => write!(f, "app {app} stays until volumes are detached"),
            Self::TerminatingTooLong => write!(f, "terminating for longer than the drain waits"),
            Self::Label(value) => write!(f, "label {DRAIN_LABEL}={value}"),
            Self::UnknownLabel(value) => write!(
                f,
                "label {DRAIN_LABEL}={value} is ignored: accepted are drain, skip and wait-completed"
            ),
            Self::Rule(name) => write!(f, "rule {name}"),
            Self::NotSelected => write!(f, "not selected by the pod selector"),
        }
    }
}

/// One pod with its verdict and all reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Namespace, name and UID.
    pub id: PodId,
    /// The verdict.
    pub verdict: Verdict,
    /// Reasons; for [`Verdict::Evict`] the warnings, for [`Verdict::Refuse`] what the policy would have to allow.
    pub reasons: Vec<Reason>,
    /// Pods with a higher order leave after all pods with a lower one; 0 without a rule.
    pub order: i32,
    /// Grace period to send; `None` = the pod's own.
    pub grace: Option<Duration>,
}

impl Planned {
    /// True if the pod must be gone before the node counts as drained.
    pub fn must_leave(&self) -> bool {
        self.verdict.must_leave()
    }
}

/// Verdicts on all pods of the snapshot, in the snapshot's order.
pub fn plan(snapshot: &Snapshot, policy: &Policy) -> Vec<Planned> {
    snapshot.pods.iter().map(|pod| judge(pod, policy)).collect()
}

/// Verdict on one pod. The filters have kubectl's order: first pods that stay, then what the policy must allow, then
/// the operator's label or rule.
pub fn judge(pod: &PodView, policy: &Policy) -> Planned {
    let rule = policy.rules.iter().find(|rule| rule.matches(pod));
    let (verdict, reasons) = verdict(pod, policy, rule);
    Planned {
        id: pod.id.clone(),
        verdict,
        reasons,
        order: rule.map_or(0, |rule| rule.order),
        grace: rule.and_then(|rule| rule.grace).or(policy.grace_period),
    }
}

fn verdict(pod: &PodView, policy: &Policy, rule: Option<&Rule>) -> (Verdict, Vec<Reason>) {
    let chosen = override_of(pod, rule);
    if let Some(reason) = stays(pod, policy, &chosen) {
        return (Verdict::Leave, vec![reason]);
    }
    let (mut allowed, mut refused) = (Vec::new(), Vec::new());
    match daemon_set(pod, policy) {
        DaemonSetPod::Stays => return (Verdict::Leave, vec![Reason::DaemonSet]),
        DaemonSetPod::Refused => return (Verdict::Refuse, vec![Reason::DaemonSet]),
        DaemonSetPod::RefusedOrphan(reason) => refused.push(reason),
        DaemonSetPod::Orphan(reason) => allowed.push(reason),
        DaemonSetPod::No => {}
    }
    if pod.mirror && refused.is_empty() {
        return (Verdict::Leave, vec![Reason::Mirror]);
    }
    if pod.is_finished() {
        return (Verdict::Evict, vec![Reason::Finished]);
    }
    let mut ask = |holds: bool, permitted: bool, reason: Reason| match (holds, permitted) {
        (false, _) => {}
        (true, true) => allowed.push(reason),
        (true, false) => refused.push(reason),
    };
    ask(pod.empty_dir, policy.delete_emptydir_data, Reason::EmptyDir);
    ask(pod.controller.is_none(), policy.force, Reason::NoController);
    if !refused.is_empty() {
        return (Verdict::Refuse, refused);
    }
    match chosen {
        Override { behaviour: Behaviour::WaitCompleted, why: Some(reason) } => (Verdict::Await, vec![reason]),
        Override { why: Some(reason @ Reason::UnknownLabel(_)), .. } => {
            allowed.push(reason);
            (Verdict::Evict, allowed)
        }
        Override { .. } => (Verdict::Evict, allowed),
    }
}

/// Reason for which the pod stays, whatever else is true of it.
fn stays(pod: &PodView, policy: &Policy, chosen: &Override) -> Option<Reason> {
    if policy.pod_selector.as_ref().is_some_and(|selector| !selector.selects(&pod.labels)) {
        return Some(Reason::NotSelected);
    }
    let app = pod.labels.get("app").filter(|&app| policy.keep_apps.contains(app));
    if let Some(app) = app {
        return Some(Reason::KeptApp(app.clone()));
    }
    if let (Some(limit), Some(terminating)) = (policy.skip_wait_for_delete, pod.terminating)
        && terminating.overdue > limit
    {
        return Some(Reason::TerminatingTooLong);
    }
    let is_over = pod.is_finished() && !pod.runs && pod.terminating.is_some();
    if is_over && !policy.wait_finished {
        return Some(Reason::Finished);
    }
    chosen.why.clone().filter(|_| chosen.behaviour == Behaviour::Skip)
}

/// The operator's setting for the pod, from its label or a rule.
struct Override {
    behaviour: Behaviour,
    why: Option<Reason>,
}

/// The setting for the pod: its label comes before the first rule that matches.
fn override_of(pod: &PodView, rule: Option<&Rule>) -> Override {
    let by_rule = || Override {
        behaviour: rule.map_or(Behaviour::Drain, |rule| rule.behaviour),
        why: rule.map(|rule| Reason::Rule(rule.name.clone())),
    };
    let Some(value) = pod.labels.get(DRAIN_LABEL) else {
        return by_rule();
    };
    let Some(behaviour) = Behaviour::of_word(&value.to_ascii_lowercase()) else {
        let Override { behaviour, why } = by_rule();
        let unknown = Reason::UnknownLabel(value.clone());
        return Override { behaviour, why: why.filter(|_| behaviour != Behaviour::Drain).or(Some(unknown)) };
    };
    Override { behaviour, why: Some(Reason::Label(value.clone())) }
}

enum DaemonSetPod {
    No,
    Stays,
    Orphan(Reason),
    Refused,
    RefusedOrphan(Reason),
}

fn daemon_set(pod: &PodView, policy: &Policy) -> DaemonSetPod {
    let Some(owner) = pod.controller.as_ref().filter(|owner| owner.is_daemon_set()) else {
        return DaemonSetPod::No;
    };
    if pod.is_finished() {
        return DaemonSetPod::No;
    }
    match (owner.existence, policy.force, policy.ignore_daemonsets) {
        (Existence::Missing, true, _) => DaemonSetPod::Orphan(Reason::OrphanOfDaemonSet(owner.name.clone())),
        (Existence::Missing, false, _) => {
            DaemonSetPod::RefusedOrphan(Reason::OrphanOfDaemonSet(owner.name.clone()))
        }
        (Existence::Present | Existence::Unknown, _, true) => DaemonSetPod::Stays,
        (Existence::Present | Existence::Unknown, _, false) => DaemonSetPod::Refused,
    }
}

#[cfg(test)]
mod tests;
