//! Times of an attempt: the next wake-up, the effect of an outage, and the start of force.

use std::time::Duration;

use crate::findings::Inquiry;
use crate::outage::NOTICED_WITHIN;
use crate::plan::{Reason, Verdict};
use crate::pod::Track;
use crate::policy::{Method, Policy, STALE_SCHEDULER, UNHEALTHY_AFTER, UnhealthyNode};
use crate::time::Moment;
use crate::view::PodView;
use crate::volumes::VolumeStage;

use super::Attempt;

/// A watch that shows no change for this long may be dead: a relist checks it.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);

/// Volumes that are not covered by a watch are listed at a growing interval: half of the time that they have been
/// waited for, but not less than [`SOONEST`] and not more than [`LATEST`] after the last relist. So a quick detach is
/// seen quickly, and a slow one costs few calls.
const SOONEST: Duration = Duration::from_secs(1);

/// See [`SOONEST`].
const LATEST: Duration = Duration::from_secs(15);

/// If a watch shows the node without our cordon for this long, the watch is late or the cordon was lifted: a relist
/// decides.
const UNCORDONED: Duration = Duration::from_secs(2);

/// If a watch still shows a pod this long after the server said that it is gone, the watch is late: a relist is asked
/// for.
const GONE: Duration = Duration::from_secs(2);

/// Pods that are first seen within this time after the cordon were bound before it, or by a scheduler whose cache did
/// not have it yet. Measured: up to 1.7 s; the rest is for the watch. After an outage it is [`STALE_SCHEDULER`].
pub(crate) const LATE_BINDING: Duration = Duration::from_secs(5);

/// Time of refusals after which an inquiry about a pod begins. There is none while all goes well: a budget that allows
/// the evictions one by one within seconds is not worth a call.
const INQUIRE_AFTER: Duration = Duration::from_secs(10);

/// Time between the first two inquiries. It doubles up to [`INQUIRE_LATEST`]: what blocks a pod for hours changes rarely.
const INQUIRE_EVERY: Duration = Duration::from_secs(30);

/// See [`INQUIRE_EVERY`].
const INQUIRE_LATEST: Duration = Duration::from_mins(2);

/// The API server reports times in whole seconds, so a pod counts as overdue only this much later; otherwise the next
/// snapshot could contradict.
const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// Changes by time.
impl Attempt {
    /// Updates everything that changes by time alone.
    pub(crate) fn tick(&mut self, now: Moment, policy: &Policy) {
        self.volumes.expire(now, policy);
        self.leave_the_overdue(now, policy);
        self.settle_turns(now, policy);
        self.pods.escalate(self.deadline, now, policy);
    }

    /// Notes that the API server does not answer any more. The time before that, in which calls have failed already, is of
    /// the outage too.
    pub(crate) fn go_away(&mut self, now: Moment, policy: &Policy) {
        if self.is_away() {
            return;
        }
        self.away_since = Some(now);
        let heard = self.api_back.map_or(self.seen, |back| back.max(self.seen));
        self.count_away(now.since(heard).min(NOTICED_WITHIN), policy);
    }

    fn count_away(&mut self, away: Duration, policy: &Policy) {
        self.away_total += away;
        if policy.deadline_freezes {
            self.deadline = self.deadline + away;
        }
    }

    /// Notes that the API server answers again. All clocks stood still while it was away; the deadline only if the
    /// policy says so.
    pub(crate) fn come_back(&mut self, now: Moment, policy: &Policy) {
        let Some(since) = self.away_since.take() else {
            return;
        };
        let away = now.since(since);
        self.count_away(away, policy);
        self.api_back = Some(now);
        self.relists.require();
        self.pods.come_back(away);
        self.volumes.delay(away);
        self.turns.delay(away);
    }

    /// Stops waiting for pods that are overdue for too long. Decided by the clock, because without a change no snapshot
    /// comes.
    fn leave_the_overdue(&mut self, now: Moment, policy: &Policy) {
        let Some(snapshot) = self.snapshot.clone().filter(|_| policy.skip_wait_for_delete.is_some()) else {
            return;
        };
        for (index, pod) in snapshot.pods.iter().enumerate() {
            if self.given_up_at(pod, policy).is_some_and(|at| at <= now) {
                self.pods.give_up(&pod.id.uid);
                if let Some(planned) = self.planned.get_mut(index) {
                    (planned.verdict, planned.reasons) = (Verdict::Leave, vec![Reason::TerminatingTooLong]);
                }
            }
        }
    }

