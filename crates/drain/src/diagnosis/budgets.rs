//! Hints from the numbers of a budget.

use std::time::Duration;

use super::Guard;
use crate::findings::Findings;
use crate::view::{Amount, BudgetView, Controller, Demand, PodView};

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
pub(super) fn hint(guards: &[Guard], pod: &PodView, findings: &Findings) -> String {
    let mut hints: Vec<String> = guards.iter().map(|guard| of_budget(guard, pod, findings)).collect();
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

/// What a person has to do with a budget.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Todo {
    Wait,
    Look,
    Change,
}

/// Why a budget refuses.
struct Advice {
    trouble: String,
    /// Empty if the trouble says it.
    remedy: String,
    todo: Todo,
}

impl Advice {
    fn new(trouble: String, remedy: impl Into<String>, todo: Todo) -> Self {
        Self { trouble, remedy: remedy.into(), todo }
    }
}

/// Hint about one budget, and the command that shows or changes it, unless waiting is enough.
fn of_budget(guard: &Guard, pod: &PodView, findings: &Findings) -> String {
    let BudgetView { namespace, name, sync_failure, keeper, .. } = &guard.budget;
    let Advice { trouble, remedy, todo } = advice(guard, pod, findings);
    let text = if remedy.is_empty() { trouble.clone() } else { format!("{trouble}: {remedy}") };
    let verb = match (todo, keeper) {
        (Todo::Wait, _) => return text,
        (Todo::Look, None) => "describe",
        (Todo::Change, None) => "edit",
        (Todo::Look, Some(keeper)) => return format!("{text}; it {}", kept(namespace, keeper)),
        (Todo::Change, Some(keeper)) if sync_failure.is_empty() => {
            return format!("budget {namespace}/{name} {}", kept(namespace, keeper));
        }
        (Todo::Change, Some(keeper)) => return format!("{trouble}; it {}", kept(namespace, keeper)),
    };
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

/// What the budget's spec and status (`kubectl get pdb` shows them) say.
fn advice(guard: &Guard, pod: &PodView, findings: &Findings) -> Advice {
    let budget = &guard.budget;
    let name = format!("budget {}/{}", budget.namespace, budget.name);
    let (allowed, demand) = (budget.disruptions_allowed, budget.demand);
    if !budget.sync_failure.is_empty() {
        // An integer minAvailable needs no controller of the pods, so something else fails.
        let is_counted = matches!(demand, Some(Demand::MinAvailable(Amount::Count(_))));
        let remedy = if is_counted {
            "look at kube-controller-manager"
        } else {
            "use an integer minAvailable, or give the kind of its pods' owner a scale subresource"
        };
        Advice::new(format!("{name} cannot be worked out: {}", budget.sync_failure), remedy, Todo::Change)
    } else if budget.never_observed {
        let trouble = format!("no controller has ever looked at {name}");
        Advice::new(trouble, "look at kube-controller-manager", Todo::Look)
    } else if budget.status_lags {
        let trouble = format!("the status of {name} is not up to date");
        Advice::new(trouble, "look at kube-controller-manager", Todo::Look)
    } else if allowed > 0 {
        let trouble = format!("{name} allows {allowed} disruptions now");
        Advice::new(trouble, "the eviction is tried again", Todo::Wait)
    } else if let Some(demand) = demand.filter(|demand| is_never_met(*demand)) {
        Advice::new(
            format!("{name} never allows a disruption ({demand}), and scaling up does not help"),
            format!(
                "change it, or delete it for the time of the drain (kubectl -n {} delete pdb {})",
                budget.namespace, budget.name
            ),
            Todo::Change,
        )
    } else if let Some(demand) = demand.filter(|demand| counts_nothing(budget, *demand)) {
        let trouble = format!(
            "{name} never allows a disruption ({demand}): it counts the pods that controllers want, and its pods have \
             no controller"
        );
        Advice::new(trouble, "use an integer minAvailable", Todo::Change)
    } else {
        by_numbers(guard, &name, pod, findings)
    }
}

/// What the numbers of a budget say that could allow a disruption.
fn by_numbers(guard: &Guard, name: &str, pod: &PodView, findings: &Findings) -> Advice {
    let budget = &guard.budget;
    let missing = budget.desired_healthy - budget.current_healthy;
    let is_short = missing > 0 || budget.desired_healthy == 0;
    let is_settled = budget.expected_pods > 0 && budget.disrupted_pods.is_empty();
    let enough = enough(budget).filter(|enough| is_settled && budget.expected_pods < *enough);
    let lacks = || {
        let lacks = if missing > 0 {
            format!("lacks {missing} healthy pods")
        } else {
            "counts no healthy pod".into()
        };
        format!("{lacks}{}", unhealthy(guard, findings))
    };
    if is_short && !pod.ready && !budget.lets_unready_go {
        let remedy =
            "the pod itself is not Ready: with unhealthyPodEvictionPolicy: AlwaysAllow the budget lets it go";
        Advice::new(format!("{name} {}", lacks()), remedy, Todo::Change)
    } else if let Some(enough) = enough {
        let is_crashed = budget.current_healthy < budget.expected_pods;
        let also = if is_crashed { format!(" and {}", lacks()) } else { String::new() };
        let remedy = format!("{}, or change the budget", more_pods(pod, enough));
        Advice::new(format!("{name} never allows a disruption{also}"), remedy, Todo::Change)
    } else if is_short {
        Advice::new(format!("{name} {}", lacks()), "", Todo::Look)
    } else if !budget.disrupted_pods.is_empty() {
        let pods = budget.disrupted_pods.join(", ");
        let remedy = "the next one follows when that is over, after 2 minutes at most";
        Advice::new(format!("{name} has just allowed the eviction of {pods}"), remedy, Todo::Wait)
    } else {
        let trouble = format!("{name} is used up");
        Advice::new(trouble, "a replacement has to become Ready first", Todo::Look)
    }
}

/// True if the demand leaves no pod to disrupt, however many there are.
fn is_never_met(demand: Demand) -> bool {
    match demand {
        Demand::MinAvailable(Amount::Percent(percent)) => percent >= 100,
        Demand::MinAvailable(Amount::Count(_)) => false,
        Demand::MaxUnavailable(Amount::Count(most) | Amount::Percent(most)) => most <= 0,
    }
}

/// True if the disruption controller needs the pods' controllers to work the demand out, and has found none.
fn counts_nothing(budget: &BudgetView, demand: Demand) -> bool {
    budget.expected_pods == 0 && !matches!(demand, Demand::MinAvailable(Amount::Count(_)))
}

/// Number of pods from which on the budget allows a disruption if all are healthy, as far as its spec tells.
fn enough(budget: &BudgetView) -> Option<i32> {
    match budget.demand {
        Some(Demand::MinAvailable(Amount::Count(least))) => Some(least.saturating_add(1)),
        // Two pods for 50%, a hundred for 99%: the controller rounds up.
        Some(Demand::MinAvailable(Amount::Percent(percent))) => Some(99 / (100 - percent.clamp(0, 99)) + 1),
        Some(Demand::MaxUnavailable(_)) => None,
        None => is_misconfigured(budget).then_some(budget.desired_healthy.saturating_add(1)),
    }
}

/// How a workload gets so many pods; a pod without a controller can only be deleted.
fn more_pods(pod: &PodView, enough: i32) -> String {
    match &pod.controller {
        None => "no controller makes more pods of this kind: delete the pod by hand".to_owned(),
        Some(owner) if !owner.has_scale() => format!("have {owner} run {enough} pods"),
        Some(owner) if owner.kind == "ReplicaSet" => {
            format!("scale {owner}, or the Deployment that made it, up to {enough}")
        }
        Some(owner) => format!("scale {owner} up to {enough}"),
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
