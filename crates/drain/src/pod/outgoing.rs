//! When a pod is told to go, and how.

use std::time::Duration;

use crate::budget::fingerprint;
use crate::event::Effect;
use crate::policy::Policy;
use crate::retry::SHORTEST_RETRY;
use crate::time::Moment;
use crate::view::{BudgetView, PodView};

use super::{DeletionMethod, SentUnder, Stage, Track};

impl Track {
    /// Evictions do not work, or are not wanted.
    pub(crate) fn give_up_evictions(&mut self) {
        if self.by == DeletionMethod::Eviction {
            self.by = DeletionMethod::Deletion;
        }
    }

    /// The pod may be told to go now, as far as it alone is concerned.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        let is_time = self.stage == Stage::Waiting || self.stage.next().is_some_and(|next| next <= now);
        is_time && self.volumes_unknown.is_none()
    }

    /// Tells the pod to go.
    pub(crate) fn send(
        &mut self,
        attempt: u32,
        pod: &PodView,
        budgets: &[BudgetView],
        now: Moment,
    ) -> Effect {
        let budgets = fingerprint(pod, budgets);
        self.sent_under = Some(SentUnder { budgets, phase: pod.phase, ready: pod.ready });
        self.sent(attempt, now)
    }

    /// A terminating pod is to be asked for a shorter grace now; again after a while, since the request may have been
    /// lost.
    pub(crate) fn is_shortening_due(&self, now: Moment, policy: &Policy) -> bool {
        let is_time = if self.stage == Stage::Terminating {
            is_long_ago(self.shortened, policy.retry.max(SHORTEST_RETRY), now)
        } else {
            matches!(self.stage, Stage::Paused { next, .. } if next <= now)
        };
        self.shortens && is_time
    }

    /// Asks for the policy's grace in place of the longer one that the pod has.
    pub(crate) fn shorten(&mut self, attempt: u32, now: Moment) -> Effect {
        self.shortened = Some(now);
        self.sent(attempt, now)
    }

    /// The pod is to be deleted with grace 0 now; one that is terminating already is deleted again after a while, since
    /// the answer may have been lost.
    pub(crate) fn is_kill_due(&self, now: Moment, policy: &Policy) -> bool {
        match &self.stage {
            Stage::Waiting | Stage::Blocked { .. } => true,
            Stage::Awaiting | Stage::Accepted | Stage::Terminating => {
                is_long_ago(self.killed, policy.retry, now)
            }
            Stage::Paused { next, .. } => *next <= now,
            Stage::Sent | Stage::Refused | Stage::Final { .. } => false,
        }
    }

    /// Deletes the pod with grace 0.
    pub(crate) fn kill(&mut self, attempt: u32, now: Moment) -> Effect {
        self.killed = Some(now);
        self.mark_sent(now);
        Effect::Delete { attempt, pod: self.id.clone(), grace: Some(Duration::ZERO) }
    }

    /// The eviction was refused for too long: the pod is deleted from now on, with its own grace.
    pub(crate) fn escalate(&mut self, now: Moment) {
        self.by = DeletionMethod::Escalation;
        self.escalated = Some(now);
        self.enter(Stage::Waiting, now);
    }

    fn mark_sent(&mut self, now: Moment) {
        self.enter(Stage::Sent, now);
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