    /// Time when the attempt stops waiting for the pod; `None` for a pod without such a limit.
    fn given_up_at(&self, pod: &PodView, policy: &Policy) -> Option<Moment> {
        let limit = policy.skip_wait_for_delete? + CLOCK_SLACK;
        self.pods.get(&pod.id.uid)?.overdue_at(pod, self.seen, limit)
    }

    /// The inquiry about blocked pods, if it is due.
    pub(crate) fn inquire(&mut self, now: Moment) -> Option<Inquiry> {
        if self.next_inquiry()? > now {
            return None;
        }
        let snapshot = self.snapshot.as_ref()?;
        let is_refused = |pod: &&PodView| self.pods.get(&pod.id.uid).is_some_and(is_refused);
        let inquiry = Inquiry::about(snapshot.pods.iter().filter(is_refused), &snapshot.budgets);
        let is_any = inquiry != Inquiry::default();
        is_any.then(|| {
            self.inquired = Some((now, self.inquired.map_or(1, |(_, times)| times.saturating_add(1))));
            inquiry
        })
    }

    fn next_inquiry(&self) -> Option<Moment> {
        let refused = self.pods.iter().filter(|track| is_refused(track));
        let first = refused.filter_map(Track::refused_since).min()? + INQUIRE_AFTER;
        let after = |times: u32| {
            INQUIRE_EVERY.saturating_mul(1 << times.saturating_sub(1).min(2)).min(INQUIRE_LATEST)
        };
        Some(self.inquired.map_or(first, |(last, times)| first.max(last + after(times))))
    }
}

/// Also while the next try is in flight.
fn is_refused(track: &Track) -> bool {
    track.refusal().is_some()
}

/// Due times.
impl Attempt {
    /// Time of the next wake-up without an event.
    pub(crate) fn wake_time(&self, now: Moment, policy: &Policy) -> Moment {
        let end = self.end_time(now, policy);
        if self.is_away() {
            return end;
        }
        let overdue = self.snapshot.iter().flat_map(|snapshot| &snapshot.pods);
        let times = [
            // A pod that is due already waits for something else: an answer, a budget, its turn.
            self.pods.iter().filter_map(Track::next_try).filter(|due| *due > now).min(),
            self.volumes.next_expiry(policy),
            self.turns.next_end(policy),
            self.pods.next_escalation(self.deadline, policy),
            self.forced_from(policy),
            overdue.filter_map(|pod| self.given_up_at(pod, policy)).min(),
            self.next_inquiry(),
            self.relist_due(policy),
        ];
        let next = times.into_iter().flatten().filter(|time| *time > now).min().unwrap_or(Moment::NEVER);
        end.min(next)
    }

    /// Time when the attempt fails if no event comes.
    pub(crate) fn end_time(&self, now: Moment, policy: &Policy) -> Moment {
        let Some(since) = self.away_since else {
            let fails_at = self.relists_fail_at(now, policy);
            return fails_at.map_or(self.deadline, |at| at.min(self.deadline));
        };
        let limit = since + policy.freeze_limit.saturating_sub(self.away_total) + Duration::from_millis(1);
        if policy.deadline_freezes { limit } else { limit.min(self.deadline) }
    }

    /// Earliest time for a relist; `None` while one is in flight, or while the API server is away.
    pub(crate) fn relist_free(&self) -> Option<Moment> {
        self.relists.free().filter(|_| !self.is_away())
    }

