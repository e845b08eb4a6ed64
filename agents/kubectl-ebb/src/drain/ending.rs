//! Lines about pods that do not leave while a node is drained, and about the result of its drain.

use std::time::Duration;

use drain::diagnosis::Blocked;
use drain::kubectl::{aggregate, refusals};
use drain::progress::Line;
use drain::state::Stage;
use drain::stuck_pods::{StuckKind, StuckPod};
use drain::{Failure, Moment, PodId};

use super::reporter::{NodeDrainView, judged};
use crate::screen::Print;

/// Pods of one group that are named when a drain has failed; the JSON document has all of them.
const MOST_LEFT: usize = 50;

/// Pods that are named in a line; more are only counted.
const MOST_NAMES: usize = 10;

/// Result of the drain of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Drained: the final check has found no pod that should leave.
    Drained,
    /// The Node object does not exist any more.
    NodeGone,
    /// The drain failed.
    Failed(Failure),
    /// The node could not be cordoned, so no pod was evicted.
    NotCordoned(String),
    /// A signal stopped the drain.
    Interrupted,
}

impl Ending {
    /// True if the node is not drained.
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Drained | Self::NodeGone => false,
            Self::Failed(_) | Self::NotCordoned(_) | Self::Interrupted => true,
        }
    }
}

/// Reason of the failure in one sentence; in kubectl's words if the policy forbids the drain.
pub(crate) fn why(failure: &Failure, view: &NodeDrainView) -> String {
    if *failure == Failure::Deadline {
        return format!("global timeout reached: {failure}");
    }
    let refusals = refusals(view.lines.iter().map(judged));
    if *failure == Failure::Refused && !refusals.is_empty() {
        return aggregate(&refusals);
    }
    failure.to_string()
}

/// Lines about a failed drain.
pub(crate) fn failed(name: &str, failure: &Failure, view: &NodeDrainView) -> Vec<Print> {
    let why = why(failure, view);
    let mut prints = Vec::new();
    let left = if *failure == Failure::Refused { Vec::new() } else { left(view) };
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

/// Lines about a drain that a signal stopped.
pub(crate) fn interrupted(name: &str, view: &NodeDrainView) -> Vec<Print> {
    let progress = view.progress;
    let how_far = if view.has_snapshot {
        format!("{} of {} pods are gone", progress.gone, progress.total)
    } else {
        "its pods have not been listed yet".to_owned()
    };
    let head = format!("interrupted: the drain of node {name:?} has been stopped; {how_far}");
    let left = left(view);
    let tail = if left.is_empty() { "" } else { ", these are left:" };
    std::iter::once(Print::Err(format!("{head}{tail}"))).chain(left).collect()
}

/// Lines about the pods that are still on the node, pods with equal text in one line, and their hint below it.
fn left(view: &NodeDrainView) -> Vec<Print> {
    let blocked = view.blocked_by_uid();
    let mut groups: Vec<(String, String, Vec<&PodId>)> = Vec::new();
    for line in view.lines.iter().filter(|line| line.verdict.must_leave()) {
        let (text, hint) = state(line, blocked.get(line.id.uid.as_str()).copied());
        match groups.iter_mut().find(|(known, advice, _)| *known == text && *advice == hint) {
            Some((.., pods)) => pods.push(&line.id),
            None => groups.push((text, hint, vec![&line.id])),
        }
    }
    let lines = |(text, hint, pods): (String, String, Vec<&PodId>)| {
        let hint = (!hint.is_empty()).then(|| format!("    hint: {hint}"));
        std::iter::once(format!("  {}: {text}", names(&pods, MOST_LEFT))).chain(hint)
    };
    groups.into_iter().flat_map(lines).map(Print::Err).collect()
}

/// Stage of a pod with the cause, and the hint.
fn state(line: &Line, blocked: Option<&Blocked>) -> (String, String) {
    let stage = line.stage.as_ref().unwrap_or(&Stage::Waiting);
    let (stage, cause, hint) = match (blocked, stage) {
        // The eviction was refused and has just been sent again, or waits for its next try.
        (Some(blocked), Stage::Evicting | Stage::Waiting) => {
            ("Blocked", &blocked.cause, blocked.hint.as_str())
        }
        (Some(blocked), stage) => (stage.name(), &blocked.cause, blocked.hint.as_str()),
        (None, stage) => (stage.name(), &line.detail, ""),
    };
    let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
    (format!("{stage}{cause}"), hint.to_owned())
}

/// Pause before the next try. Returns `retry` for a pause that is `retry` give or take a quarter (the random spread),
/// and if no pause is known.
fn pause(stuck_pod: &StuckPod, now: Moment, retry: Duration) -> Duration {
    let Some(pause) = stuck_pod.next.map(|next| next.since(now)) else { return retry };
    if pause >= retry / 4 * 3 && pause <= retry.saturating_mul(5) / 4 {
        return retry;
    }
    let precision = if pause < Duration::from_secs(1) { 100 } else { 1_000 };
    let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis((millis / precision).max(1).saturating_mul(precision))
}

/// Lines about new problems. `retry` is the usual pause after a refusal.
pub(crate) fn problem_lines(stuck_pods: &[StuckPod], now: Moment, retry: Duration) -> Vec<Print> {
    lines(stuck_pods, |names, first| match first.kind {
        StuckKind::Refused => {
            let pause = pause(first, now, retry);
            format!("error when evicting pods {names} (will retry after {pause:?}): {}", first.cause)
        }
        StuckKind::Failed => format!("error when evicting pods {names}: {}", first.cause),
        StuckKind::Returns => format!("pods {names} have come back: {}", first.cause),
        StuckKind::Stuck => format!("error when waiting for pods {names} to terminate: {}", first.cause),
    })
}

/// Lines that repeat problems which were printed before.
pub(crate) fn reminder_lines(stuck_pods: &[StuckPod], now: Moment) -> Vec<Print> {
    lines(stuck_pods, |names, first| {
        format!("still waiting for pods {names}, for {}: {}", span(now.since(first.since)), first.cause)
    })
}

/// One line for each group of pods with the same cause and hint.
fn lines(stuck_pods: &[StuckPod], line: impl Fn(&str, &StuckPod) -> String) -> Vec<Print> {
    let mut groups: Vec<Vec<&StuckPod>> = Vec::new();
    for stuck_pod in stuck_pods {
        let same = |group: &&mut Vec<&StuckPod>| group.first().is_some_and(|first| first.is_same(stuck_pod));
        match groups.iter_mut().find(same) {
            Some(group) => group.push(stuck_pod),
            None => groups.push(vec![stuck_pod]),
        }
    }
    let mut prints = Vec::new();
    for group in groups {
        let Some(first) = group.first() else { continue };
        let pods: Vec<&PodId> = group.iter().map(|stuck_pod| &stuck_pod.pod).collect();
        prints.push(Print::Err(line(&names(&pods, MOST_NAMES), first)));
        if !first.hint.is_empty() {
            prints.push(Print::Err(format!("  hint: {}", first.hint)));
        }
    }
    prints
}

/// `ns/a, ns/b and 3 more`: names at most `most` pods.
pub(crate) fn names(pods: &[&PodId], most: usize) -> String {
    let named: Vec<String> = pods.iter().take(most).map(ToString::to_string).collect();
    let named = named.join(", ");
    match pods.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// A duration for people, in whole seconds: `45s`, `2m05s`, `1h02m`.
pub fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests;
