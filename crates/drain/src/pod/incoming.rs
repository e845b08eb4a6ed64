//! Changes of a pod's stage by snapshots and answers.

use std::time::Duration;

use crate::answer::Answer;
use crate::budget::{fingerprint, would_allow};
use crate::plan::{Planned, Verdict};
use crate::policy::{Policy, REFUSAL_LASTS, REFUSAL_TIMES};
use crate::retry::{SHORTEST_RETRY, pause, retry_after, spread_out};
use crate::time::Moment;
use crate::view::{BudgetView, PodView, Terminating};

use super::{Cause, DeletionMethod, InARow, LastSent, Stage, Track};

/// Pause after a refusal because of two budgets. It is long, because they stay two until a person changes them.
const TWO_BUDGETS_RETRY: Duration = Duration::from_mins(1);

impl Track {
    /// Applies a snapshot that shows the pod, which has to leave. `is_begun`: the attempt has already sent an eviction.
    pub(crate) fn see(
        &mut self,
        planned: &Planned,
        pod: &PodView,
        budgets: &[BudgetView],
        is_begun: bool,
        now: Moment,
        policy: &Policy,
    ) {
        (self.order, self.grace_sent) = (planned.order, planned.grace);
        self.grace = planned.grace.unwrap_or(pod.grace);
        self.names_node |= pod.names_node;
        self.shortens = shortens(planned, pod);
        // If a pod that the policy does not allow to evict is terminating, it forbids only the beginning of a drain.
        let is_ending = pod.terminating.is_some() && (is_begun || planned.verdict != Verdict::Refuse);
        if is_ending {
            (self.accepted, self.refusal) = (None, None);
            self.enter(self.seen_terminating(), now);
            return;
        }
        match planned.verdict {
            Verdict::Refuse => self.enter(Stage::Refused, now),
            Verdict::Await => self.enter(Stage::Awaiting, now),
            Verdict::Evict | Verdict::Leave if self.is_freed(pod, budgets, now, policy) => {
                self.enter(Stage::Waiting, now);
            }
            Verdict::Evict | Verdict::Leave => {}
        }
    }

    /// Stage of a pod that a snapshot shows terminating. Keeps a pause after a failed request for a shorter grace
    /// period.
    fn seen_terminating(&self) -> Stage {
        if self.shortens && matches!(self.stage, Stage::Paused { .. }) {
            return self.stage.clone();
        }
        Stage::Terminating
    }

    /// True if the snapshot of a live pod gives a reason to evict it again.
    fn is_freed(&self, pod: &PodView, budgets: &[BudgetView], now: Moment, policy: &Policy) -> bool {
        match &self.stage {
            // The server has lost the eviction. But if it has answered that the pod is gone, the watch is late instead.
            Stage::Accepted if self.reported_gone => false,
            Stage::Accepted | Stage::Terminating => now.since(self.since) >= policy.retry,
            Stage::Blocked { cause: Cause::Budget(_) | Cause::TwoBudgets, .. } => {
                self.may_be_answered_otherwise(pod, budgets)
            }
            Stage::Blocked { cause: Cause::Webhook(_), .. } => self.has_changed(pod),
            Stage::Awaiting | Stage::Refused => true,
            Stage::Blocked { cause: Cause::NotDeleted | Cause::Returns { .. }, .. }
            | Stage::Waiting
            | Stage::Evicting
            | Stage::Paused { .. }
            | Stage::Failed { .. } => false,
        }
    }

    /// True if a budget of the pod was written since its last eviction and none refuses now, or if the pod has changed.
    fn may_be_answered_otherwise(&self, pod: &PodView, budgets: &[BudgetView]) -> bool {
        let is_same = |sent: &LastSent| sent.budgets == fingerprint(pod, budgets);
        let is_written = !self.last_sent.as_ref().is_some_and(is_same);
        self.has_changed(pod) || (is_written && would_allow(pod, budgets))
    }

    /// True if phase or readiness of the pod have changed since its last eviction. No budget holds a finished pod, and
    /// with `unhealthyPodEvictionPolicy: AlwaysAllow` none holds a pod that is not ready.
    fn has_changed(&self, pod: &PodView) -> bool {
        self.last_sent.as_ref().is_some_and(|sent| (sent.phase, sent.ready) != (pod.phase, pod.ready))
    }

