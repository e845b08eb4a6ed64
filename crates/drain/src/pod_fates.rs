//! Result for each pod of a node whose pods are all deleted at once.

use std::collections::BTreeMap;
use std::fmt;

use crate::plan::Verdict;
use crate::progress::Line;
use crate::state::Stage;
use crate::view::PodId;

/// Pods that were on the node at the beginning. Pods that come later are not followed: an owner that creates pods again
/// on this node must not keep the command busy.
#[derive(Debug, Default)]
pub struct PodFates {
    /// By UID; `None` until the first snapshot.
    pods: Option<BTreeMap<String, Pod>>,
}

#[derive(Debug)]
struct Pod {
    /// Line of the last snapshot that showed the pod.
    line: Line,
    is_gone: bool,
}

/// Result for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The API server has deleted it, or has accepted the deletion and the pod is gone.
    Deleted,
    /// The pod has left by itself.
    Gone,
    /// Its deletion was refused.
    Refused,
    /// No deletion was sent, or its answer has not come: the result is not known.
    Unanswered,
    /// The pod does not have to leave.
    Stays,
}

impl Fate {
    /// One word, for documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deleted => "Deleted",
            Self::Gone => "Gone",
            Self::Refused => "Refused",
            Self::Unanswered => "Unanswered",
            Self::Stays => "Stays",
        }
    }
}

/// One pod with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFate {
    /// Namespace, name and UID.
    pub pod: PodId,
    /// The result.
    pub fate: Fate,
    /// Reason or further facts; may be empty.
    pub detail: String,
}

/// Number of pods with each result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    deleted: usize,
    gone: usize,
    refused: usize,
    unanswered: usize,
    stay: usize,
}

impl PodFates {
    /// Applies the lines of a snapshot.
    pub fn see(&mut self, lines: Vec<Line>) {
        let Some(pods) = &mut self.pods else {
            let seen = |line: Line| (line.id.uid.clone(), Pod { line, is_gone: false });
            self.pods = Some(lines.into_iter().map(seen).collect());
            return;
        };
        for pod in pods.values_mut() {
            pod.is_gone = true;
        }
        for line in lines {
            if let Some(pod) = pods.get_mut(&line.id.uid) {
                *pod = Pod { line, is_gone: false };
            }
        }
    }

    /// True if a pod has no answer yet, or if no snapshot has come.
    pub fn is_pending(&self) -> bool {
        !self.is_answered()
    }

    /// True if every pod that has to leave has its answer.
    pub fn is_answered(&self) -> bool {
        self.pods.as_ref().is_some_and(|pods| pods.values().all(|pod| fate(pod) != Fate::Unanswered))
    }

    /// True if a deleted pod still exists.
    pub fn is_lingering(&self) -> bool {
        self.pods.iter().flat_map(BTreeMap::values).any(|pod| fate(pod) == Fate::Deleted && !pod.is_gone)
    }

    /// All pods, sorted by name.
    pub fn pods(&self) -> Vec<PodFate> {
        let mut pods: Vec<&Pod> = self.pods.iter().flat_map(BTreeMap::values).collect();
        pods.sort_by(|a, b| a.line.id.cmp(&b.line.id));
        pods.into_iter().map(pod_fate).collect()
    }

    /// Number of pods with each result.
    pub fn counts(&self) -> Counts {
        let count = |wanted| {
            let pod_fates = self.pods.iter().flat_map(BTreeMap::values).map(fate);
            pod_fates.filter(|fate| *fate == wanted).count()
        };
        Counts {
            deleted: count(Fate::Deleted),
            gone: count(Fate::Gone),
            refused: count(Fate::Refused),
            unanswered: count(Fate::Unanswered),
            stay: count(Fate::Stays),
        }
    }
}

impl Counts {
    /// True if containers may still run whose pods do not exist in the cluster any more.
    pub fn may_run(self) -> bool {
        self.deleted > 0 || self.unanswered > 0
    }

    /// True if a pod that has to leave was not deleted, as far as is known.
    pub fn is_incomplete(self) -> bool {
        self.refused > 0 || self.unanswered > 0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deleted, gone, refused, unanswered, stay } = self;
        write!(
            f,
            "{deleted} deleted with grace 0, {gone} gone, {refused} refused, {unanswered} unanswered, {stay} stay"
        )
    }
}

impl fmt::Display for PodFate {
    /// `deleted shop/db-0`, `refused shop/db-0: reason`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, fate, detail } = self;
        let word = match fate {
            Fate::Deleted => "deleted",
            Fate::Gone => "gone",
            Fate::Refused => "refused",
            Fate::Unanswered => "unanswered",
            Fate::Stays => "stays",
        };
        write!(f, "{word} {pod}")?;
        if detail.is_empty() { Ok(()) } else { write!(f, ": {detail}") }
    }
}

fn fate(pod: &Pod) -> Fate {
    let Pod { line, is_gone } = pod;
    let is_refused = matches!(line.stage, Some(Stage::Refused | Stage::Failed { .. }));
    if line.verdict == Verdict::Leave {
        return Fate::Stays;
    }
    match (is_gone, line.tries, &line.stage) {
        (true, 1.., _) if !is_refused => Fate::Deleted,
        (true, ..) => Fate::Gone,
        (false, ..) if is_refused => Fate::Refused,
        (false, 1.., Some(Stage::Accepted | Stage::Terminating)) => Fate::Deleted,
        (false, ..) => Fate::Unanswered,
    }
}

fn pod_fate(pod: &Pod) -> PodFate {
    let fate = fate(pod);
    PodFate { pod: pod.line.id.clone(), fate, detail: detail(pod, fate) }
}

fn detail(pod: &Pod, fate: Fate) -> String {
    let reasons = || pod.line.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match fate {
        Fate::Deleted if !pod.is_gone => {
            "its object is still there: its finalizers hold it, if it does not go".to_owned()
        }
        Fate::Deleted | Fate::Gone => String::new(),
        Fate::Stays => reasons(),
        Fate::Refused if pod.line.stage == Some(Stage::Refused) => {
            format!("{}: {}", pod.line.detail, reasons())
        }
        Fate::Refused | Fate::Unanswered => pod.line.detail.clone(),
    }
}

#[cfg(test)]
mod tests;
