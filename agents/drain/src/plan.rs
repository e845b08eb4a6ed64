//! Which pods leave the node, which stay, and which forbid the drain.
//!
//! The table is `kubectl drain`'s, with two differences: all reasons are kept (kubectl shows the last one only),
//! and a DaemonSet that cannot be read counts as present (kubectl fails).

use std::fmt;

use crate::policy::Policy;
use crate::view::{Existence, Picture, PodId, PodView};

/// Label by which a pod says what a drain should do with it.
pub const DRAIN_LABEL: &str = "ebb.dev/drain";

/// What is to become of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It must leave, by eviction.
    Evict,
    /// It must leave, but ends by itself: nothing is sent until it has finished.
    Await,
    /// It stays, and does not hold up the drain.
    Leave,
    /// It may not be evicted under this policy: the drain cannot succeed.
    Refuse,
}

/// Why a pod got its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kubelet's static pod.
    Mirror,
    /// Nothing runs in it any more.
    Finished,
    /// Belongs to a DaemonSet, whose controller would put it back at once.
    DaemonSet,
    /// Belongs to a DaemonSet that is gone.
    OrphanOfDaemonSet(String),
    /// Has local data that an eviction deletes.
    EmptyDir,
    /// Nobody will make it anew elsewhere.
    NoController,
    /// Its `app` label is on the list of apps that stay.
    KeptApp(String),
    /// Terminating for longer than the policy waits.
    TerminatingTooLong,
    /// Label `ebb.dev/drain` says so.
    Label(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirror => write!(f, "static pod of the kubelet"),
            Self::Finished => write!(f, "finished"),
            Self::DaemonSet => write!(f, "managed by a DaemonSet"),
            Self::OrphanOfDaemonSet(name) => write!(f, "its DaemonSet {name} does not exist"),
            Self::EmptyDir => write!(f, "has local data in an emptyDir volume"),
            Self::NoController => write!(f, "has no controller that would make it anew"),
            Self::KeptApp(app) => write!(f, "app {app} stays until volumes are detached"),
            Self::TerminatingTooLong => write!(f, "terminating for longer than the drain waits"),
            Self::Label(value) => write!(f, "label {DRAIN_LABEL}={value}"),
        }
    }
}

/// One pod, its verdict, and all reasons for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which pod.
    pub id: PodId,
    /// What is to become of it.
    pub verdict: Verdict,
    /// Why; for [`Verdict::Evict`] the warnings, for [`Verdict::Refuse`] what the policy would have to allow.
    pub reasons: Vec<Reason>,
}

impl Planned {
    /// The pod has to be gone before the node counts as drained.
    pub fn must_leave(&self) -> bool {
        match self.verdict {
            Verdict::Evict | Verdict::Await | Verdict::Refuse => true,
            Verdict::Leave => false,
        }
    }
}

/// The verdict on every pod of the picture, in the picture's order.
pub fn plan(picture: &Picture, policy: &Policy) -> Vec<Planned> {
    picture.pods.iter().map(|pod| judge(pod, policy)).collect()
}

/// The verdict on one pod. Filters in kubectl's order: what stays comes first, then what the policy must allow.
pub fn judge(pod: &PodView, policy: &Policy) -> Planned {
    let planned = |verdict, reasons| Planned { id: pod.id.clone(), verdict, reasons };
    if let Some(reason) = stays(pod, policy) {
        return planned(Verdict::Leave, vec![reason]);
    }
    let (mut allowed, mut refused) = (Vec::new(), Vec::new());
    match daemon_set(pod, policy) {
        DaemonSetPod::Stays => return planned(Verdict::Leave, vec![Reason::DaemonSet]),
        DaemonSetPod::Refused(reason) => return planned(Verdict::Refuse, vec![reason]),
        DaemonSetPod::Orphan(reason) => allowed.push(reason),
        DaemonSetPod::No => {}
    }
    if pod.mirror {
        return planned(Verdict::Leave, vec![Reason::Mirror]);
    }
    if pod.is_finished() {
        return planned(Verdict::Evict, vec![Reason::Finished]);
    }
    let mut ask = |holds: bool, permitted: bool, reason: Reason| {
        if holds {
            if permitted {
                allowed.push(reason);
            } else {
                refused.push(reason);
            }
        }
    };
    ask(pod.empty_dir, policy.delete_emptydir_data, Reason::EmptyDir);
    ask(pod.controller.is_none(), policy.force, Reason::NoController);
    if !refused.is_empty() {
        return planned(Verdict::Refuse, refused);
    }
    match drain_label(pod) {
        Some("wait-completed") => planned(Verdict::Await, vec![Reason::Label("wait-completed".to_owned())]),
        _ => planned(Verdict::Evict, allowed),
    }
}

/// Why the pod stays whatever else is true of it.
fn stays(pod: &PodView, policy: &Policy) -> Option<Reason> {
    let app = pod.labels.get("app").filter(|&app| policy.keep_apps.contains(app));
    if let Some(app) = app {
        return Some(Reason::KeptApp(app.clone()));
    }
    if let (Some(limit), Some(terminating)) = (policy.skip_wait_for_delete, pod.terminating)
        && terminating.overdue > limit
    {
        return Some(Reason::TerminatingTooLong);
    }
    (drain_label(pod) == Some("skip")).then(|| Reason::Label("skip".to_owned()))
}

enum DaemonSetPod {
    No,
    Stays,
    Orphan(Reason),
    Refused(Reason),
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
            DaemonSetPod::Refused(Reason::OrphanOfDaemonSet(owner.name.clone()))
        }
        (Existence::Present | Existence::Unknown, _, true) => DaemonSetPod::Stays,
        (Existence::Present | Existence::Unknown, _, false) => DaemonSetPod::Refused(Reason::DaemonSet),
    }
}

fn drain_label(pod: &PodView) -> Option<&str> {
    pod.labels.get(DRAIN_LABEL).map(String::as_str)
}

#[cfg(test)]
mod tests;
