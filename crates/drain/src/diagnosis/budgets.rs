//! Hints from the numbers of a budget.

use std::time::Duration;

use super::Guard;
use crate::findings::Findings;
use crate::view::{BudgetView, Controller};

/// A leader renews its lease every few seconds; after this time without a renewal it is dead or cut off.
const SILENT: Duration = Duration::from_mins(1);

/// What the known systems do that keep a budget for a workload of theirs, by API group. Nothing is decided by it.
const KEEPERS: [(&str, &str); 5] = [
    ("postgresql.cnpg.io", "it moves its primary by itself"),
    ("ceph.rook.io", "it lets one failure domain go at a time, and the next one when Ceph is healthy again"),
    ("core.strimzi.io", "its Drain Cleaner restarts the pods elsewhere, one after another"),
    ("kubevirt.io", "it migrates the virtual machine"),
    ("longhorn.io", "it moves replicas away first"),
];

/// Hint about all budgets of a refused pod.
pub(super) fn hint(guards: &[Guard], findings: &Findings) -> String {
    let mut hints: Vec<String> = guards.iter().map(|guard| with_command(guard, findings)).collect();
    if hints.is_empty() {
        hints.push("look at the PodDisruptionBudgets of the namespace".to_owned());
    }
    if let Some(lease) = findings.controller_manager.as_ref().filter(|lease| lease.silent >= SILENT) {
        hints.push(format!(
            "kube-controller-manager has been silent for {} s (its leader was {}), and without it no budget ever allows \
             anything: look at it first",
            lease.silent.as_secs(),
            lease.holder
        ));
    }
    hints.join("; ")
}

/// True if all pods of the budget are healthy and yet it allows no disruption, so that waiting alone does not help
/// (MCM's test for a misconfigured budget).
pub(super) fn is_misconfigured(budget: &BudgetView) -> bool {
    !budget.status_lags
        && budget.expected_pods > 0
        && budget.current_healthy >= budget.expected_pods
        && budget.disruptions_allowed == 0
        && budget.disrupted_pods.is_empty()
}

/// Hint about one budget, and the command that shows or changes it, unless waiting is enough.
fn with_command(guard: &Guard, findings: &Findings) -> String {
    let BudgetView { namespace, name, .. } = &guard.budget;
    let text = of_budget(guard, findings);
    if guard.budget.disruptions_allowed > 0 || is_between_evictions(&guard.budget) {
        return text;
    }
    if let Some(keeper) = &guard.budget.keeper {
        let is_short = guard.budget.current_healthy < guard.budget.desired_healthy;
        let text = if is_short { format!("{text}; it") } else { format!("budget {namespace}/{name}") };
        return format!("{text} {}", kept(namespace, keeper));
    }
    let verb = if is_never_enough(&guard.budget) { "edit" } else { "describe" };
    format!("{text}: kubectl -n {namespace} {verb} pdb {name}")
}

/// That somebody keeps the budget as it is, and the command that shows who.
fn kept(namespace: &str, keeper: &Controller) -> String {
    let Controller { kind, name, .. } = keeper;
    let group = keeper.api_version.rsplit_once('/').map(|(group, _)| group).unwrap_or_default();
    let does =
        KEEPERS.iter().find(|(known, _)| *known == group).map_or("look what it waits for", |(_, does)| does);
    let dot = if group.is_empty() { "" } else { "." };
    format!(
        "is kept by {kind} {name}: {does}; a change of the budget does not last: kubectl -n {namespace} describe \
         {}{dot}{group} {name}",
        kind.to_lowercase()
    )
}

/// True if the budget has just allowed an eviction, and allows the next one soon.
fn is_between_evictions(budget: &BudgetView) -> bool {
    !budget.disrupted_pods.is_empty() && budget.current_healthy >= budget.desired_healthy
}

/// True if all its pods are healthy, and it needs every one of them.
fn is_never_enough(budget: &BudgetView) -> bool {
    is_misconfigured(budget) && budget.expected_pods <= budget.desired_healthy
}

/// Hint about one budget, from its numbers (`kubectl get pdb` shows the same).
fn of_budget(guard: &Guard, findings: &Findings) -> String {
    let budget = &guard.budget;
    let name = format!("budget {}/{}", budget.namespace, budget.name);
    let allowed = budget.disruptions_allowed;
    let missing = budget.desired_healthy - budget.current_healthy;
    if budget.never_observed {
        format!("no controller has ever looked at {name}: look at kube-controller-manager")
    } else if budget.status_lags {
        format!("the status of {name} is not up to date: look at kube-controller-manager")
    } else if !budget.sync_failure.is_empty() {
        format!("{name} cannot be worked out: {}", budget.sync_failure)
    } else if allowed > 0 {
        format!("{name} allows {allowed} disruptions now: the eviction is tried again")
    } else if budget.expected_pods == 0 && budget.max_unavailable {
        format!(
            "{name} uses maxUnavailable over pods without a controller, which never allows an eviction: use \
             minAvailable"
        )
    } else if missing > 0 {
        format!("{name} lacks {missing} healthy pods{}", unhealthy(guard, findings))
    } else if budget.desired_healthy == 0 {
        format!("{name} counts no healthy pod{}", unhealthy(guard, findings))
    } else if !budget.disrupted_pods.is_empty() {
        format!(
            "{name} has just allowed the eviction of {}: the next one follows when that is over, after 2 minutes at most",
            budget.disrupted_pods.join(", ")
        )
    } else if is_never_enough(budget) {
        format!("{name} never allows a disruption: scale the workload up, or change the budget")
    } else {
        format!("{name} is used up: a replacement has to become Ready first")
    }
}

fn unhealthy(guard: &Guard, findings: &Findings) -> String {
    if !guard.unhealthy.is_empty() {
        return format!(", not Ready are {}", guard.unhealthy.join(", "));
    }
    match findings.trouble.first() {
        Some(trouble) => format!(": find out why they are not Ready ({trouble})"),
        None => ": find out why its pods are not Ready".to_owned(),
    }
}
