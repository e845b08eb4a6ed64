//! When an attempt has to be looked at again, and what an outage does to its clocks.

use std::time::Duration;

use crate::escalation::next_escalation;
use crate::force::next_force;
use crate::policy::Policy;
use crate::sending::next_due;
use crate::state::{Attempt, Denied};
use crate::time::Moment;
use crate::{asking, turns, volumes};

/// A watch that says nothing for so long may be dead: look freshly.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);

/// Volumes that no watch tells of are looked at this often.
const UNWATCHED: Duration = Duration::from_secs(5);

/// A node that a watch shows without our cordon is looked at freshly after so long: the watch is late, or somebody has
/// lifted the cordon.
const UNCORDONED: Duration = Duration::from_secs(2);

/// How long the watches may be silent. When only volumes are left and no watch is on them (their pods have left in an
/// attempt before), fresh looks take its place.
pub(crate) fn refresh(attempt: &Attempt) -> Duration {
    let is_seen = attempt.picture.as_ref().is_some_and(|picture| picture.node.is_some());
    if is_seen && !attempt.seen_cordoned {
        return UNCORDONED;
    }
    let only_volumes = attempt.pods.is_empty() && !attempt.volumes.is_empty();
    if only_volumes && !attempt.attachments.by_watch { UNWATCHED } else { REFRESH }
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
        attempt.looked = Moment(0);
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
    let end = end_time(attempt, policy);
    if attempt.away_since.is_some() {
        return end;
    }
    let times = [
        next_due(attempt, now),
        volumes::next_expiry(attempt, policy),
        turns::next_end(attempt, policy),
        next_escalation(attempt, policy),
        next_force(attempt, policy),
        asking::next(attempt),
        Some(attempt.looked + refresh(attempt)),
    ];
    let next = times.into_iter().flatten().filter(|time| *time > now).min().unwrap_or(Moment::NEVER);
    end.min(next)
}

/// When the attempt fails if nothing else happens.
pub(crate) fn end_time(attempt: &Attempt, policy: &Policy) -> Moment {
    let Some(since) = attempt.away_since else {
        return attempt.deadline;
    };
    let limit = since + policy.freeze_limit.saturating_sub(attempt.away_total) + Duration::from_millis(1);
    if policy.deadline_freezes { limit } else { limit.min(attempt.deadline) }
}

#[cfg(test)]
mod tests;
