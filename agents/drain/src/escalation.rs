//! When a pod that is refused again and again is deleted instead of evicted.
//!
//! With its own grace period: a deletion with grace 0 (as MCM's) can leave two live copies of a StatefulSet's pod.

use crate::policy::{MaxRetries, Policy};
use crate::state::{Attempt, By, Cause, Stage, Track};
use crate::time::Moment;

/// Turns to deletion for the pods that have been refused for too long.
pub(crate) fn escalate(attempt: &mut Attempt, now: Moment, policy: &Policy) {
    let deadline = attempt.deadline;
    for track in attempt.pods.values_mut() {
        if due(track, deadline, policy).is_some_and(|due| due <= now) {
            track.by = By::Escalation;
            track.stage = Stage::Waiting;
            track.since = now;
        }
    }
}

/// When the next pod is turned to deletion.
pub(crate) fn next_escalation(attempt: &Attempt, policy: &Policy) -> Option<Moment> {
    attempt.pods.values().filter_map(|track| due(track, attempt.deadline, policy)).min()
}

fn due(track: &Track, deadline: Moment, policy: &Policy) -> Option<Moment> {
    let refused = match &track.stage {
        Stage::Blocked { cause: Cause::Budget(_) | Cause::TwoBudgets | Cause::Webhook(_), .. } => true,
        Stage::Blocked { cause: Cause::Returns { .. }, .. }
        | Stage::Waiting
        | Stage::Sent
        | Stage::Paused { .. }
        | Stage::Accepted
        | Stage::Terminating
        | Stage::Awaiting
        | Stage::Refused
        | Stage::Final { .. } => false,
    };
    let since = track.refused_since.filter(|_| refused && track.by == By::Eviction)?;
    match policy.max_retries {
        MaxRetries::Unlimited => None,
        MaxRetries::Times(times) => Some(since + policy.retry.saturating_mul(times)),
        MaxRetries::Auto => Some(deadline.before(policy.retry)),
    }
}

#[cfg(test)]
mod tests;
