//! Pods that do not leave, and the problem of each, for lines that people read. No decision depends on it.

use std::collections::BTreeMap;

use crate::diagnosis::{Blocked, BlockedBy};
use crate::progress::Line;
use crate::state::Stage;
use crate::time::Moment;
use crate::view::PodId;

/// One pod that does not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckPod {
    /// Namespace, name and UID.
    pub pod: PodId,
    /// Kind of the problem.
    pub kind: StuckKind,
    /// Cause of the problem.
    pub cause: String,
    /// What a person can do; empty if nothing is known.
    pub hint: String,
    /// Start of the problem.
    pub since: Moment,
    /// Time of the next eviction, if it is known.
    pub next: Option<Moment>,
}

/// Kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StuckKind {
    /// Its eviction is refused, and tried again.
    Refused,
    /// Its eviction is refused, and not tried again.
    Failed,
    /// Its eviction was accepted, and it does not terminate.
    Stuck,
    /// Its eviction is accepted each time, and its owner creates it again on this node.
    Returns,
}

impl StuckPod {
    /// Identifies the problem: kind and cause without digits, so that a changed number does not make it a new problem.
    pub fn sign(&self) -> String {
        let words: String = self.cause.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        format!("{:?} {words}", self.kind)
    }

    /// True if the other pod has the same problem, so that one line serves both.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.cause == other.cause && self.hint == other.hint
    }
}

/// Every pod that does not leave, in the order of the lines. Pods that the policy forbids to evict are left out: they
/// end the drain, and are shown then.
pub fn stuck_pods(lines: &[Line], blocked: &[Blocked]) -> Vec<StuckPod> {
    // A map, because there may be a thousand blocked pods.
    let blocked: BTreeMap<&str, &Blocked> =
        blocked.iter().map(|blocked| (blocked.pod.uid.as_str(), blocked)).collect();
    let of = |line: &Line| blocked.get(line.id.uid.as_str()).copied();
    lines.iter().filter_map(|line| stuck_pod(line, of(line))).collect()
}

fn stuck_pod(line: &Line, blocked: Option<&Blocked>) -> Option<StuckPod> {
    let kind = match line.stage.as_ref()? {
        Stage::Refused => return None,
        Stage::Failed { .. } => StuckKind::Failed,
        Stage::Terminating | Stage::Accepted => StuckKind::Stuck,
        Stage::Paused { text, .. } => {
            let (pod, cause, since) = (line.id.clone(), text.clone(), line.since);
            return Some(StuckPod {
                pod,
                kind: StuckKind::Refused,
                cause,
                hint: String::new(),
                since,
                next: line.stage.as_ref().and_then(Stage::next_try),
            });
        }
        Stage::Blocked { .. } | Stage::Waiting | Stage::Evicting | Stage::Awaiting => StuckKind::Refused,
    };
    let blocked = blocked?;
    let returns = blocked.by == BlockedBy::Recreated;
    let kind = if returns { StuckKind::Returns } else { kind };
    let cause = if returns { blocked.cause.clone() } else { blocked.cause_and_holder() };
    let (pod, hint) = (line.id.clone(), blocked.hint.clone());
    Some(StuckPod {
        pod,
        kind,
        cause,
        hint,
        since: blocked.since,
        next: line.stage.as_ref().and_then(Stage::next_try),
    })
}