    /// Time of the next relist; `None` while one is in flight.
    pub(crate) fn relist_due(&self, policy: &Policy) -> Option<Moment> {
        let (free, asked) = (self.relists.free()?, self.relists.asked());
        let is_gone = self.snapshot.as_ref().is_some_and(|snapshot| snapshot.node.is_none());
        if self.relists.is_required() || is_gone {
            return Some(free);
        }
        let is_uncordoned = self.snapshot.is_some() && !self.seen_cordoned;
        let is_late = self.snapshot.as_ref().is_some_and(|known| self.relists.is_watch_late(known));
        let heard = if is_late { asked } else { self.seen.max(asked) };
        let silent = heard + if is_uncordoned { UNCORDONED } else { REFRESH };
        let unseen = self.pods.iter().filter_map(Track::unseen_since);
        // The eviction that the server has accepted may be lost: then it is sent again.
        let unseen = unseen
            .map(|(is_gone, since)| since.max(asked) + if is_gone { GONE } else { policy.retry.max(GONE) });
        let unseen = unseen.min();
        let unknown = self
            .unknown_since()
            .map(|since| since.max(asked) + (asked.since(since) / 2).clamp(SOONEST, LATEST));
        let detach = self.detach_check(asked, policy);
        Some([unseen, unknown, detach].into_iter().flatten().fold(silent, Moment::min).max(free))
    }

    /// Time when a relist checks a volume whose detach has taken half of `volumes.detach-timeout`: if the watch of
    /// attachments has died, the volume may be detached already. [`REFRESH`] does not find that while other watches show
    /// changes. `asked`: time of the last relist.
    fn detach_check(&self, asked: Moment, policy: &Policy) -> Option<Moment> {
        let half = policy.volumes.detach_timeout / 2;
        let detaching = self.volumes.iter().filter(|volume| volume.stage == VolumeStage::Detaching);
        detaching.map(|volume| volume.since + half).filter(|at| asked < *at).min()
    }

    /// Start of the time during which facts about volumes are missing that no watch reports: the volume of a claim, or
    /// whether a volume is detached.
    fn unknown_since(&self) -> Option<Moment> {
        let is_watched = self.relists.is_watching_attachments();
        let detaching = self.volumes.iter().filter(|volume| volume.stage == VolumeStage::Detaching);
        let detaching = detaching.filter(|_| !is_watched).map(|volume| volume.since);
        detaching.chain(self.pods.iter().filter_map(Track::volumes_unknown)).min()
    }

    /// Time from which on a clean relist counts: after an outage the scheduler may still bind pods for a while.
    pub(crate) fn scheduler_is_fresh_at(&self) -> Moment {
        self.api_back.map_or(Moment(0), |back| back + STALE_SCHEDULER)
    }

    /// True if a scheduler may have bound a new pod before it knew of the cordon.
    pub(super) fn may_bind_late(&self, now: Moment) -> bool {
        now < self.scheduler_is_fresh_at() || now < self.started + LATE_BINDING
    }
}

/// Conditions that depend on the time.
impl Attempt {
    /// True while the API server is away.
    pub(crate) fn is_away(&self) -> bool {
        self.away_since.is_some()
    }

    /// True if pods are deleted with grace period 0 now: an operator asks for it, or has allowed it for an unhealthy
    /// node.
    pub(crate) fn is_forced(&self, now: Moment, policy: &Policy) -> bool {
        policy.method == Method::ForceDelete || self.forced_from(policy).is_some_and(|from| from <= now)
    }

    /// Time from which on the pods of an unhealthy node are deleted with grace period 0.
    fn forced_from(&self, policy: &Policy) -> Option<Moment> {
        let unhealthy = self.snapshot.as_ref()?.node.as_ref()?.unhealthy.as_ref();
        let lasting = unhealthy.filter(|_| policy.unhealthy_node == UnhealthyNode::Force)?.lasting;
        Some(self.seen + UNHEALTHY_AFTER.saturating_sub(lasting))
    }

    /// True if the attempt waits for volumes: not with a detach time-out of zero, and not with grace period 0.
    pub(super) fn volumes_count(&self, now: Moment, policy: &Policy) -> bool {
        policy.waits_for_volumes() && !self.is_forced(now, policy)
    }

    /// True if the drain cannot succeed without reading whether volumes are detached.
    pub(super) fn must_see(&self, now: Moment, policy: &Policy) -> bool {
        policy.needs_detached_volumes() && !self.is_forced(now, policy)
    }
}
