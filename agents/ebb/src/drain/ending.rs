//! What is said of pods that do not leave while a node is drained, and of how its drain ended.

use std::time::Duration;

use drain::diagnosis::Blocked;
use drain::kubectl::{aggregate, refusals};
use drain::progress::Line;
use drain::state::Stage;
use drain::stuck_pods::{StuckKind, StuckPod};
use drain::{Failure, Moment, PodId};

use super::reporter::{NodeDrainView, judged};
use crate::screen::Print;

/// Pods of one group that are named when a drain has failed; the document has all of them.
const MOST_LEFT: usize = 50;

/// Pods that are named one by one in a line; the others are counted.
const MOST_NAMES: usize = 10;

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

/// What is said when the drain of a node has failed.
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

/// What is said when somebody stops the drain of a node.
pub(crate) fn interrupted(name: &str, view: &NodeDrainView) -> Vec<Print> {
    let progress = view.progress;
    let how_far = if view.is_pictured {
        format!("{} of {} pods are gone", progress.gone, progress.total)
    } else {
        "nothing had been seen of it yet".to_owned()
    };
    let head = format!("interrupted: the drain of node {name:?} has been stopped; {how_far}");
    let left = left(view);
    let tail = if left.is_empty() { "" } else { ", these are left:" };
    std::iter::once(Print::Err(format!("{head}{tail}"))).chain(left).collect()
}

/// The pods that are still there, those with the same trouble in one line.
fn left(view: &NodeDrainView) -> Vec<Print> {
    let blocked = view.blocked_by_uid();
    let mut groups: Vec<(String, Vec<&PodId>)> = Vec::new();
    for line in view.lines.iter().filter(|line| line.verdict.must_leave()) {
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
        (Some(blocked), stage) => (stage.name(), &blocked.cause, blocked.hint.as_str()),
        (None, stage) => (stage.name(), &line.detail, ""),
    };
    let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
    let hint = if hint.is_empty() { String::new() } else { format!("\n    hint: {hint}") };
    format!("{stage}{cause}{hint}")
}

/// The pause before the next try, `retry` if that is about it or nothing else is known.
fn pause(stuck_pod: &StuckPod, now: Moment, retry: Duration) -> Duration {
    let Some(pause) = stuck_pod.next.map(|next| next.since(now)) else { return retry };
    if pause >= retry / 4 * 3 && pause <= retry.saturating_mul(5) / 4 {
        return retry;
    }
    let precision = if pause < Duration::from_secs(1) { 100 } else { 1_000 };
    let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis((millis / precision).max(1).saturating_mul(precision))
}

/// Lines about these troubles, when they are new. `retry` is the usual pause after a refusal.
pub(crate) fn told(stuck_pods: &[StuckPod], now: Moment, retry: Duration) -> Vec<Print> {
    lines(stuck_pods, |names, first| match first.kind {
        StuckKind::Refused => {
            let pause = pause(first, now, retry);
            format!("error when evicting pods {names} (will retry after {pause:?}): {}", first.cause)
        }
        StuckKind::Final => format!("error when evicting pods {names}: {}", first.cause),
        StuckKind::Returns => format!("pods {names} have come back: {}", first.cause),
        StuckKind::Stuck => format!("error when waiting for pods {names} to terminate: {}", first.cause),
    })
}

/// Lines about these troubles, when they were told before.
pub(crate) fn told_again(stuck_pods: &[StuckPod], now: Moment) -> Vec<Print> {
    lines(stuck_pods, |names, first| {
        format!("still waiting for pods {names}, for {}: {}", span(now.since(first.since)), first.cause)
    })
}

/// Those with the same cause and hint share a line.
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

/// `ns/a, ns/b and 3 more`: at most so many by name.
pub(crate) fn names(pods: &[&PodId], most: usize) -> String {
    let named: Vec<String> = pods.iter().take(most).map(ToString::to_string).collect();
    let named = named.join(", ");
    match pods.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// A span for people, in whole seconds: `45s`, `2m05s`, `1h02m`.
pub(crate) fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
#[path = "ending_tests.rs"]
mod tests;
