//! Which evictions are sent now.

use std::collections::BTreeMap;

use crate::budget::{fingerprint, guarding, in_flight_limit};
use crate::policy::Policy;
use crate::state::{Attempt, Stage, Track};
use crate::step::Effect;
use crate::time::Moment;
use crate::view::{Picture, PodView};

/// Sends what may be sent: within the policy's concurrency and within what each budget takes.
pub(crate) fn send(attempt: &mut Attempt, now: Moment, policy: &Policy) -> Vec<Effect> {
    let Some(picture) = attempt.picture.clone() else {
        return Vec::new();
    };
    let mut in_flight = attempt.pods.values().filter(|track| track.stage == Stage::Sent).count();
    let mut budgets = Use::of(attempt, &picture);
    let mut effects = Vec::new();
    for pod in &picture.pods {
        if in_flight >= policy.concurrency {
            break;
        }
        let Some(track) = attempt.pods.get_mut(&pod.id.uid).filter(|track| is_due(track, now)) else {
            continue;
        };
        if !budgets.take(pod, &picture) {
            continue;
        }
        in_flight += 1;
        track.stage = Stage::Sent;
        track.since = now;
        track.tries = track.tries.saturating_add(1);
        track.sent_under = Some(fingerprint(pod, &picture.budgets));
        let (pod, grace, attempt) = (track.id.clone(), policy.grace_period, attempt.number);
        effects.push(if track.by_deletion {
            Effect::Delete { attempt, pod, grace }
        } else {
            Effect::Evict { attempt, pod, grace }
        });
    }
    effects
}

/// When the next pod that waits for a time is due.
pub(crate) fn next_due(attempt: &Attempt) -> Option<Moment> {
    attempt.pods.values().filter_map(|track| due(&track.stage)).min()
}

fn is_due(track: &Track, now: Moment) -> bool {
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
