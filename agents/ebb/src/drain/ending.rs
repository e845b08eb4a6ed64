//! How a node's drain ended, and what is said then.

use drain::diagnosis::Blocked;
use drain::progress::Line;
use drain::state::Stage;
use drain::{Failure, PodId};

use super::sight::Sight;
use super::story::judged;
use super::trouble::names;
use super::words::{is_leaving, stage_word};
use crate::kubectl::words::{aggregate, refusals};
use crate::screen::Print;

/// Pods of one group that are named when a drain has failed; the document has all of them.
const MOST_LEFT: usize = 50;

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Proven: nothing is left that should leave.
    Drained,
    /// The node is not in the cluster any more.
    NodeGone,
    /// It did not work.
    Failed(Failure),
    /// It was not even cordoned, so nothing was evicted.
    NotCordoned(String),
    /// Somebody stopped it.
    Interrupted,
}

impl Ending {
    /// The node is not drained.
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Drained | Self::NodeGone => false,
            Self::Failed(_) | Self::NotCordoned(_) | Self::Interrupted => true,
        }
    }
}

/// Why the drain failed, in one sentence; in kubectl's words where the policy forbids it.
pub(crate) fn why(failure: &Failure, sight: &Sight) -> String {
    if *failure == Failure::Deadline {
        return format!("global timeout reached: {failure}");
    }
    let refusals = refusals(sight.lines.iter().map(judged));
    if *failure == Failure::Refused && !refusals.is_empty() {
        return aggregate(&refusals);
    }
    failure.to_string()
}

/// What is said when the drain of a node has failed.
pub(crate) fn failed(name: &str, failure: &Failure, sight: &Sight) -> Vec<Print> {
    let why = why(failure, sight);
    let mut prints = Vec::new();
    let left = if *failure == Failure::Refused { Vec::new() } else { left(sight) };
    if !left.is_empty() {
        let head = format!("There are pending pods in node {name:?} when an error occurred: {why}");
        prints.push(Print::Err(head));
        prints.extend(left);
    }
    prints.push(Print::Err(unable(name, &why)));
    prints
}

/// kubectl's line about a node that is not drained.
pub(crate) fn unable(name: &str, why: &str) -> String {
    format!("error: unable to drain node {name:?} due to error: {why}, continuing command...")
}

/// What is said when somebody stops the drain of a node.
pub(crate) fn interrupted(name: &str, sight: &Sight) -> Vec<Print> {
    let progress = sight.progress;
    let how_far = if sight.is_pictured {
        format!("{} of {} pods are gone", progress.gone, progress.total)
    } else {
        "nothing had been seen of it yet".to_owned()
    };
    let head = format!("interrupted: the drain of node {name:?} has been stopped; {how_far}");
    let left = left(sight);
    let tail = if left.is_empty() { "" } else { ", these are left:" };
    std::iter::once(Print::Err(format!("{head}{tail}"))).chain(left).collect()
}

/// The pods that are still there, those with the same trouble in one line.
fn left(sight: &Sight) -> Vec<Print> {
    let blocked = sight.blocked_by_uid();
    let mut groups: Vec<(String, Vec<&PodId>)> = Vec::new();
    for line in sight.lines.iter().filter(|line| is_leaving(line.verdict)) {
        let text = state(line, blocked.get(line.id.uid.as_str()).copied());
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, pods)) => pods.push(&line.id),
            None => groups.push((text, vec![&line.id])),
        }
    }
    let line = |(text, pods): (String, Vec<&PodId>)| format!("  {}: {text}", names(&pods, MOST_LEFT));
    groups.into_iter().map(line).map(Print::Err).collect()
}

/// Where the pod is, why, and what a person can do.
fn state(line: &Line, blocked: Option<&Blocked>) -> String {
    let stage = line.stage.as_ref().unwrap_or(&Stage::Waiting);
    let (stage, cause, hint) = match (blocked, stage) {
        // It was refused, and has just been sent again, or waits for that.
        (Some(blocked), Stage::Sent | Stage::Waiting) => ("Blocked", &blocked.cause, blocked.hint.as_str()),
        (Some(blocked), stage) => (stage_word(stage), &blocked.cause, blocked.hint.as_str()),
        (None, stage) => (stage_word(stage), &line.detail, ""),
    };
    let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
    let hint = if hint.is_empty() { String::new() } else { format!("\n    hint: {hint}") };
    format!("{stage}{cause}{hint}")
}
