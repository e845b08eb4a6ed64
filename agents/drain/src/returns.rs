//! Pods that come back: their owner makes them anew on this very node, past the cordon.
//!
//! That happens when a pod's template names the node (`spec.nodeName`, no scheduler is asked) or tolerates the cordon.
//! Such a drain would never end; so from the third return on the owner's pods are evicted slowly, and a person is told.

use std::time::Duration;

use crate::state::{Attempt, Cause, Stage};
use crate::time::Moment;
use crate::view::PodView;

/// From this return on an owner's pods are evicted slowly. One may be an accident: the scheduler binds pods for up to
/// 1.7 s after a cordon (`measured.md` 3).
pub const MOST_RETURNS: u32 = 3;

/// The pause before each eviction then.
const PAUSE: Duration = Duration::from_mins(1);

/// Remembers the owner of a pod that has left.
pub(crate) fn left(attempt: &mut Attempt, uid: &str) {
    let owner = attempt.pods.get(uid).and_then(|track| track.owner.as_ref());
    if let Some(owner) = owner.map(|owner| owner.uid.clone()) {
        attempt.returns.entry(owner).or_default();
    }
}

/// How often the owner of this pod, which is new here, has made one anew on this node.
pub(crate) fn count(attempt: &mut Attempt, pod: &PodView) -> u32 {
    let owner = pod.controller.as_ref().map(|owner| owner.uid.as_str()).unwrap_or_default();
    let leaving = |stage: &Stage| matches!(stage, Stage::Accepted | Stage::Terminating);
    let is_leaving = attempt
        .pods
        .values()
        .any(|track| leaving(&track.stage) && track.owner.as_ref().is_some_and(|known| known.uid == owner));
    if is_leaving && !owner.is_empty() {
        attempt.returns.entry(owner.to_owned()).or_default();
    }
    let Some(returns) = attempt.returns.get_mut(owner) else {
        return 0;
    };
    *returns = returns.saturating_add(1);
    *returns
}

/// The stage in which a pod begins that came back so often.
pub(crate) fn first_stage(returns: u32, now: Moment) -> Stage {
    if returns < MOST_RETURNS {
        return Stage::Waiting;
    }
    Stage::Blocked { cause: Cause::Returns { times: returns }, next: now + PAUSE }
}

#[cfg(test)]
mod tests;
