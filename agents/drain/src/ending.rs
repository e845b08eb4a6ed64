//! Whether there is more to do in an attempt, and why it has failed.

use crate::force::force;
use crate::policy::{OnDetachTimeout, Policy};
use crate::state::{Attempt, Failure, Stage};
use crate::time::Moment;
use crate::volumes::{Shelves, VolumeStage, VolumeTrack, is_awaited};

/// Pods have to leave, or volumes of those that have left are still attached.
pub(crate) fn has_more_to_do(attempt: &Attempt, now: Moment, policy: &Policy) -> bool {
    attempt.has_pods_left() || awaits_volumes(attempt, now, policy)
}

/// Volumes are being detached. With grace 0 nobody waits for them.
fn awaits_volumes(attempt: &Attempt, now: Moment, policy: &Policy) -> bool {
    let mut volumes = attempt.volumes.values();
    force(attempt, now, policy).is_none() && volumes.any(|volume| is_awaited(volume.stage, policy))
}

/// Why the attempt has failed, if it has. A deadline is never success, whatever else is true.
pub(crate) fn failure(attempt: &Attempt, now: Moment, policy: &Policy) -> Option<Failure> {
    if let Some(since) = attempt.away_since {
        let is_over = !policy.deadline_freezes && attempt.deadline <= now;
        let is_long = attempt.away_total + now.since(since) > policy.freeze_limit;
        return (is_over || is_long).then_some(Failure::ApiAway);
    }
    if attempt.deadline <= now {
        return Some(Failure::Deadline);
    }
    let node = attempt.picture.as_ref().and_then(|picture| picture.node.as_ref());
    if attempt.seen_cordoned && node.is_some_and(|node| !node.cordoned) {
        return Some(Failure::Uncordoned);
    }
    let refused = attempt.pods.values().any(|track| track.stage == Stage::Refused);
    let touched = attempt.gone > 0 || attempt.pods.values().any(|track| track.tries > 0);
    if refused && !touched {
        return Some(Failure::Refused);
    }
    if is_stuck(attempt, now, policy) {
        return Some(Failure::Stuck);
    }
    blind(attempt, now, policy).or_else(|| volumes_failed(attempt, now, policy))
}

/// A drain that cannot prove its end does not begin to move pods.
fn blind(attempt: &Attempt, now: Moment, policy: &Policy) -> Option<Failure> {
    let must_see =
        policy.volumes.on_detach_timeout == OnDetachTimeout::Fail && force(attempt, now, policy).is_none();
    attempt.blind.clone().filter(|_| must_see).map(Failure::Blind)
}

/// Nothing that is left can move: all pods of the lowest order are refused for good, and the others wait for them. With
/// grace 0 nobody waits for an order.
fn is_stuck(attempt: &Attempt, now: Moment, policy: &Policy) -> bool {
    let lowest = attempt.pods.values().map(|track| track.order).min();
    let is_forced = force(attempt, now, policy).is_some();
    let immovable = |stage: &Stage| matches!(stage, Stage::Refused | Stage::Final { .. });
    let mut first = attempt.pods.values().filter(|track| is_forced || Some(track.order) == lowest);
    lowest.is_some() && first.all(|track| immovable(&track.stage))
}

/// Volumes were not detached in time, and no pod is left that could leave before them.
fn volumes_failed(attempt: &Attempt, now: Moment, policy: &Policy) -> Option<Failure> {
    let late: Vec<&VolumeTrack> =
        attempt.volumes.values().filter(|volume| volume.stage == VolumeStage::TimedOut).collect();
    let order = late.iter().map(|volume| volume.order).min()?;
    let is_over = attempt.pods.values().all(|track| track.order > order)
        && !attempt.volumes.values().any(|volume| volume.stage == VolumeStage::Detaching);
    if !is_over || !awaits_volumes(attempt, now, policy) {
        return None;
    }
    let picture = attempt.picture.as_ref()?;
    let shelves = Shelves::of(picture);
    let words = |volume: &&VolumeTrack| {
        let obstacle = shelves.obstacle(&volume.volume, volume.attached_name.as_deref());
        format!("{} of {} ({obstacle})", volume.volume, volume.claim)
    };
    Some(Failure::Volumes(late.iter().map(words).collect()))
}
