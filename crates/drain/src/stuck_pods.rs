//! Which pods do not leave, and what does not work with each: for lines that people read. Nothing is decided by it.

use std::collections::BTreeMap;

use crate::diagnosis::Blocked;
use crate::progress::Line;
use crate::state::Stage;
use crate::time::Moment;
use crate::view::PodId;

/// One pod that does not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckPod {
    /// Which pod.
    pub pod: PodId,
    /// What does not work.
    pub kind: StuckKind,
    /// Who or what is in the way.
    pub cause: String,
    /// What a person can do; empty if nothing is known.
    pub hint: String,
    /// Since when.
    pub since: Moment,
    /// When its eviction is tried again, if that is known.
    pub next: Option<Moment>,
}

/// What does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StuckKind {
    /// Its eviction is refused, and tried again.
    Refused,
    /// Its eviction is refused, and not tried again.
    Final,
    /// It has been told to go, and does not.
    Stuck,
    /// Its eviction is accepted each time, and its owner makes it anew on this node.
    Returns,
}

impl StuckPod {
    /// What tells one trouble from another: numbers that only count on make no new one.
    pub fn sign(&self) -> String {
        let words: String = self.cause.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        format!("{:?} {words}", self.kind)
    }

    /// The same is wrong with the other pod, so one line serves both.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.cause == other.cause && self.hint == other.hint
    }
}

/// Every pod that does not leave, in the order of the lines. What the policy forbids is no trouble: it ends the drain,
/// and is told then.
pub fn stuck_pods(lines: &[Line], blocked: &[Blocked]) -> Vec<StuckPod> {
    // There may be a thousand of them.
    let blocked: BTreeMap<&str, &Blocked> =
        blocked.iter().map(|blocked| (blocked.pod.uid.as_str(), blocked)).collect();
    let of = |line: &Line| blocked.get(line.id.uid.as_str()).copied();
    lines.iter().filter_map(|line| stuck_pod(line, of(line))).collect()
}

fn stuck_pod(line: &Line, blocked: Option<&Blocked>) -> Option<StuckPod> {
    let kind = match line.stage.as_ref()? {
        Stage::Refused => return None,
        Stage::Final { .. } => StuckKind::Final,
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
        Stage::Blocked { .. } | Stage::Waiting | Stage::Sent | Stage::Awaiting => StuckKind::Refused,
    };
    let blocked = blocked?;
    let kind = if blocked.returns { StuckKind::Returns } else { kind };
    let cause = if blocked.returns { blocked.cause.clone() } else { blocked.cause_and_holder() };
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
