//! Whether there is more to do in an attempt, and why it has failed.

use crate::outcome::Failure;
use crate::pod::{Stage, Track};
use crate::policy::Policy;
use crate::time::Moment;
use crate::volumes::{StorageIndex, VolumeStage, VolumeTrack};

use super::Attempt;

impl Attempt {
    /// Pods have to leave, or volumes of those that have left are still attached.
    pub(crate) fn has_more_to_do(&self, now: Moment, policy: &Policy) -> bool {
        self.has_pods_left() || self.awaits_volumes(now, policy)
    }

    /// Any pod that is known has to leave.
    pub fn has_pods_left(&self) -> bool {
        !self.pods().is_empty()
    }

    /// Volumes are being detached. With grace 0 they are not waited for.
    fn awaits_volumes(&self, now: Moment, policy: &Policy) -> bool {
        !self.is_forced(now, policy) && self.volumes.iter().any(|volume| volume.is_awaited(policy))
    }

    /// Pods may be told to go: the node is there and was seen cordoned, and what is known is not old. Where the watch says
    /// that the node is gone, only a relist may believe that.
    pub(crate) fn may_act(&self) -> bool {
        let is_seen = self.snapshot.as_ref().is_some_and(|snapshot| snapshot.node.is_some());
        is_seen && !self.is_away() && self.seen_cordoned && !self.relists.is_owed()
    }

    /// A clean relist proves less: pods came during the drain or may come back, so a second one has to follow.
    pub(crate) fn needs_second_proof(&self) -> bool {
        self.arrivals
    }

    /// Why the attempt has failed, if it has. A deadline is never success, whatever else is true.
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
        self.blind(now, policy)
            .or_else(|| self.relists_failed(now, policy))
            .or_else(|| self.volumes_failed(now, policy))
    }

    /// The reason when the deadline has passed: pods are left, else volumes, else only the proof is missing.
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
            "nothing has been seen of the node yet"
        } else {
            "no fresh look has shown it yet"
        };
        let why = self.wait_reason().unwrap_or_else(|| nothing.to_owned());
        Failure::Unproven(format!("the time is over; {why}{}", since.unwrap_or_default()))
    }

    /// Nothing that is left can move: all pods of the lowest order are refused for good, and the others wait for them. With
    /// grace 0 no pod waits for an order.
    fn is_stuck(&self, now: Moment, policy: &Policy) -> bool {
        let lowest = self.pods.iter().map(Track::order).min();
        let is_forced = self.is_forced(now, policy);
        let mut first = self.pods.iter().filter(|track| is_forced || Some(track.order()) == lowest);
        lowest.is_some() && first.all(Track::is_immovable)
    }

    /// A drain that cannot prove its end does not begin to move pods.
    fn blind(&self, now: Moment, policy: &Policy) -> Option<Failure> {
        let why = self.volumes.blind().filter(|_| self.must_see(now, policy))?;
        Some(Failure::Blind(why.to_owned()))
    }

    /// Relists tell nothing, and the attempt cannot go on without.
    fn relists_failed(&self, now: Moment, policy: &Policy) -> Option<Failure> {
        let why = self.relists.error()?.to_owned();
        if self.refusal_fails_at(now, policy).is_some_and(|at| at <= now) {
            return Some(Failure::Blind(why));
        }
        self.vain_fails_at().filter(|at| *at <= now).map(|_| Failure::Unproven(why))
    }

    /// When the attempt fails if its relists go on to tell nothing.
    pub(super) fn fails_in_vain_at(&self, now: Moment, policy: &Policy) -> Option<Moment> {
        [self.refusal_fails_at(now, policy), self.vain_fails_at()].into_iter().flatten().min()
    }

    fn refusal_fails_at(&self, now: Moment, policy: &Policy) -> Option<Moment> {
        self.relists.refusal_counts().filter(|_| self.must_see(now, policy))
    }

    fn vain_fails_at(&self) -> Option<Moment> {
        let nothing_goes_on =
            self.snapshot.is_none() || self.pods.iter().all(|track| track.volumes_unknown().is_some());
        self.relists.vain_counts().filter(|_| nothing_goes_on)
    }

    /// Volumes were not detached in time, and no pod is left that could leave before them.
    fn volumes_failed(&self, now: Moment, policy: &Policy) -> Option<Failure> {
        let in_stage = |stage| self.volumes.iter().filter(move |volume| volume.stage == stage);
        let order = in_stage(VolumeStage::TimedOut).map(|volume| volume.order).min()?;
        let is_over = self.pods.iter().all(|track| track.order() > order)
            && in_stage(VolumeStage::Detaching).next().is_none();
        let fails = is_over && self.awaits_volumes(now, policy);
        fails.then(|| Failure::Volumes(self.named(in_stage(VolumeStage::TimedOut))))
    }

    /// The volumes in words: name, claim, driver, and what holds each.
    fn named<'a>(&self, volumes: impl Iterator<Item = &'a VolumeTrack>) -> Vec<String> {
        let Some(snapshot) = &self.snapshot else {
            return Vec::new();
        };
        let index = StorageIndex::of(snapshot);
        volumes.map(|volume| format!("{} ({})", volume.named(), volume.obstacle(&index))).collect()
    }
}
