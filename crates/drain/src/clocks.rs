//! When an attempt has to be looked at again, and what an outage does to its clocks.

use std::sync::Arc;
use std::time::Duration;

use crate::escalation::next_escalation;
use crate::force::next_force;
use crate::policy::Policy;
use crate::sending::next_due;
use crate::state::{Attempt, Denied, Stage};
use crate::storage::Attachments;
use crate::terminating::next_skip;
use crate::time::Moment;
use crate::view::Picture;
use crate::volumes::VolumeStage;
use crate::{asking, looks, turns, volumes};

/// A watch that says nothing for so long may be dead: look freshly.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);

/// Volumes that no watch tells of are looked at after half of the time that they are waited for already, but no sooner
/// than [`SOONEST`] and no later than [`LATEST`] after the last look: a quick detach is seen quickly, a slow one costs
/// few calls.
const SOONEST: Duration = Duration::from_secs(1);

/// See [`SOONEST`].
const LATEST: Duration = Duration::from_secs(15);

/// A node that a watch shows without our cordon is looked at freshly after so long: the watch is late, or somebody has
/// lifted the cordon.
const UNCORDONED: Duration = Duration::from_secs(2);

/// The server says that a pod is gone, and a watch still shows it after so long: the watch is late.
const GONE: Duration = Duration::from_secs(2);

/// When the next fresh look is due; `None` while one is on its way.
pub(crate) fn look_due(attempt: &Attempt) -> Option<Moment> {
    let free = looks::free(attempt)?;
    let asked = attempt.looks.asked;
    let is_gone = attempt.picture.as_ref().is_some_and(|picture| picture.node.is_none());
    if attempt.looks.is_owed || is_gone {
        return Some(free);
    }
    let is_uncordoned = attempt.picture.is_some() && !attempt.seen_cordoned;
    let heard = if shows_other_pods(attempt) { asked } else { attempt.seen.max(asked) };
    let silent = heard + if is_uncordoned { UNCORDONED } else { REFRESH };
    let gone = attempt.pods.values().filter(|track| track.stage == Stage::Accepted && track.said_gone);
    let gone = gone.map(|track| track.since.max(asked) + GONE).min();
    let silent = gone.map_or(silent, |gone| gone.min(silent));
    let untold =
        untold_since(attempt).map(|since| since.max(asked) + (asked.since(since) / 2).clamp(SOONEST, LATEST));
    Some(untold.map_or(silent, |untold| untold.min(silent)).max(free))
}

/// The watches show other pods than the last look did: they are late, however busy they are.
fn shows_other_pods(attempt: &Attempt) -> bool {
    let (Some(known), Some(watched)) = (&attempt.picture, &attempt.watched) else { return false };
    known.pods.iter().map(|pod| &pod.id).ne(watched.pods.iter().map(|pod| &pod.id))
}

/// Since when there is something to know of volumes that no watch tells: what the claims of a pod are bound to, or
/// whether a volume is detached.
fn untold_since(attempt: &Attempt) -> Option<Moment> {
    let is_asked = |watched: &Arc<Picture>| watched.storage.attachments != Attachments::NotAsked;
    let is_told = attempt.watched.as_ref().is_some_and(is_asked) && !attempt.looks.is_at_odds;
    let detaching = attempt.volumes.values().filter(|volume| volume.stage == VolumeStage::Detaching);
    let detaching = detaching.filter(|_| !is_told).map(|volume| volume.since);
    let unknown = attempt.pods.values().filter_map(|track| track.volumes_unknown);
    detaching.chain(unknown).min()
}

/// The API server does not answer any more.
pub(crate) fn away(attempt: &mut Attempt, now: Moment) {
    attempt.away_since.get_or_insert(now);
}

/// The clocks of the attempt stood still while the server was away; its deadline only if the policy says so.
pub(crate) fn back(attempt: &mut Attempt, now: Moment, policy: &Policy) {
    if let Some(since) = attempt.away_since.take() {
        let away = now.since(since);
        attempt.away_total += away;
        if policy.deadline_freezes {
            attempt.deadline = attempt.deadline + away;
        }
        attempt.api_back = Some(now);
        looks::owe(attempt);
        delay(attempt, away);
    }
}

/// All clocks stood still for so long.
fn delay(attempt: &mut Attempt, away: Duration) {
    for track in attempt.pods.values_mut() {
        track.refused_since = track.refused_since.map(|since| since + away);
        track.escalated = track.escalated.map(|since| since + away);
        track.denied = track.denied.map(|denied| Denied { since: denied.since + away, ..denied });
    }
    for moves in attempt.moves.values_mut() {
        moves.delay(away);
    }
    for volume in attempt.volumes.values_mut() {
        volume.since = volume.since + away;
    }
    for turn in &mut attempt.turns {
        turn.limit = turn.limit + away;
        turn.detached = turn.detached.map(|since| since + away);
    }
}

/// When the attempt has to be looked at again without any event.
pub(crate) fn wake_time(attempt: &Attempt, now: Moment, policy: &Policy) -> Moment {
    let end = end_time(attempt, now, policy);
    if attempt.away_since.is_some() {
        return end;
    }
    let times = [
        next_due(attempt, now),
        volumes::next_expiry(attempt, policy),
        turns::next_end(attempt, policy),
        next_escalation(attempt, policy),
        next_force(attempt, policy),
        next_skip(attempt, policy),
        asking::next(attempt),
        look_due(attempt),
    ];
    let next = times.into_iter().flatten().filter(|time| *time > now).min().unwrap_or(Moment::NEVER);
    end.min(next)
}

/// When the attempt fails if nothing else happens.
pub(crate) fn end_time(attempt: &Attempt, now: Moment, policy: &Policy) -> Moment {
    let Some(since) = attempt.away_since else {
        return looks::next_failure(attempt, now, policy)
            .map_or(attempt.deadline, |vain| vain.min(attempt.deadline));
    };
    let limit = since + policy.freeze_limit.saturating_sub(attempt.away_total) + Duration::from_millis(1);
    if policy.deadline_freezes { limit } else { limit.min(attempt.deadline) }
}

#[cfg(test)]
mod tests;
