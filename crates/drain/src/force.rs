//! Deletion with grace 0: only when an operator asks for it, or allowed it for an unhealthy node.

use crate::policy::{Method, Policy, UNHEALTHY_AFTER, UnhealthyNode};
use crate::state::{Attempt, Stage, Track};
use crate::time::Moment;
use crate::view::Unhealthy;

/// Why pods are deleted with grace 0 now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Force {
    /// The policy's method.
    Asked,
    /// The node has been unhealthy for long.
    Unhealthy(Unhealthy),
}

/// Whether pods are deleted with grace 0 now, and why.
pub fn force(attempt: &Attempt, now: Moment, policy: &Policy) -> Option<Force> {
    if policy.method == Method::ForceDelete {
        return Some(Force::Asked);
    }
    let since = unhealthy_since(attempt, policy)?;
    (since.1 <= now).then_some(Force::Unhealthy(since.0))
}

/// When an unhealthy node's pods begin to be deleted with grace 0.
pub(crate) fn next_force(attempt: &Attempt, policy: &Policy) -> Option<Moment> {
    unhealthy_since(attempt, policy).map(|(_, due)| due)
}

/// What is wrong with the node, and when it counts.
fn unhealthy_since(attempt: &Attempt, policy: &Policy) -> Option<(Unhealthy, Moment)> {
    let node = attempt.picture.as_ref()?.node.as_ref()?;
    let unhealthy = node.unhealthy.clone().filter(|_| policy.unhealthy_node == UnhealthyNode::Force)?;
    let missing = UNHEALTHY_AFTER.saturating_sub(unhealthy.lasting);
    Some((unhealthy, attempt.seen + missing))
}

/// The pod is to be deleted with grace 0 now; one that is terminating already is asked again after a while, since its
/// answer may have been lost.
pub(crate) fn is_due(track: &Track, now: Moment, policy: &Policy) -> bool {
    let again = track.killed.is_none_or(|killed| killed + policy.retry <= now);
    match &track.stage {
        Stage::Waiting | Stage::Blocked { .. } => true,
        Stage::Awaiting | Stage::Accepted | Stage::Terminating => again,
        Stage::Paused { next, .. } => *next <= now,
        Stage::Sent | Stage::Refused | Stage::Final { .. } => false,
    }
}

#[cfg(test)]
mod tests;
