//! When a pod that is refused again and again is deleted instead of evicted.
//!
//! With its own grace period: a deletion with grace 0 (as MCM's) can leave two live copies of a StatefulSet's pod.
//!
//! Only refusals in a row count: a budget that lets another pod go works, and begins the count anew for all its pods.
//! And pods of one budget are deleted one at a time, [`Policy::retry`] apart: the budget is there to keep the others up.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::budget::Fingerprint;
use crate::diagnosis::STUCK_AFTER;
use crate::policy::{MaxRetries, Policy};
use crate::state::{Attempt, By, Cause, Stage, Track};
use crate::time::Moment;
use crate::view::Picture;

/// A budget, by namespace and name.
type Budget = (String, String);

/// What a budget let happen, or had to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// When it last let a pod go.
    pub let_go: Option<Moment>,
    /// When one of its pods was last turned to deletion.
    pub escalated: Option<Moment>,
}

impl Moves {
    /// The clocks stood still for so long.
    pub(crate) fn delay(&mut self, away: Duration) {
        self.let_go = self.let_go.map(|at| at + away);
        self.escalated = self.escalated.map(|at| at + away);
    }
}

/// The pod's eviction was accepted while it was ready, so its budgets had room for it.
pub(crate) fn let_go(attempt: &mut Attempt, uid: &str, now: Moment, policy: &Policy) {
    let budgets = attempt.pods.get(uid).map(budgets).unwrap_or_default();
    if policy.max_retries != MaxRetries::Unlimited {
        for budget in budgets {
            attempt.moves.entry(budget).or_default().let_go = Some(now);
        }
    }
}

/// Somebody else's pod goes, as the budget's `disruptedPods` tell. Budgets that are gone are forgotten.
pub(crate) fn see(attempt: &mut Attempt, picture: &Picture, now: Moment, policy: &Policy) {
    let Some(last) = attempt.picture.clone().filter(|_| policy.max_retries != MaxRetries::Unlimited) else {
        return;
    };
    let known: BTreeMap<_, _> =
        last.budgets.iter().map(|budget| ((&budget.namespace, &budget.name), budget)).collect();
    let mut present: BTreeMap<Budget, Moves> = BTreeMap::new();
    for budget in &picture.budgets {
        let key = (budget.namespace.clone(), budget.name.clone());
        let mut moves = attempt.moves.get(&key).copied().unwrap_or_default();
        let before = known.get(&(&budget.namespace, &budget.name));
        let is_new = |pod: &String| before.is_some_and(|before| !before.disrupted_pods.contains(pod));
        if budget.disrupted_pods.iter().any(is_new) {
            moves.let_go = Some(now);
        }
        if moves != Moves::default() {
            present.insert(key, moves);
        }
    }
    attempt.moves = present;
}

/// Turns to deletion the pods that have been refused for too long.
pub(crate) fn escalate(attempt: &mut Attempt, now: Moment, policy: &Policy) {
    let uids: Vec<String> = attempt.pods.keys().cloned().collect();
    for uid in uids {
        // Anew for each: one that turns holds the others of its budget.
        let is_due = |track: &Track| due(track, attempt, policy).is_some_and(|due| due <= now);
        if !attempt.pods.get(&uid).is_some_and(is_due) {
            continue;
        }
        if let Some(track) = attempt.pods.get_mut(&uid) {
            track.by = By::Escalation;
            track.escalated = Some(now);
            track.stage = Stage::Waiting;
            track.since = now;
            for budget in budgets(track) {
                attempt.moves.entry(budget).or_default().escalated = Some(now);
            }
        }
    }
}

/// When the next pod is turned to deletion.
pub(crate) fn next_escalation(attempt: &Attempt, policy: &Policy) -> Option<Moment> {
    attempt.pods.values().filter_map(|track| due(track, attempt, policy)).min()
}

fn due(track: &Track, attempt: &Attempt, policy: &Policy) -> Option<Moment> {
    if policy.max_retries == MaxRetries::Unlimited {
        return None;
    }
    let since = track.refused_since.filter(|_| is_candidate(track))?;
    let budgets = budgets(track);
    let moves = || budgets.iter().filter_map(|budget| attempt.moves.get(budget));
    let let_go = moves().filter_map(|moves| moves.let_go).max();
    let since = let_go.map_or(since, |let_go| since.max(let_go));
    let (due, apart) = match policy.max_retries {
        MaxRetries::Unlimited => return None,
        MaxRetries::Times(times) => {
            (since + policy.retry.saturating_mul(times), policy.retry.saturating_mul(times.min(1)))
        }
        MaxRetries::Auto => (attempt.deadline.before(time_for_all(track, attempt, policy)), policy.retry),
    };
    let last = moves().filter_map(|moves| moves.escalated).map(|last| last + apart).max();
    let free =
        others(track, attempt).filter_map(|other| other.escalated.map(|at| at + other.grace + STUCK_AFTER));
    Some(free.chain(last).fold(due, Moment::max))
}

/// As long as it takes to delete all pods that are refused under the same budgets, one after another.
fn time_for_all(track: &Track, attempt: &Attempt, policy: &Policy) -> Duration {
    let waiting = others(track, attempt).filter(|other| is_candidate(other)).count();
    policy.retry.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(1))
}

/// The other pods under one of its budgets.
fn others<'a>(track: &'a Track, attempt: &'a Attempt) -> impl Iterator<Item = &'a Track> {
    let shares = |other: &Track| names(track).any(|name| names(other).any(|other| other == name));
    attempt.pods.values().filter(move |other| {
        other.id.uid != track.id.uid && other.id.namespace == track.id.namespace && shares(other)
    })
}

/// It is refused, and would still be evicted.
fn is_candidate(track: &Track) -> bool {
    let is_refused = matches!(
        track.stage,
        Stage::Blocked { cause: Cause::Budget(_) | Cause::TwoBudgets | Cause::Webhook(_), .. }
    );
    is_refused && track.by == By::Eviction
}

/// The budgets that guarded the pod when its last eviction was sent.
fn budgets(track: &Track) -> Vec<Budget> {
    names(track).map(|name| (track.id.namespace.clone(), name.to_owned())).collect()
}

/// Their names, in the pod's namespace.
fn names(track: &Track) -> impl Iterator<Item = &str> {
    track.sent_under.iter().flat_map(Fingerprint::names)
}

#[cfg(test)]
mod tests;
