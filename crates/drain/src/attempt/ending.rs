//! Decides whether an attempt has more to do, and why it has failed.
//!
//! The deadline, or in an outage its limit, is checked before everything else, and is never a success: a tool that
//! reports a time-out as success deletes a machine with pods on it.

use crate::outcome::Failure;
use crate::pod::{Stage, Track};
use crate::policy::Policy;
use crate::time::Moment;
use crate::volumes::{StorageIndex, VolumeStage, VolumeTrack};

use super::Attempt;

impl Attempt {
    /// True if pods have to leave, or volumes of those that have left are still attached.
    pub(crate) fn has_more_to_do(&self, now: Moment, policy: &Policy) -> bool {
        self.has_pods_left() || self.awaits_volumes(now, policy)
    }

    /// The final check ends because there is more to do.
    pub(crate) fn end_final_check(&mut self) {
        self.relists.end_final_check();
    }

    /// True if a known pod has to leave.
    pub fn has_pods_left(&self) -> bool {
        !self.pods().is_empty()
    }

    /// True if the attempt waits for volumes to be detached. It does not with grace period 0.
    fn awaits_volumes(&self, now: Moment, policy: &Policy) -> bool {
        !self.is_forced(now, policy) && self.volumes.iter().any(|volume| volume.is_awaited(policy))
    }

    /// True if evictions may be sent: the node exists and was seen cordoned, and the known state is not out of date. If
    /// the watch reports that the node is gone, a relist must confirm it first.
    pub(crate) fn may_act(&self) -> bool {
        let is_seen = self.snapshot.as_ref().is_some_and(|snapshot| snapshot.node.is_some());
        is_seen && !self.is_away() && self.seen_cordoned && !self.relists.is_required()
    }

    /// True if one clean relist is not enough: pods came during the drain or may come back, so a second one must
    /// follow.
    pub(crate) fn needs_second_check(&self) -> bool {
        self.arrivals
    }

    /// Reason for which the attempt has failed, if it has. An attempt never succeeds after its deadline, whatever else
    /// is true.
    pub(crate) fn failure(&self, now: Moment, policy: &Policy) -> Option<Failure> {
        if let Some(since) = self.away_since {
            let is_over = !policy.deadline_freezes && self.deadline <= now;
            let is_long = self.away_total + now.since(since) > policy.freeze_limit;
            return (is_over || is_long).then_some(Failure::ApiAway);
        }
        if self.deadline <= now {
            return Some(self.at_the_deadline(now, policy));
        }
        let node = self.snapshot.as_ref().and_then(|snapshot| snapshot.node.as_ref());
        if self.seen_cordoned && node.is_some_and(|node| !node.cordoned) {
            return Some(Failure::Uncordoned);
        }
        let is_refused = self.pods.iter().any(|track| *track.stage() == Stage::Refused);
        if is_refused && !self.pods.is_begun() {
            return Some(Failure::Refused);
        }
        if self.is_stuck(now, policy) {
            return Some(Failure::Stuck);
        }
        self.unreadable_volumes(now, policy)
            .or_else(|| self.relists_failed(now, policy))
            .or_else(|| self.volumes_failed(now, policy))
    }

    /// Reason of a failure at the deadline: pods are left, else volumes, else only the final check is missing.
    fn at_the_deadline(&self, now: Moment, policy: &Policy) -> Failure {
        if self.has_pods_left() {
            return Failure::Deadline;
        }
        let attached = self.named(self.volumes.iter().filter(|volume| volume.is_attached()));
        if !attached.is_empty() && self.awaits_volumes(now, policy) {
            return Failure::Volumes(attached);
        }
        let failures = self.relists.failures();
        let since =
            failures.map(|(times, since)| format!(" ({times} times in {} s)", now.since(since).as_secs()));
        let nothing = if self.snapshot.is_none() {
            "no snapshot of the node has come yet"
        } else {
            "no relist has confirmed it yet"
        };
        let why = self.wait_reason().unwrap_or_else(|| nothing.to_owned());
        Failure::Unproven(format!("the time is over; {why}{}", since.unwrap_or_default()))
    }

    /// True if no pod that is left can be evicted: all pods of the lowest order are refused for good, and the others
    /// wait for them. With grace period 0 no pod waits for an order.
    fn is_stuck(&self, now: Moment, policy: &Policy) -> bool {
        let lowest = self.pods.iter().map(Track::order).min();
        let is_forced = self.is_forced(now, policy);
        let mut first = self.pods.iter().filter(|track| is_forced || Some(track.order()) == lowest);
        lowest.is_some() && first.all(|track| self.pods.is_immovable(track))
    }

    /// Fails before pods are evicted if the volumes cannot be read, because the final check could not succeed.
    fn unreadable_volumes(&self, now: Moment, policy: &Policy) -> Option<Failure> {
        let why = self.volumes.read_error().filter(|_| self.must_see(now, policy))?;
        Some(Failure::Blind(why.to_owned()))
    }

    /// Fails if relists have no usable result and the attempt cannot continue without one.
    fn relists_failed(&self, now: Moment, policy: &Policy) -> Option<Failure> {
        let why = self.relists.error()?.to_owned();
        if self.refusal_fails_at(now, policy).is_some_and(|at| at <= now) {
            return Some(Failure::Blind(why));
        }
        self.useless_relists_fail_at().filter(|at| *at <= now).map(|_| Failure::Unproven(why))
    }

    /// Time at which the attempt fails if its relists keep failing.
    pub(super) fn relists_fail_at(&self, now: Moment, policy: &Policy) -> Option<Moment> {
        [self.refusal_fails_at(now, policy), self.useless_relists_fail_at()].into_iter().flatten().min()
    }

    fn refusal_fails_at(&self, now: Moment, policy: &Policy) -> Option<Moment> {
        self.relists.refusal_counts_from().filter(|_| self.must_see(now, policy))
    }

    fn useless_relists_fail_at(&self) -> Option<Moment> {
        let nothing_goes_on =
            self.snapshot.is_none() || self.pods.iter().all(|track| track.volumes_unknown().is_some());
        self.relists.failures_count_from().filter(|_| nothing_goes_on)
    }

    /// Fails if volumes were not detached in time and no pod is left that must leave before them.
    fn volumes_failed(&self, now: Moment, policy: &Policy) -> Option<Failure> {
        let in_stage = |stage| self.volumes.iter().filter(move |volume| volume.stage == stage);
        let order = in_stage(VolumeStage::TimedOut).map(|volume| volume.order).min()?;
        let is_over = self.pods.iter().all(|track| track.order() > order)
            && in_stage(VolumeStage::Detaching).next().is_none();
        let fails = is_over && self.awaits_volumes(now, policy);
        fails.then(|| Failure::Volumes(self.named(in_stage(VolumeStage::TimedOut))))
    }

    /// Text for each volume: name, claim, driver, and what holds it.
    fn named<'a>(&self, volumes: impl Iterator<Item = &'a VolumeTrack>) -> Vec<String> {
        let Some(snapshot) = &self.snapshot else {
            return Vec::new();
        };
        let index = StorageIndex::of(snapshot);
        volumes.map(|volume| format!("{} ({})", volume.named(), volume.obstacle(&index))).collect()
    }
}
