//! What the lines of a drain say in sum.

use std::collections::BTreeMap;

use kubectl_ebb::screen::Tone;
use runtime::drain_history::DrainFile;
use schemas::agent::shown_asker;
use schemas::{DrainEvent, DrainLine, DrainStatus, GoTime, NOT_DRAINED, Outcome, age};
use serde::Serialize;

use super::Elapsed;

/// How a drain ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "Ending", rename_all_fields = "PascalCase")]
pub(crate) enum Ending {
    /// It goes on.
    #[default]
    GoesOn,
    /// All pods had left, and the device was allowed to go down.
    Drained,
    /// The device was allowed to go down all the same.
    NotDrained {
        /// Why.
        outcome: Outcome,
        /// The person who forced that, and why; empty if nobody did.
        by: String,
    },
    /// All attempts failed, or the node could not be cordoned.
    Failed {
        /// Why.
        why: String,
    },
    /// Nobody asked for it any more.
    Withdrawn,
}

/// A drain in sum, also its JSON form.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Told {
    /// Counts the drains of this device.
    pub(crate) number: u32,
    /// UUID.
    pub(crate) drain_id: String,
    /// Name of the Node; empty if it was not known.
    pub(crate) node: String,
    /// When it was accepted.
    pub(crate) began_at: GoTime,
    /// Who asked for it, and why.
    pub(crate) asked: Vec<String>,
    /// How it ended.
    #[serde(flatten)]
    pub(crate) outcome: Ending,
    /// How long it took until it was drained, had failed, or the device was allowed to go down otherwise; null while it
    /// goes on.
    pub(crate) took_millis: Option<u64>,
    /// Number of pods that had to leave.
    pub(crate) pods: usize,
    /// Number of them that have left.
    pub(crate) pods_gone: usize,
    /// Number of attempts.
    pub(crate) attempts: u32,
    /// From the boot, or from the end of the last request, until the node took pods again; null if it was not so far.
    pub(crate) back_millis: Option<u64>,
    /// Nothing is left to do for it.
    pub(crate) is_over: bool,
}

/// What is needed while the lines are added up.
#[derive(Default)]
struct Sum {
    told: Told,
    /// Milliseconds from the first line to the present one.
    elapsed: u64,
    passing: Elapsed,
    /// By UID: has it left?
    pods: BTreeMap<String, bool>,
    /// The answer that lets the device go down undrained, although the drain goes on for somebody else.
    let_go: Option<(Outcome, String)>,
    /// When the way back began, in milliseconds since the first line.
    returns_since: Option<u64>,
}

impl Told {
    /// Adds the lines up.
    pub(crate) fn of(file: &DrainFile, lines: &[DrainLine]) -> Self {
        let mut sum = Sum::default();
        (sum.told.number, sum.told.drain_id) = (file.number, file.drain_id.clone());
        sum.told.began_at = lines.first().map(|line| line.at).unwrap_or_default();
        for line in lines {
            sum.elapsed = sum.passing.pass(line);
            sum.add(line);
        }
        sum.told.pods_gone = sum.pods.values().filter(|is_gone| **is_gone).count();
        sum.told.pods = sum.pods.len();
        sum.told
    }

    /// Its number, and its node if that is known: `12 of node edge-a`.
    pub(crate) fn which(&self) -> String {
        let node = if self.node.is_empty() { String::new() } else { format!(" of node {}", self.node) };
        format!("{}{node}", self.number)
    }

    /// Who asked, in a few words.
    pub(crate) fn asked_by(&self) -> String {
        self.asked.join("; ")
    }

    /// How it ended, with the way back.
    pub(crate) fn ending(&self) -> String {
        let back = self.back_millis.map(|back| format!("; back in service {} later", age(back)));
        format!("{}{}", self.end(), back.unwrap_or_default())
    }

