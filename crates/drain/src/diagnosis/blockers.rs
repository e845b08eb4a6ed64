//! Troubles instead of pods: a budget that holds thirty pods is one line, not thirty.

use super::{Blocked, BlockedBy};
use crate::view::PodId;

/// One trouble that keeps pods on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocker {
    /// The trouble, without the name of a pod: `budget shop/db: 3 of 3 healthy, needs 3`.
    pub what: String,
    /// What a person can do; empty if nothing is known.
    pub hint: String,
    /// Kind of the trouble.
    pub by: BlockedBy,
    /// The pods that it keeps, in the order of the last snapshot; at least one.
    pub pods: Vec<PodId>,
}

/// The troubles of all blocked pods: the one with the most pods first, equal ones in the order of their first pods.
pub fn blockers(blocked: &[Blocked]) -> Vec<Blocker> {
    let mut all: Vec<(String, Blocker)> = Vec::new();
    for one in blocked {
        let (what, hint) = (one.trouble(), &one.hint);
        let sign = without_numbers(&what);
        match all.iter_mut().find(|(known, blocker)| *known == sign && blocker.hint == *hint) {
            Some((_, blocker)) => blocker.pods.push(one.pod.clone()),
            None => all
                .push((sign, Blocker { what, hint: hint.clone(), by: one.by, pods: vec![one.pod.clone()] })),
        }
    }
    all.sort_by_key(|(_, blocker)| std::cmp::Reverse(blocker.pods.len()));
    all.into_iter().map(|(_, blocker)| blocker).collect()
}

/// A trouble without its numbers. It tells whether two troubles are the same: pods that are stuck for different times have
/// the same one, and so has a pod whose budget counts other pods than before.
pub fn without_numbers(trouble: &str) -> String {
    trouble.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

impl Blocked {
    /// The trouble, without the name of the pod: the numbers of a budget that refuses, otherwise the cause.
    pub fn trouble(&self) -> String {
        let what = match self.budgets.as_slice() {
            [guard] if self.by == BlockedBy::Budget => {
                let budget = &guard.budget;
                let keeper = budget.keeper.as_ref();
                let kept = keeper.map(|keeper| format!(", kept by {} {}", keeper.kind, keeper.name));
                format!(
                    "budget {}/{}: {} of {} healthy, needs {}{}",
                    budget.namespace,
                    budget.name,
                    budget.current_healthy,
                    budget.expected_pods,
                    budget.desired_healthy,
                    kept.unwrap_or_default()
                )
            }
            _ => self.cause.clone(),
        };
        // The cause of a pod that returns names its owner already.
        if self.holder.is_empty() || self.by == BlockedBy::Recreated {
            what
        } else {
            format!("{what}; behind it is {}", self.holder)
        }
    }
}
