//! Deletes a pod whose eviction is refused again and again.
//!
//! The deletion has the pod's own grace period. Grace period 0 (as MCM does it) takes the pod's object away while its
//! containers may still run: two live copies of a StatefulSet's pod, one volume. So it needs an operator's order, or
//! `unhealthy-node = "force"` and five minutes (`attempt::timing`).
//!
//! Only refusals in a row count: a budget that allows the eviction of another pod works, so the count restarts for all
//! its pods. And pods of one budget are deleted one at a time, [`Policy::retry`] apart, because the budget exists to
//! keep the others up. While an eviction of one is on its way, none is deleted: the budget may allow it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pod::{STUCK_AFTER, Track};
use crate::policy::{MaxRetries, Policy};
use crate::time::Moment;
use crate::view::Snapshot;

use super::Pods;

/// Namespace and name of a budget.
pub(super) type Budget = (String, String);

/// Recent events of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BudgetHistory {
    /// Time of the last eviction that it allowed.
    let_go: Option<Moment>,
    /// Time when one of its pods last changed from eviction to deletion, or when the server took that deletion.
    escalated: Option<Moment>,
}

impl BudgetHistory {
    /// Moves all times by the length of an outage, during which the clocks stood still.
    pub(super) fn delay(&mut self, away: Duration) {
        self.let_go = self.let_go.map(|at| at + away);
        self.escalated = self.escalated.map(|at| at + away);
    }
}

impl Pods {
    /// Notes that the pod's eviction was accepted while it was ready, so its budgets had room for it.
    pub(super) fn note_let_go(&mut self, uid: &str, now: Moment, policy: &Policy) {
        if policy.max_retries != MaxRetries::Unlimited {
            for budget in self.tracks.get(uid).map(budgets).unwrap_or_default() {
                self.history.entry(budget).or_default().let_go = Some(now);
            }
        }
    }

    /// Notes the budgets that have allowed an eviction by another client, as their `disruptedPods` show. Forgets
    /// budgets that are gone. `last` is the snapshot before this one.
    pub(crate) fn see_budgets(
        &mut self,
        last: Option<&Snapshot>,
        snapshot: &Snapshot,
        now: Moment,
        policy: &Policy,
    ) {
        let Some(last) = last.filter(|_| policy.max_retries != MaxRetries::Unlimited) else {
            return;
        };
        let known: BTreeMap<_, _> =
            last.budgets.iter().map(|budget| ((&budget.namespace, &budget.name), budget)).collect();
        let mut present: BTreeMap<Budget, BudgetHistory> = BTreeMap::new();
        for budget in &snapshot.budgets {
            let key = (budget.namespace.clone(), budget.name.clone());
            let mut history = self.history.get(&key).copied().unwrap_or_default();
            let before = known.get(&(&budget.namespace, &budget.name));
            let is_new = |pod: &String| before.is_some_and(|before| !before.disrupted_pods.contains(pod));
            if budget.disrupted_pods.iter().any(is_new) {
                history.let_go = Some(now);
            }
            if history != BudgetHistory::default() {
                present.insert(key, history);
            }
        }
        self.history = present;
    }

    /// Changes pods that have been refused for too long from eviction to deletion. `deadline` is the attempt's.
    pub(crate) fn escalate(&mut self, deadline: Moment, now: Moment, policy: &Policy) {
        let uids: Vec<String> = self.tracks.keys().cloned().collect();
        for uid in uids {
            // Computed again for each pod: a pod that changes to deletion delays the others of its budget.
            let is_due =
                |track: &Track| self.escalates_at(track, deadline, policy).is_some_and(|due| due <= now);
            if !self.tracks.get(&uid).is_some_and(is_due) {
                continue;
            }
            if let Some(track) = self.tracks.get_mut(&uid) {
                track.escalate(now);
            }
            self.note_escalated(&uid, now);
        }
    }

    /// Notes that the pod changes to deletion, or that the server has taken this deletion, which may be later.
    pub(super) fn note_escalated(&mut self, uid: &str, now: Moment) {
        let Some(track) = self.tracks.get_mut(uid).filter(|track| track.escalated().is_some()) else {
            return;
        };
        track.escalated_at(now);
        for budget in budgets(track) {
            self.history.entry(budget).or_default().escalated = Some(now);
        }
    }

    /// Time when the next pod changes to deletion.
    pub(crate) fn next_escalation(&self, deadline: Moment, policy: &Policy) -> Option<Moment> {
        self.iter().filter_map(|track| self.escalates_at(track, deadline, policy)).min()
    }

    fn escalates_at(&self, track: &Track, deadline: Moment, policy: &Policy) -> Option<Moment> {
        let since = track.refused_since().filter(|_| track.may_escalate())?;
        if self.others(track).any(Track::is_in_flight) {
            return None;
        }
        let budgets = budgets(track);
        let history = || budgets.iter().filter_map(|budget| self.history.get(budget));
        let let_go = history().filter_map(|history| history.let_go).max();
        let since = let_go.map_or(since, |let_go| since.max(let_go));
        let (due, apart) = match policy.max_retries {
            MaxRetries::Unlimited => return None,
            MaxRetries::Times(times) => {
                (since + policy.retry.saturating_mul(times), policy.retry.saturating_mul(times.min(1)))
            }
            MaxRetries::Auto => (deadline.before(self.time_for_all(track, policy)), policy.retry),
        };
        let last = history().filter_map(|history| history.escalated).map(|last| last + apart).max();
        let ends = |other: &Track| other.escalated().map(|at| at + other.grace() + STUCK_AFTER);
        Some(self.others(track).filter_map(ends).chain(last).fold(due, Moment::max))
    }

    /// Time to delete all refused pods of the same budgets one after another.
    fn time_for_all(&self, track: &Track, policy: &Policy) -> Duration {
        let waiting = self.others(track).filter(|other| other.may_escalate()).count();
        policy.retry.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// Other pods of its budgets.
    fn others<'a>(&'a self, track: &'a Track) -> impl Iterator<Item = &'a Track> {
        let shares = |other: &Track| track.budgets().any(|name| other.budgets().any(|other| other == name));
        self.iter().filter(move |other| {
            other.id().uid != track.id().uid && other.id().namespace == track.id().namespace && shares(other)
        })
    }
}

/// Budgets of the pod when its last eviction was sent.
fn budgets(track: &Track) -> Vec<Budget> {
    track.budgets().map(|name| (track.id().namespace.clone(), name.to_owned())).collect()
}