    /// How it ended, in a few words.
    pub(crate) fn end(&self) -> String {
        let after = self.took_millis.map(|took| format!(" after {}", age(took))).unwrap_or_default();
        let how = match &self.outcome {
            Ending::NotDrained { outcome, by } if by.is_empty() => format!("{NOT_DRAINED}: {outcome:?}"),
            Ending::NotDrained { outcome, by } => format!("{NOT_DRAINED}: {outcome:?} by {by}"),
            Ending::Failed { why } => format!("failed{after}: {why}"),
            Ending::GoesOn | Ending::Drained | Ending::Withdrawn => self.outcome.word().to_owned(),
        };
        let took = if matches!(self.outcome, Ending::Failed { .. }) { String::new() } else { after };
        format!("{how}{took}, {}/{} pods gone", self.pods_gone, self.pods)
    }
}

impl Ending {
    /// One or two words.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::GoesOn => "goes on",
            Self::Drained => "drained",
            Self::NotDrained { .. } => NOT_DRAINED,
            Self::Failed { .. } => "failed",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// How it looks.
    pub(crate) const fn tone(&self) -> Tone {
        match self {
            Self::NotDrained { .. } | Self::Failed { .. } => Tone::Alarm,
            Self::GoesOn | Self::Drained | Self::Withdrawn => Tone::Usual,
        }
    }
}

impl Sum {
    fn add(&mut self, line: &DrainLine) {
        let told = &mut self.told;
        match &line.event {
            DrainEvent::Asked { publisher, context, .. } => {
                let text = format!("{}: {context}", shown_asker(publisher));
                if !told.asked.contains(&text) {
                    told.asked.push(text);
                }
            }
            DrainEvent::Attempt { number, .. } => told.attempts = told.attempts.max(*number),
            DrainEvent::Pod { uid, stage, .. } if stage == "Stays" => drop(self.pods.remove(uid)),
            DrainEvent::Pod { uid, stage, .. } => drop(self.pods.insert(uid.clone(), stage == "Gone")),
            DrainEvent::Answered { answer: DrainStatus::Complete, outcome: Some(outcome), by, .. }
                if *outcome != Outcome::Drained =>
            {
                self.let_go = Some((*outcome, by.clone()));
            }
            DrainEvent::Phase { .. } => self.phase(&line.event),
            DrainEvent::Booted { .. } => self.returns_since = Some(self.elapsed),
            DrainEvent::Ended { .. } => self.end(),
            DrainEvent::Began { .. }
            | DrainEvent::Restarted
            | DrainEvent::Withdrawn { .. }
            | DrainEvent::Answered { .. }
            | DrainEvent::AttemptEnded { .. }
            | DrainEvent::Volume { .. }
            | DrainEvent::ApiAway { .. }
            | DrainEvent::ApiBack
            | DrainEvent::Ordered { .. }
            | DrainEvent::Operation { .. }
            | DrainEvent::Node { .. }
            | DrainEvent::Slot { .. }
            | DrainEvent::LeftOut
            | DrainEvent::Unknown => {}
        }
    }

    fn phase(&mut self, event: &DrainEvent) {
        let DrainEvent::Phase { phase, outcome, node, reason, .. } = event else { return };
        let told = &mut self.told;
        told.node.clone_from(node);
        let ending = match (phase.as_str(), outcome) {
            ("Complete", Some(Outcome::Drained)) => Ending::Drained,
            ("Complete", Some(outcome)) => {
                let by = self.let_go.as_ref().map(|(_, by)| by.clone()).unwrap_or_default();
                Ending::NotDrained { outcome: *outcome, by }
            }
            ("Failed", _) => Ending::Failed { why: reason.clone() },
            ("Returning" | "Idle", _) => {
                self.returns_since.get_or_insert(self.elapsed);
                return;
            }
            _ => Ending::GoesOn,
        };
        self.returns_since = None;
        if ending != told.outcome {
            told.took_millis = (ending != Ending::GoesOn).then_some(self.elapsed);
            told.outcome = ending;
        }
    }

    fn end(&mut self) {
        let told = &mut self.told;
        told.is_over = true;
        told.back_millis = self.returns_since.map(|since| self.elapsed.saturating_sub(since));
        if told.outcome == Ending::GoesOn {
            told.outcome = match self.let_go.take() {
                Some((outcome, by)) => Ending::NotDrained { outcome, by },
                None => Ending::Withdrawn,
            };
        }
    }
}
