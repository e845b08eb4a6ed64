//! Evictions and deletions of a pod: when they are due, and in which form.

use std::time::Duration;

use crate::budget::fingerprint;
use crate::event::Effect;
use crate::policy::Policy;
use crate::retry::SHORTEST_RETRY;
use crate::time::Moment;
use crate::view::{BudgetView, PodView};

use super::{DeletionMethod, LastSent, Stage, Track};

impl Track {
    /// Changes the pod from eviction to deletion, because evictions do not work or are not wanted.
    pub(crate) fn give_up_evictions(&mut self) {
        if self.by == DeletionMethod::Eviction {
            self.by = DeletionMethod::Deletion;
        }
    }

    /// True if the pod may be evicted now, as far as its own state tells.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        let is_time = self.stage == Stage::Waiting || self.stage.next().is_some_and(|next| next <= now);
        is_time && self.volumes_unknown.is_none()
    }

    /// Sends the eviction or deletion.
    pub(crate) fn send(
        &mut self,
        attempt: u32,
        pod: &PodView,
        budgets: &[BudgetView],
        now: Moment,
    ) -> Effect {
        let budgets = fingerprint(pod, budgets);
        self.last_sent = Some(LastSent { budgets, phase: pod.phase, ready: pod.ready });
        self.sent(attempt, now)
    }

    /// True if a shorter grace period must be sent for the terminating pod now; repeated after a while, since the
    /// request may have been lost.
    pub(crate) fn is_shortening_due(&self, now: Moment, policy: &Policy) -> bool {
        let is_time = if self.stage == Stage::Terminating {
            is_long_ago(self.shortened, policy.retry.max(SHORTEST_RETRY), now)
        } else {
            matches!(self.stage, Stage::Paused { next, .. } if next <= now)
        };
        self.shortens && is_time
    }

    /// Sends the policy's grace period, which is shorter than the pod's present one.
    pub(crate) fn shorten(&mut self, attempt: u32, now: Moment) -> Effect {
        self.shortened = Some(now);
        self.sent(attempt, now)
    }

    /// True if the pod must be deleted with grace period 0 now. A pod that is terminating already is deleted again
    /// after a while, since the answer may have been lost.
    pub(crate) fn is_kill_due(&self, now: Moment, policy: &Policy) -> bool {
        match &self.stage {
            Stage::Waiting | Stage::Blocked { .. } => true,
            Stage::Awaiting | Stage::Accepted | Stage::Terminating => {
                is_long_ago(self.killed, policy.retry, now)
            }
            Stage::Paused { next, .. } => *next <= now,
            Stage::Evicting | Stage::Refused | Stage::Failed { .. } => false,
        }
    }

    /// Deletes the pod with grace period 0.
    pub(crate) fn kill(&mut self, attempt: u32, now: Moment) -> Effect {
        self.killed = Some(now);
        self.mark_sent(now);
        Effect::Delete { attempt, pod: self.id.clone(), grace: Some(Duration::ZERO) }
    }

    /// The eviction was refused for too long: delete the pod from now on, with its own grace period.
    pub(crate) fn escalate(&mut self, now: Moment) {
        self.by = DeletionMethod::Escalation;
        self.escalated_at(now);
        self.enter(Stage::Waiting, now);
    }

    /// The API server was away. A deletion that it has not taken is an eviction again: the pod's budgets may have room now.
    pub(crate) fn take_back_escalation(&mut self) {
        if self.by == DeletionMethod::Escalation && !self.is_escalation_taken {
            (self.by, self.escalated) = (DeletionMethod::Eviction, None);
        }
    }

    /// The server has taken a deletion of the pod. True if it is the first one since its eviction was refused for too long.
    pub(crate) fn takes_escalation(&mut self) -> bool {
        self.escalated.is_some() && !std::mem::replace(&mut self.is_escalation_taken, true)
    }

    /// From this time on the budget's other pods wait until this one has ended.
    pub(crate) fn escalated_at(&mut self, now: Moment) {
        self.escalated = Some(now);
    }

    fn mark_sent(&mut self, now: Moment) {
        self.enter(Stage::Evicting, now);
        self.tries = self.tries.saturating_add(1);
    }

    fn sent(&mut self, attempt: u32, now: Moment) -> Effect {
        self.mark_sent(now);
        let (pod, grace) = (self.id.clone(), self.grace_sent);
        match self.by {
            DeletionMethod::Eviction => Effect::Evict { attempt, pod, grace },
            DeletionMethod::Deletion | DeletionMethod::Escalation => Effect::Delete { attempt, pod, grace },
        }
    }
}

fn is_long_ago(last: Option<Moment>, retry: Duration, now: Moment) -> bool {
    last.is_none_or(|last| last + retry <= now)
}
