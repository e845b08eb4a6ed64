//! Why pods do not leave, in lines for people: pods with the same trouble share one.

use std::time::Duration;

use drain::diagnosis::Blocked;
use drain::progress::Line;
use drain::state::Stage;
use drain::{Moment, PodId};

use super::sight::Sight;
use crate::screen::Print;

/// Pods that are named one by one in a line; the others are counted.
const MOST_NAMES: usize = 10;

/// One pod that does not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) pod: PodId,
    pub(crate) kind: Kind,
    /// Who or what is in the way.
    pub(crate) cause: String,
    /// What a person can do; empty if nothing is known.
    pub(crate) hint: String,
    /// Since when.
    pub(crate) since: Moment,
    /// When its eviction is tried again, if that is known.
    pub(crate) next: Option<Moment>,
}

/// What does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Its eviction is refused, and tried again.
    Refused,
    /// Its eviction is refused, and not tried again.
    Final,
    /// It has been told to go, and does not.
    Stuck,
    /// Its eviction is accepted each time, and its owner makes it anew on this node.
    Returns,
}

impl Trouble {
    /// What tells one trouble from another: numbers that only count on make no new one.
    pub(crate) fn sign(&self) -> String {
        let words: String = self.cause.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        format!("{:?} {words}", self.kind)
    }
}

/// Every pod that does not leave, in the order of the lines. What the policy forbids is no trouble: it ends the drain,
/// and is told then.
pub(crate) fn troubles(sight: &Sight) -> Vec<Trouble> {
    let blocked = sight.blocked_by_uid();
    let of = |line: &Line| blocked.get(line.id.uid.as_str()).copied();
    sight.lines.iter().filter_map(|line| trouble(line, of(line))).collect()
}

fn trouble(line: &Line, blocked: Option<&Blocked>) -> Option<Trouble> {
    let kind = match line.stage.as_ref()? {
        Stage::Refused => return None,
        Stage::Final { .. } => Kind::Final,
        Stage::Terminating | Stage::Accepted => Kind::Stuck,
        Stage::Paused { text, .. } => {
            let (pod, cause, since) = (line.id.clone(), text.clone(), line.since);
            return Some(Trouble {
                pod,
                kind: Kind::Refused,
                cause,
                hint: String::new(),
                since,
                next: next(line),
            });
        }
        Stage::Blocked { .. } | Stage::Waiting | Stage::Sent | Stage::Awaiting => Kind::Refused,
    };
    let blocked = blocked?;
    let kind = if blocked.returns { Kind::Returns } else { kind };
    let cause = if blocked.returns || blocked.holder.is_empty() {
        blocked.cause.clone()
    } else {
        format!("{}; behind it is {}", blocked.cause, blocked.holder)
    };
    let (pod, hint) = (line.id.clone(), blocked.hint.clone());
    Some(Trouble { pod, kind, cause, hint, since: blocked.since, next: next(line) })
}

fn next(line: &Line) -> Option<Moment> {
    match line.stage {
        Some(Stage::Blocked { next, .. } | Stage::Paused { next, .. }) if next != Moment::NEVER => Some(next),
        Some(
            Stage::Blocked { .. }
            | Stage::Paused { .. }
            | Stage::Waiting
            | Stage::Sent
            | Stage::Accepted
            | Stage::Terminating
            | Stage::Awaiting
            | Stage::Refused
            | Stage::Final { .. },
        )
        | None => None,
    }
}

/// The pause before the next try, `retry` if that is about it or nothing else is known.
fn pause(trouble: &Trouble, now: Moment, retry: Duration) -> Duration {
    let Some(pause) = trouble.next.map(|next| next.since(now)) else { return retry };
    if pause >= retry / 4 * 3 && pause <= retry.saturating_mul(5) / 4 {
        return retry;
    }
    let precision = if pause < Duration::from_secs(1) { 100 } else { 1_000 };
    let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis((millis / precision).max(1).saturating_mul(precision))
}

/// Lines about these troubles, when they are new. `retry` is the usual pause after a refusal.
pub(crate) fn told(troubles: &[Trouble], now: Moment, retry: Duration) -> Vec<Print> {
    lines(troubles, |names, first| match first.kind {
        Kind::Refused => {
            let pause = pause(first, now, retry);
            format!("error when evicting pods {names} (will retry after {pause:?}): {}", first.cause)
        }
        Kind::Final => format!("error when evicting pods {names}: {}", first.cause),
        Kind::Returns => format!("pods {names} have come back: {}", first.cause),
        Kind::Stuck => format!("error when waiting for pods {names} to terminate: {}", first.cause),
    })
}

/// Lines about these troubles, when they were told before.
pub(crate) fn told_again(troubles: &[Trouble], now: Moment) -> Vec<Print> {
    lines(troubles, |names, first| {
        format!("still waiting for pods {names}, for {}: {}", span(now.since(first.since)), first.cause)
    })
}

/// Those with the same cause and hint share a line.
fn lines(troubles: &[Trouble], line: impl Fn(&str, &Trouble) -> String) -> Vec<Print> {
    let mut groups: Vec<Vec<&Trouble>> = Vec::new();
    for trouble in troubles {
        let same = |group: &&mut Vec<&Trouble>| group.first().is_some_and(|first| is_same(first, trouble));
        match groups.iter_mut().find(same) {
            Some(group) => group.push(trouble),
            None => groups.push(vec![trouble]),
        }
    }
    let mut prints = Vec::new();
    for group in groups {
        let Some(first) = group.first() else { continue };
        let pods: Vec<&PodId> = group.iter().map(|trouble| &trouble.pod).collect();
        prints.push(Print::Err(line(&names(&pods, MOST_NAMES), first)));
        if !first.hint.is_empty() {
            prints.push(Print::Err(format!("  hint: {}", first.hint)));
        }
    }
    prints
}

fn is_same(one: &Trouble, other: &Trouble) -> bool {
    one.kind == other.kind && one.cause == other.cause && one.hint == other.hint
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
#[path = "trouble_tests.rs"]
mod tests;
