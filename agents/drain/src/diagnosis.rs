//! Why a pod does not leave, and what a person can do about it.

use crate::budget::guarding;
use crate::plan::Planned;
use crate::progress::is_blocked;
use crate::state::{Attempt, Cause, Stage, Track};
use crate::view::{BudgetView, Picture, PodId, PodView};

/// One pod that is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Which pod.
    pub pod: PodId,
    /// Who or what blocks it, in one sentence.
    pub cause: String,
    /// The budgets that guard it.
    pub budgets: Vec<BudgetView>,
    /// What a person can do.
    pub hint: String,
}

/// Every blocked pod of the attempt, in the order of the last picture.
pub fn blocked(attempt: &Attempt) -> Vec<Blocked> {
    let Some(picture) = &attempt.picture else { return Vec::new() };
    picture
        .pods
        .iter()
        .zip(&attempt.planned)
        .filter_map(|(pod, planned)| one(attempt, picture, pod, planned))
        .collect()
}

fn one(attempt: &Attempt, picture: &Picture, pod: &PodView, planned: &Planned) -> Option<Blocked> {
    let track = attempt.pods.get(&pod.id.uid).filter(|track| is_blocked(&track.stage))?;
    let budgets: Vec<BudgetView> = guarding(pod, &picture.budgets).cloned().collect();
    let (cause, hint) = cause(track, planned, &budgets);
    Some(Blocked { pod: pod.id.clone(), cause, budgets, hint })
}

fn cause(track: &Track, planned: &Planned, budgets: &[BudgetView]) -> (String, String) {
    match &track.stage {
        Stage::Blocked { cause: Cause::Budget(text), .. } => {
            (format!("PodDisruptionBudget: {text}"), of_budgets(budgets))
        }
        Stage::Blocked { cause: Cause::TwoBudgets, .. } => {
            let names: Vec<&str> = budgets.iter().map(|budget| budget.name.as_str()).collect();
            let hint =
                format!("change the selectors so that only one of {} selects this pod", names.join(", "));
            (
                "more than one PodDisruptionBudget selects the pod, which the eviction API does not support"
                    .to_owned(),
                hint,
            )
        }
        Stage::Blocked { cause: Cause::Webhook(text), .. } => (
            format!("admission webhook: {text}"),
            "ask the owner of the webhook; the eviction is tried again".to_owned(),
        ),
        Stage::Refused => {
            let reasons: Vec<String> = planned.reasons.iter().map(ToString::to_string).collect();
            (
                format!("the policy does not allow its eviction: {}", reasons.join("; ")),
                "allow it in the settings pods.*".to_owned(),
            )
        }
        Stage::Final { text } => (text.clone(), "mend the cause; the next attempt tries again".to_owned()),
        Stage::Waiting
        | Stage::Sent
        | Stage::Paused { .. }
        | Stage::Accepted
        | Stage::Terminating
        | Stage::Awaiting => (String::new(), String::new()),
    }
}

fn of_budgets(budgets: &[BudgetView]) -> String {
    let hints: Vec<String> = budgets.iter().map(of_budget).collect();
    if hints.is_empty() {
        "look at the PodDisruptionBudgets of the namespace".to_owned()
    } else {
        hints.join("; ")
    }
}

/// What to do about one budget, by its numbers (`kubectl get pdb` shows the same).
fn of_budget(budget: &BudgetView) -> String {
    let BudgetView {
        namespace,
        name,
        expected_pods,
        current_healthy,
        desired_healthy,
        disruptions_allowed,
        ..
    } = budget;
    if budget.status_lags {
        format!("the status of budget {namespace}/{name} is not up to date: look at kube-controller-manager")
    } else if *disruptions_allowed > 0 {
        format!(
            "budget {namespace}/{name} allows {disruptions_allowed} disruptions now: the eviction is tried again"
        )
    } else if *expected_pods == 0 && *current_healthy > 0 {
        format!(
            "budget {namespace}/{name} uses maxUnavailable over pods without a controller, which never allows an \
             eviction: use minAvailable"
        )
    } else if current_healthy < desired_healthy {
        let missing = desired_healthy - current_healthy;
        format!("budget {namespace}/{name} lacks {missing} healthy pods: find out why they are not Ready")
    } else if *desired_healthy == 0 {
        format!("budget {namespace}/{name} counts no healthy pod: find out why its pods are not Ready")
    } else if expected_pods <= desired_healthy {
        format!(
            "budget {namespace}/{name} never allows a disruption: scale the workload up, or change the budget"
        )
    } else {
        format!("budget {namespace}/{name} is used up: a replacement has to become Ready first")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_for_each_kind_of_budget() {
        let budget = |expected_pods, current_healthy, desired_healthy, disruptions_allowed| BudgetView {
            namespace: "a".into(),
            name: "b".into(),
            expected_pods,
            current_healthy,
            desired_healthy,
            disruptions_allowed,
            ..BudgetView::default()
        };
        let cases = [
            (BudgetView { status_lags: true, ..budget(3, 3, 2, 1) }, "not up to date"),
            (budget(3, 3, 2, 1), "allows 1 disruptions now"),
            (budget(0, 1, 1, 0), "use minAvailable"),
            (budget(3, 1, 2, 0), "lacks 1 healthy pods"),
            (budget(3, 0, 0, 0), "counts no healthy pod"),
            (budget(3, 3, 3, 0), "never allows a disruption"),
            (budget(4, 3, 3, 0), "a replacement has to become Ready"),
        ];
        for (budget, expected) in cases {
            assert!(of_budget(&budget).contains(expected), "{budget:?}: {}", of_budget(&budget));
        }
    }
}
