//! Whether there is more to do in an attempt, and why it has failed.

use crate::force::force;
use crate::looks::{self, must_see};
use crate::policy::Policy;
use crate::state::{Attempt, Failure, Stage};
use crate::time::Moment;
use crate::volumes::{Shelves, VolumeStage, VolumeTrack, is_attached, is_awaited};

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
        return Some(at_the_deadline(attempt, now, policy));
    }
    let node = attempt.picture.as_ref().and_then(|picture| picture.node.as_ref());
    if attempt.seen_cordoned && node.is_some_and(|node| !node.cordoned) {
        return Some(Failure::Uncordoned);
    }
    let refused = attempt.pods.values().any(|track| track.stage == Stage::Refused);
    if refused && !attempt.is_touched() {
        return Some(Failure::Refused);
    }
    if is_stuck(attempt, now, policy) {
        return Some(Failure::Stuck);
    }
    let failed = blind(attempt, now, policy).or_else(|| looks::failure(attempt, now, policy));
    failed.or_else(|| volumes_failed(attempt, now, policy))
}

/// What is left when the time is over: pods, else volumes, else only the proof.
fn at_the_deadline(attempt: &Attempt, now: Moment, policy: &Policy) -> Failure {
    if attempt.has_pods_left() {
        return Failure::Deadline;
    }
    let attached = attempt.volumes.values().filter(|volume| is_attached(volume.stage));
    let attached = named(attempt, attached);
    if !attached.is_empty() && awaits_volumes(attempt, now, policy) {
        return Failure::Volumes(attached);
    }
    let vain = attempt.looks.in_vain.as_ref();
    let since = vain.map(|vain| format!(" ({} times in {} s)", vain.times, now.since(vain.since).as_secs()));
    let nothing = if attempt.picture.is_none() {
        "nothing has been seen of the node yet"
    } else {
        "no fresh look has shown it yet"
    };
    let why = looks::trouble(attempt).unwrap_or_else(|| nothing.to_owned());
    Failure::Unproven(format!("the time is over; {why}{}", since.unwrap_or_default()))
}

/// A drain that cannot prove its end does not begin to move pods.
fn blind(attempt: &Attempt, now: Moment, policy: &Policy) -> Option<Failure> {
    attempt.blind.clone().filter(|_| must_see(attempt, now, policy)).map(Failure::Blind)
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
    Some(Failure::Volumes(named(attempt, late.into_iter())))
}

/// The volumes in words: name, claim, driver, and what holds each.
fn named<'a>(attempt: &Attempt, volumes: impl Iterator<Item = &'a VolumeTrack>) -> Vec<String> {
    let Some(picture) = &attempt.picture else {
        return Vec::new();
    };
    let shelves = Shelves::of(picture);
    let words = |volume: &VolumeTrack| {
        let obstacle = shelves.obstacle(&volume.volume, volume.attached_name.as_deref());
        format!("{} ({obstacle})", volume.named())
    };
    volumes.map(words).collect()
}
