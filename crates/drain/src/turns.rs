//! Whose turn it is: order groups, and pods with attached volumes, which leave one after another.
//!
//! A pod with attached volumes has its turn from its eviction until its volumes are attached elsewhere, or until the
//! policy does not wait any longer. A refusal ends a turn: one blocked pod must not hold up the others.

use crate::policy::Policy;
use crate::state::{Attempt, Stage, Track};
use crate::storage::Attachments;
use crate::time::Moment;
use crate::view::{Picture, PodId};
use crate::volumes::{Shelves, VolumeStage, is_awaited};

/// The turn of one pod with attached volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Which pod.
    pub pod: PodId,
    /// Its volumes.
    pub volumes: Vec<String>,
    /// It is made anew elsewhere, as far as one can tell, so its volumes will be attached there.
    pub reattaches: bool,
    /// The pod has to be gone and its volumes detached by then, or the next one's turn comes: its grace and the detach
    /// time-out (MCM's limit).
    pub limit: Moment,
    /// Since when its volumes are detached.
    pub detached: Option<Moment>,
}

/// The order whose pods may leave now: the lowest of all that are still here, or whose volumes are.
pub(crate) fn current_order(attempt: &Attempt, policy: &Policy) -> i32 {
    let awaited = attempt.volumes.values().filter(|volume| is_awaited(volume.stage, policy));
    let volumes = awaited.map(|volume| volume.order);
    attempt.pods.values().map(|track| track.order).chain(volumes).min().unwrap_or(0)
}

/// Begins the turns of pods that are on their way, and ends those that are over.
pub(crate) fn settle(attempt: &mut Attempt, now: Moment, policy: &Policy) {
    let Some(picture) = attempt.picture.clone() else {
        return;
    };
    begin_seen(attempt, &picture, now, policy);
    if attempt.turns.is_empty() {
        return;
    }
    let mut turns = std::mem::take(&mut attempt.turns);
    let shelves = Shelves::of(&picture);
    turns.retain_mut(|turn| !is_over(turn, attempt, &shelves, &picture, now, policy));
    attempt.turns = turns;
}

/// Begins the turn of a pod whose eviction is being sent.
pub(crate) fn begin(track: &mut Track, turns: &mut Vec<Turn>, now: Moment, policy: &Policy) {
    if !track.is_stateful || track.had_turn {
        return;
    }
    track.had_turn = true;
    turns.push(Turn {
        pod: track.id.clone(),
        volumes: track.volumes.clone(),
        reattaches: track.owner.as_ref().is_some_and(|owner| owner.kind != "Job"),
        limit: now + track.grace + policy.volumes.detach_timeout,
        detached: None,
    });
}

/// When the next turn is over without any event.
pub(crate) fn next_end(attempt: &Attempt, policy: &Policy) -> Option<Moment> {
    let end = |turn: &Turn| match turn.detached {
        Some(since) => since + policy.volumes.reattach_timeout,
        None => turn.limit,
    };
    attempt.turns.iter().map(end).min()
}

/// Pods that were terminating before we came have a turn as well.
fn begin_seen(attempt: &mut Attempt, picture: &Picture, now: Moment, policy: &Policy) {
    for pod in &picture.pods {
        if let Some(track) = attempt.pods.get_mut(&pod.id.uid)
            && is_on_its_way(&track.stage)
        {
            begin(track, &mut attempt.turns, now, policy);
        }
    }
}

fn is_on_its_way(stage: &Stage) -> bool {
    matches!(stage, Stage::Sent | Stage::Accepted | Stage::Terminating)
}

fn is_over(
    turn: &mut Turn,
    attempt: &mut Attempt,
    shelves: &Shelves<'_>,
    picture: &Picture,
    now: Moment,
    policy: &Policy,
) -> bool {
    if let Some(track) = attempt.pods.get_mut(&turn.pod.uid) {
        if !is_on_its_way(&track.stage) {
            track.had_turn = false;
            return true;
        }
        return turn.limit <= now;
    }
    if turn.detached.is_none() && turn.limit <= now {
        return true;
    }
    let of_turn = |stage| {
        let volumes = turn.volumes.iter().filter_map(|name| attempt.volumes.get(name));
        volumes.filter(move |volume| volume.stage == stage)
    };
    if of_turn(VolumeStage::Detaching).next().is_some() {
        return false;
    }
    let free: Vec<String> = of_turn(VolumeStage::Detached).map(|volume| volume.volume.clone()).collect();
    if !awaits_reattach(turn, picture, policy) || free.iter().all(|volume| shelves.is_elsewhere(volume)) {
        return true;
    }
    let since = *turn.detached.get_or_insert(now);
    if now < since + policy.volumes.reattach_timeout {
        return false;
    }
    for name in free.iter().filter(|name| !shelves.is_elsewhere(name)) {
        if let Some(volume) = attempt.volumes.get_mut(name) {
            volume.is_late = true;
        }
    }
    true
}

/// Whether there is anything to wait for: somebody makes the pod anew, somewhere, and one can see it attached there.
fn awaits_reattach(turn: &Turn, picture: &Picture, policy: &Policy) -> bool {
    turn.reattaches
        && !policy.volumes.reattach_timeout.is_zero()
        && picture.storage.peer_takes_pods != Some(false)
        && matches!(picture.storage.attachments, Attachments::Listed(_))
}

#[cfg(test)]
mod tests;
