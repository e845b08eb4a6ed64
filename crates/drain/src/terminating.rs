//! Pods that somebody deletes already: their grace can be shortened, and the wait for them can be given up.

use std::time::Duration;

use crate::plan::{Planned, Reason, Verdict};
use crate::policy::Policy;
use crate::retry::SHORTEST_RETRY;
use crate::state::{Attempt, Cause, Stage, Track};
use crate::time::Moment;
use crate::view::{PodView, Terminating};

/// The API server tells its time in whole seconds: a pod counts as overdue by the clock alone only so much later, so that
/// the picture that comes next does not say otherwise.
const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// The policy asks for a shorter grace than the pod has. The server takes only a shorter one, and asks no budget then.
pub(crate) fn shortens(planned: &Planned, pod: &PodView) -> bool {
    // Seconds are sent, rounded up: half a second less is no shorter one.
    let is_shorter = |(grace, terminating): (Duration, Terminating)| {
        terminating.grace.checked_sub(grace).is_some_and(|less| less >= Duration::from_secs(1))
    };
    planned.verdict == Verdict::Evict && planned.grace.zip(pod.terminating).is_some_and(is_shorter)
}

/// The stage of a terminating pod after a new picture: a refusal to shorten its grace is remembered.
pub(crate) fn stage_seen(track: &Track) -> Stage {
    match &track.stage {
        stage @ Stage::Paused { .. } if track.shortens => stage.clone(),
        Stage::Paused { .. }
        | Stage::Waiting
        | Stage::Sent
        | Stage::Blocked { .. }
        | Stage::Accepted
        | Stage::Terminating
        | Stage::Awaiting
        | Stage::Refused
        | Stage::Final { .. } => Stage::Terminating,
    }
}

/// The stage of a terminating pod after the answer to the request for a shorter grace, in place of the one of a live pod.
/// No answer fails the drain: the pod is on its way out anyway.
pub(crate) fn stage_answered(track: &mut Track, stage: Stage, now: Moment, policy: &Policy) -> Stage {
    let paused = |text| Stage::Paused { text, next: now + policy.retry.max(SHORTEST_RETRY) };
    match stage {
        Stage::Final { text } | Stage::Blocked { cause: Cause::Budget(text) | Cause::Webhook(text), .. } => {
            paused(text)
        }
        Stage::Blocked { cause: Cause::TwoBudgets | Cause::Returns { .. }, .. } => {
            paused("the API server does not shorten its grace".to_owned())
        }
        // By deletion, at once.
        Stage::Waiting => {
            track.shortened = None;
            Stage::Terminating
        }
        stage @ (Stage::Sent
        | Stage::Paused { .. }
        | Stage::Accepted
        | Stage::Terminating
        | Stage::Awaiting
        | Stage::Refused) => stage,
    }
}

/// A shorter grace is to be asked for now; again after a while, since the request may have been lost.
pub(crate) fn is_due(track: &Track, now: Moment, policy: &Policy) -> bool {
    let retry = policy.retry.max(SHORTEST_RETRY);
    track.shortens
        && match &track.stage {
            Stage::Terminating => track.shortened.is_none_or(|asked| asked + retry <= now),
            Stage::Paused { next, .. } => *next <= now,
            Stage::Waiting
            | Stage::Sent
            | Stage::Blocked { .. }
            | Stage::Accepted
            | Stage::Awaiting
            | Stage::Refused
            | Stage::Final { .. } => false,
        }
}

/// Gives up the wait for pods that are overdue for too long. Judged by the clock: where nothing changes no picture comes.
pub(crate) fn leave_the_overdue(attempt: &mut Attempt, now: Moment, policy: &Policy) {
    let Some(picture) = attempt.picture.clone().filter(|_| policy.skip_wait_for_delete.is_some()) else {
        return;
    };
    for (index, pod) in picture.pods.iter().enumerate() {
        let uid = pod.id.uid.as_str();
        if skip_at(attempt, pod, policy).is_some_and(|skip| skip <= now) {
            attempt.pods.remove(uid);
            if let Some(planned) = attempt.planned.get_mut(index) {
                (planned.verdict, planned.reasons) = (Verdict::Leave, vec![Reason::TerminatingTooLong]);
            }
        }
    }
}

/// When the wait for the next pod is given up.
pub(crate) fn next_skip(attempt: &Attempt, policy: &Policy) -> Option<Moment> {
    let pods = &attempt.picture.as_ref()?.pods;
    pods.iter().filter_map(|pod| skip_at(attempt, pod, policy)).min()
}

/// When the wait for the pod is given up; `None` for one that is not waited for, or without end.
fn skip_at(attempt: &Attempt, pod: &PodView, policy: &Policy) -> Option<Moment> {
    let limit = policy.skip_wait_for_delete? + CLOCK_SLACK;
    let Terminating { grace, overdue, left } = pod.terminating?;
    let track = attempt.pods.get(&pod.id.uid)?;
    Some(match (overdue.is_zero(), left.is_zero()) {
        (false, _) => attempt.seen + limit.saturating_sub(overdue),
        (true, false) => attempt.seen + left + limit,
        // The server's clock is not known.
        (true, true) => track.since + grace + limit,
    })
}

#[cfg(test)]
mod tests;
