//! Which evictions are sent now.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::budget::{fingerprint, guarding, in_flight_limit};
use crate::force::{self, force};
use crate::policy::{Method, Policy, StatefulOrder};
use crate::state::{Attempt, By, Stage, Track};
use crate::step::Effect;
use crate::terminating;
use crate::time::Moment;
use crate::turns::{begin, current_order};
use crate::view::{Picture, PodView};

/// Sends what may be sent: in order, within the policy's concurrency, within what each budget takes, and pods with
/// attached volumes one after another.
pub(crate) fn send(attempt: &mut Attempt, now: Moment, policy: &Policy) -> Vec<Effect> {
    let Some(picture) = attempt.picture.clone() else {
        return Vec::new();
    };
    let is_forced = force(attempt, now, policy).is_some();
    let order = if is_forced { i32::MAX } else { current_order(attempt, policy) };
    let mut in_flight = attempt.pods.values().filter(|track| track.stage == Stage::Sent).count();
    let mut budgets = Use::of(attempt, &picture);
    let mut effects = Vec::new();
    for pod in in_turn(attempt, &picture, policy) {
        if in_flight >= policy.concurrency {
            break;
        }
        let (turns, no_evictions) = (attempt.turns.len(), attempt.no_evictions);
        let Some(track) = attempt.pods.get_mut(&pod.id.uid) else {
            continue;
        };
        if is_forced {
            if force::is_due(track, now, policy) {
                in_flight += 1;
                effects.push(kill(attempt.number, track, now));
            }
            continue;
        }
        if track.by == By::Eviction && (no_evictions || policy.method != Method::Evict) {
            track.by = By::Deletion;
        }
        if pod.terminating.is_some() {
            // On its way out: neither its turn nor its budgets count any more.
            if terminating::is_due(track, now, policy) {
                in_flight += 1;
                track.shortened = Some(now);
                effects.push(one(attempt.number, track, now));
            }
            continue;
        }
        let may = is_due(track, now)
            && track.order <= order
            && (!track.is_stateful || track.had_turn || turns < policy.stateful.parallel)
            && (track.by != By::Eviction || budgets.take(pod, &picture));
        if may {
            in_flight += 1;
            track.sent_as = Some((pod.phase, pod.ready));
            track.sent_under = Some(fingerprint(pod, &picture.budgets));
            effects.push(one(attempt.number, track, now));
            begin(track, &mut attempt.turns, now, policy);
        }
    }
    effects
}

/// Pods without attached volumes first, in the picture's order; then those with, by priority.
fn in_turn<'a>(attempt: &Attempt, picture: &'a Picture, policy: &Policy) -> Vec<&'a PodView> {
    let is_stateful = |pod: &PodView| attempt.pods.get(&pod.id.uid).is_some_and(|track| track.is_stateful);
    let (mut last, mut pods): (Vec<&PodView>, Vec<&PodView>) =
        picture.pods.iter().partition(|pod| is_stateful(pod));
    match policy.stateful.order {
        StatefulOrder::HighestFirst => last.sort_by_key(|pod| Reverse(pod.priority)),
        StatefulOrder::LowestFirst => last.sort_by_key(|pod| pod.priority),
    }
    pods.append(&mut last);
    pods
}

fn one(attempt: u32, track: &mut Track, now: Moment) -> Effect {
    mark_sent(track, now);
    let (pod, grace) = (track.id.clone(), track.grace_sent);
    match track.by {
        By::Eviction => Effect::Evict { attempt, pod, grace },
        By::Deletion | By::Escalation => Effect::Delete { attempt, pod, grace },
    }
}

/// Deletion with grace 0.
fn kill(attempt: u32, track: &mut Track, now: Moment) -> Effect {
    mark_sent(track, now);
    track.killed = Some(now);
    Effect::Delete { attempt, pod: track.id.clone(), grace: Some(Duration::ZERO) }
}

fn mark_sent(track: &mut Track, now: Moment) {
    track.stage = Stage::Sent;
    track.since = now;
    track.tries = track.tries.saturating_add(1);
}

/// When the next pod that waits for a time is due. One that is due already waits for something else: an answer, a
/// budget, its turn.
pub(crate) fn next_due(attempt: &Attempt, now: Moment) -> Option<Moment> {
    attempt.pods.values().filter_map(|track| due(&track.stage)).filter(|due| *due > now).min()
}

fn is_due(track: &Track, now: Moment) -> bool {
    if track.volumes_unknown.is_some() {
        return false;
    }
    track.stage == Stage::Waiting || due(&track.stage).is_some_and(|next| next <= now)
}

fn due(stage: &Stage) -> Option<Moment> {
    match stage {
        Stage::Blocked { next, .. } | Stage::Paused { next, .. } => Some(*next),
        Stage::Waiting
        | Stage::Sent
        | Stage::Accepted
        | Stage::Terminating
        | Stage::Awaiting
        | Stage::Refused
        | Stage::Final { .. } => None,
    }
}

/// How many evictions each budget has taken that its status does not show yet.
struct Use<'a>(BTreeMap<(&'a str, &'a str), usize>);

impl<'a> Use<'a> {
    fn of(attempt: &Attempt, picture: &'a Picture) -> Self {
        let mut taken = Self(BTreeMap::new());
        if picture.budgets.is_empty() {
            return taken;
        }
        for pod in &picture.pods {
            if attempt.pods.get(&pod.id.uid).is_some_and(|track| counts(track, pod, picture)) {
                for budget in guarding(pod, &picture.budgets) {
                    *taken.0.entry((&budget.namespace, &budget.name)).or_default() += 1;
                }
            }
        }
        taken
    }

    /// Takes a place under every budget of the pod, if all have one.
    fn take(&mut self, pod: &'a PodView, picture: &'a Picture) -> bool {
        let room = |used: &Self| {
            guarding(pod, &picture.budgets).all(|budget| {
                let key = (budget.namespace.as_str(), budget.name.as_str());
                used.0.get(&key).copied().unwrap_or(0) < in_flight_limit(budget)
            })
        };
        if !room(self) {
            return false;
        }
        for budget in guarding(pod, &picture.budgets) {
            *self.0.entry((&budget.namespace, &budget.name)).or_default() += 1;
        }
        true
    }
}

/// The eviction is in flight, or accepted and not yet visible in the budget's status.
fn counts(track: &Track, pod: &PodView, picture: &Picture) -> bool {
    match track.stage {
        Stage::Sent => true,
        Stage::Accepted | Stage::Terminating => {
            track.sent_under.as_ref() == Some(&fingerprint(pod, &picture.budgets))
        }
        Stage::Waiting
        | Stage::Blocked { .. }
        | Stage::Paused { .. }
        | Stage::Awaiting
        | Stage::Refused
        | Stage::Final { .. } => false,
    }
}