    /// Applies the answer to the eviction or deletion in flight. True if an eviction was accepted while the pod was
    /// ready, so its budgets had room for it. `pod` and `budgets` are those of the last snapshot.
    pub(crate) fn answer(
        &mut self,
        answer: Answer,
        pod: Option<&PodView>,
        budgets: &[BudgetView],
        now: Moment,
        policy: &Policy,
    ) -> bool {
        // The pod is terminating already, or was given up: the snapshot is newer than the answer.
        if !self.is_in_flight() {
            return false;
        }
        self.denied = matches!(answer, Answer::Denied { .. }).then(|| InARow::after(self.denied, now));
        self.reported_gone = answer == Answer::Gone;
        let is_accepted = answer == Answer::Accepted && self.by == DeletionMethod::Eviction;
        let is_let_go = is_accepted && pod.is_some_and(|pod| pod.ready);
        let is_effective = self.killed.is_some() || pod.is_none_or(|pod| pod.terminating.is_some());
        self.accepted = (is_accepted && !is_effective).then(|| InARow::after(self.accepted, now));
        let is_outdated = matches!(answer, Answer::Budget(_))
            && pod.is_some_and(|pod| self.may_be_answered_otherwise(pod, budgets));
        let stage = if is_outdated {
            // The budget changed while the refusal was on its way: try again at once.
            self.refused_since.get_or_insert(now);
            Stage::Waiting
        } else {
            self.answered(answer, now, policy)
        };
        self.failures =
            if matches!(stage, Stage::Paused { .. }) { self.failures.saturating_add(1) } else { 0 };
        let is_ending = self.killed.is_none() && pod.is_some_and(|pod| pod.terminating.is_some());
        let stage = if is_ending { self.answered_terminating(stage, now, policy) } else { stage };
        if let Stage::Blocked { cause, .. } = &stage {
            self.refused_since.get_or_insert(now);
            self.refusal = Some(cause.clone());
        } else if stage == Stage::Accepted {
            let is_in_vain = self.accepted.is_some_and(|accepted| accepted.times > 1);
            (self.refused_since, self.refusal) = (None, is_in_vain.then_some(Cause::NotDeleted));
        } else if matches!(stage, Stage::Paused { .. }) {
            // The last answer counts for people; how long it has been refused counts for the escalation.
            self.refusal = None;
        }
        self.enter(stage, now);
        is_let_go
    }

    /// Stage of a live pod after the answer.
    fn answered(&mut self, answer: Answer, now: Moment, policy: &Policy) -> Stage {
        let (tries, failures, uid) = (self.tries, self.failures.saturating_add(1), self.id.uid.as_str());
        let paused = |text, after| Stage::Paused { text, next: now + pause(failures, after, uid) };
        let blocked = |cause, wait: Duration| {
            let next = now + spread_out(wait.max(SHORTEST_RETRY), tries, uid);
            Stage::Blocked { cause, next }
        };
        match answer {
            Answer::Accepted | Answer::Gone => Stage::Accepted,
            Answer::Budget(refusal) => {
                blocked(Cause::Budget(refusal.text), refusal.after.map_or(policy.retry, retry_after))
            }
            Answer::TwoBudgets => blocked(Cause::TwoBudgets, TWO_BUDGETS_RETRY),
            Answer::Webhook { text } => blocked(Cause::Webhook(text), policy.retry),
            Answer::NamespaceTerminating if self.by != DeletionMethod::Eviction => {
                paused("the namespace is being deleted".to_owned(), None)
            }
            Answer::NamespaceTerminating => {
                self.by = DeletionMethod::Deletion;
                Stage::Waiting
            }
            Answer::NoEvictions if self.by != DeletionMethod::Eviction => {
                paused("the API server does not know what was asked for".to_owned(), None)
            }
            Answer::NoEvictions => Stage::Waiting,
            Answer::NotSent => {
                self.tries = self.tries.saturating_sub(1);
                Stage::Waiting
            }
            Answer::Throttled { after, text } => paused(text, after),
            Answer::Denied { text } if self.denied.is_some_and(|denied| denied.lasts(now)) => {
                Stage::Failed { text }
            }
            Answer::Retry { text } | Answer::Denied { text } => paused(text, None),
            Answer::Rejected { text } => Stage::Failed { text },
        }
    }

    /// Stage of a terminating pod after the answer to the request for a shorter grace period. No answer fails the
    /// drain, since the pod terminates anyway. `stage` is that of a live pod.
    fn answered_terminating(&mut self, stage: Stage, now: Moment, policy: &Policy) -> Stage {
        let paused = |text| Stage::Paused { text, next: now + policy.retry.max(SHORTEST_RETRY) };
        match stage {
            Stage::Failed { text }
            | Stage::Blocked { cause: Cause::Budget(text) | Cause::Webhook(text), .. } => paused(text),
            Stage::Blocked {
                cause: Cause::TwoBudgets | Cause::NotDeleted | Cause::Returns { .. }, ..
            } => paused("the API server does not shorten its grace".to_owned()),
            // Sent again at once, as a deletion.
            Stage::Waiting => {
                self.shortened = None;
                Stage::Terminating
            }
            Stage::Evicting
            | Stage::Paused { .. }
            | Stage::Accepted
            | Stage::Terminating
            | Stage::Awaiting
            | Stage::Refused => stage,
        }
    }
}

impl InARow {
    /// True if the server has denied the call so often and for so long that it is no temporary state of the server.
    fn lasts(self, now: Moment) -> bool {
        self.times >= REFUSAL_TIMES && now.since(self.since) >= REFUSAL_LASTS
    }
}

/// True if the policy wants a shorter grace period than the terminating pod has. The server accepts only a shorter one,
/// and checks no budget then.
fn shortens(planned: &Planned, pod: &PodView) -> bool {
    // The value is sent in whole seconds, rounded up: half a second less would not be shorter.
    let is_shorter = |(grace, terminating): (Duration, Terminating)| {
        terminating.grace.checked_sub(grace).is_some_and(|less| less >= Duration::from_secs(1))
    };
    planned.verdict == Verdict::Evict && planned.grace.zip(pod.terminating).is_some_and(is_shorter)
}
