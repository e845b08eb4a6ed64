//! Budgets of a pod, and whether they would allow its eviction now.

use crate::policy::IN_FLIGHT_PER_BUDGET;
use crate::view::{BudgetView, PodId, PodView, Snapshot};

impl Snapshot {
    /// The budget that guards the pod, if the snapshot shows both. With more than one, the first: the server refuses such
    /// evictions anyway.
    pub fn budget_of(&self, pod: &PodId) -> Option<&BudgetView> {
        let pod = self.pods.iter().find(|shown| shown.id.uid == pod.uid)?;
        guarding(pod, &self.budgets).next()
    }
}

/// Budgets of the pod: same namespace, and the selector matches. A missing selector selects no pod, an empty one all
/// pods (`policy/v1`).
pub(crate) fn guarding<'a>(
    pod: &'a PodView,
    budgets: &'a [BudgetView],
) -> impl Iterator<Item = &'a BudgetView> {
    budgets.iter().filter(|budget| {
        budget.namespace == pod.id.namespace
            && budget.selector.as_ref().is_some_and(|selector| selector.selects(&pod.labels))
    })
}

/// Limit of evictions in flight under this budget: as many as it allows, at most [`IN_FLIGHT_PER_BUDGET`]. At least
/// one, because only the server knows all its rules (an unready pod may be evicted although the budget is used up), and
/// our copy of the status may be late.
pub(crate) fn in_flight_limit(budget: &BudgetView) -> usize {
    usize::try_from(budget.disruptions_allowed).unwrap_or(0).clamp(1, IN_FLIGHT_PER_BUDGET)
}

/// Names and versions of budgets. Differs as soon as one of them was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<(String, String)>);

impl Fingerprint {
    /// Names of the budgets, all of the pod's namespace.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

/// Fingerprint of all budgets of the pod.
pub(crate) fn fingerprint(pod: &PodView, budgets: &[BudgetView]) -> Fingerprint {
    Fingerprint(guarding(pod, budgets).map(|budget| (budget.name.clone(), budget.version.clone())).collect())
}

/// True if no budget of the pod refuses, as far as their status tells.
pub(crate) fn would_allow(pod: &PodView, budgets: &[BudgetView]) -> bool {
    guarding(pod, budgets).all(|budget| !budget.status_lags && budget.disruptions_allowed > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::view::PodId;
    use selector::{Requirement, Selector};

    fn pod() -> PodView {
        let id = PodId { namespace: "a".into(), name: "p".into(), uid: "1".into() };
        PodView { id, labels: BTreeMap::from([("app".to_owned(), "db".to_owned())]), ..PodView::default() }
    }

    fn budget(namespace: &str, selector: Option<Selector>) -> BudgetView {
        BudgetView { namespace: namespace.into(), selector, ..BudgetView::default() }
    }

    #[test]
    fn selectors_corner_cases() {
        let app =
            |value: &str| Selector { requirements: vec![Requirement::In("app".into(), vec![value.into()])] };
        let cases = [
            ("nil selects nothing", budget("a", None), 0),
            ("empty selects all", budget("a", Some(Selector::default())), 1),
            ("matching label", budget("a", Some(app("db"))), 1),
            ("other label", budget("a", Some(app("web"))), 0),
            ("other namespace", budget("b", Some(Selector::default())), 0),
        ];
        for (name, budget, expected) in cases {
            assert_eq!(guarding(&pod(), &[budget]).count(), expected, "{name}");
        }
    }

    #[test]
    fn allowance_needs_every_budget() {
        let open = BudgetView { disruptions_allowed: 1, ..budget("a", Some(Selector::default())) };
        let shut = BudgetView { disruptions_allowed: 0, ..open.clone() };
        let lagging = BudgetView { status_lags: true, ..open.clone() };
        let cases = [
            (vec![], true),
            (vec![open.clone()], true),
            (vec![shut.clone()], false),
            (vec![lagging], false),
            (vec![open, shut], false),
        ];
        for (budgets, expected) in cases {
            assert_eq!(would_allow(&pod(), &budgets), expected, "{budgets:?}");
        }
    }
}
