//! What became of each pod of a node that was told to empty itself at once.

use std::collections::BTreeMap;
use std::fmt;

use crate::plan::Verdict;
use crate::progress::Line;
use crate::state::Stage;
use crate::view::PodId;

/// The pods that were on the node in the beginning. One that comes later is another one's business: an owner that puts
/// pods back on this node must not keep the command busy.
#[derive(Debug, Default)]
pub struct PodFates {
    /// By UID; `None` as long as nothing was seen.
    pods: Option<BTreeMap<String, Pod>>,
}

#[derive(Debug)]
struct Pod {
    /// As it was last seen.
    line: Line,
    is_gone: bool,
}

/// What became of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The API server has deleted it, or was told to and it is gone.
    Deleted,
    /// It has left by itself.
    Gone,
    /// It was not deleted.
    Refused,
    /// It was not told to go, or the answer has not come: nobody knows.
    Unanswered,
    /// It does not have to leave.
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

/// One pod, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFate {
    /// Which pod.
    pub pod: PodId,
    /// What became of it.
    pub fate: Fate,
    /// Why, or what is known besides; may be empty.
    pub detail: String,
}

/// How many pods have which fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    deleted: usize,
    gone: usize,
    refused: usize,
    unanswered: usize,
    stay: usize,
}

impl PodFates {
    /// Takes a look at the node in.
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

    /// Some pod has no answer yet, or nothing was seen.
    pub fn is_pending(&self) -> bool {
        !self.is_told()
    }

    /// Every pod that has to leave has its answer.
    pub fn is_told(&self) -> bool {
        self.pods.as_ref().is_some_and(|pods| pods.values().all(|pod| fate(pod) != Fate::Unanswered))
    }

    /// Some pod that was deleted is still seen.
    pub fn is_lingering(&self) -> bool {
        self.pods.iter().flat_map(BTreeMap::values).any(|pod| fate(pod) == Fate::Deleted && !pod.is_gone)
    }

    /// All pods, by name.
    pub fn pods(&self) -> Vec<PodFate> {
        let mut pods: Vec<&Pod> = self.pods.iter().flat_map(BTreeMap::values).collect();
        pods.sort_by(|a, b| a.line.id.cmp(&b.line.id));
        pods.into_iter().map(told).collect()
    }

    /// The numbers.
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
    /// Containers of pods that the cluster knows no longer may still run.
    pub fn may_run(self) -> bool {
        self.deleted > 0 || self.unanswered > 0
    }

    /// Some pod that has to leave was not deleted, as far as is known.
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
    /// `deleted shop/db-0`, `refused shop/db-0: why`.
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
    let is_refused = matches!(line.stage, Some(Stage::Refused | Stage::Final { .. }));
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

fn told(pod: &Pod) -> PodFate {
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
#[path = "pod_fates_tests.rs"]
mod tests;
