//! Pods that come back: their owner makes them anew on this very node, past the cordon.
//!
//! That happens when a pod's template names the node (`spec.nodeName`, no scheduler is asked) or tolerates the cordon.
//! Such a drain would never end; so from the third return on the owner's pods are evicted slowly, and a person is told.
//!
//! Counted are rounds, not pods: pods of one owner that come together, before one of them was told to go, have come
//! back once. And a scheduler binds pods from a cache that has not heard of the cordon yet: those do not count at all.

use std::time::Duration;

use crate::policy::STALE_SCHEDULER;
use crate::state::{Attempt, Cause, Stage};
use crate::time::Moment;
use crate::view::PodView;

/// From this return on an owner's pods are evicted slowly.
pub const MOST_RETURNS: u32 = 3;

/// The pause before each eviction then.
const PAUSE: Duration = Duration::from_mins(1);

/// Pods that are seen for the first time within this time after the cordon were bound before it, or from a cache that
/// did not have it yet. Measured: up to 1.7 s (M4 in
/// `docs/reference/measured.md`); the rest is for the watch. After an outage it is [`STALE_SCHEDULER`].
pub(crate) const LATE_BINDING: Duration = Duration::from_secs(5);

/// How often an owner has made its pods anew on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Rounds so far. 0: the pods that were there from the beginning.
    pub rounds: u32,
    /// A pod of the last round is leaving or has left: one that comes now begins the next round.
    pub is_left: bool,
}

/// Remembers the owner of a pod that has left.
pub(crate) fn left(attempt: &mut Attempt, uid: &str) {
    let Some(track) = attempt.pods.get(uid) else { return };
    if let Some(owner) = &track.owner {
        note_left(attempt.returns.entry(owner.uid.clone()).or_default(), track.returns);
    }
}

/// In which round of its owner this pod, which is new here, has come back; 0 if it has not.
pub(crate) fn count(attempt: &mut Attempt, pod: &PodView, now: Moment) -> u32 {
    let Some(owner) = pod.controller.as_ref().map(|owner| owner.uid.as_str()) else {
        return 0;
    };
    if may_be_late(attempt, now) {
        return 0;
    }
    for track in attempt.pods.values() {
        let is_leaving = matches!(track.stage, Stage::Accepted | Stage::Terminating);
        if is_leaving && track.owner.as_ref().is_some_and(|known| known.uid == owner) {
            note_left(attempt.returns.entry(owner.to_owned()).or_default(), track.returns);
        }
    }
    let Some(returns) = attempt.returns.get_mut(owner) else {
        return 0;
    };
    if std::mem::take(&mut returns.is_left) {
        returns.rounds = returns.rounds.saturating_add(1);
    }
    returns.rounds
}

/// A pod of this round is on its way out, or has left.
fn note_left(returns: &mut Returns, round: u32) {
    returns.is_left |= round == returns.rounds;
}

/// A scheduler may have bound it before it knew of the cordon.
fn may_be_late(attempt: &Attempt, now: Moment) -> bool {
    let stale = attempt.api_back.is_some_and(|back| now < back + STALE_SCHEDULER);
    stale || now < attempt.started + LATE_BINDING
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
