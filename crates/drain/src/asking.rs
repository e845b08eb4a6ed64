//! Which questions are asked about pods that do not leave, and when.
//!
//! None as long as all goes well: a budget that lets the pods go one by one within seconds is not worth a call.

use std::time::Duration;

use crate::budget::guarding;
use crate::findings::{BudgetQuery, Inquiry, MOST_BUDGETS, MOST_MACHINES, MachineQuery};
use crate::state::{Attempt, Stage};
use crate::time::Moment;
use crate::view::{Picture, PodView};

/// A pod is asked about when it has been refused for so long.
const AFTER: Duration = Duration::from_secs(10);

/// Questions are asked at most this often.
const EVERY: Duration = Duration::from_secs(30);

/// Label by which Longhorn marks the pods that serve a node's volumes.
const LONGHORN_COMPONENT: (&str, &str) = ("longhorn.io/component", "instance-manager");

/// The questions that are due.
pub(crate) fn due(attempt: &Attempt, now: Moment) -> Option<Inquiry> {
    let picture = attempt.picture.as_ref()?;
    let inquiry = (next(attempt)? <= now).then(|| inquiry(attempt, picture))?;
    (inquiry != Inquiry::default()).then_some(inquiry)
}

/// When the next questions are due.
pub(crate) fn next(attempt: &Attempt) -> Option<Moment> {
    let since = attempt.pods.values().filter(|track| is_refused(&track.stage));
    let first = since.filter_map(|track| track.refused_since).min()? + AFTER;
    Some(attempt.asked.map_or(first, |asked| first.max(asked + EVERY)))
}

fn is_refused(stage: &Stage) -> bool {
    matches!(stage, Stage::Blocked { .. })
}

fn inquiry(attempt: &Attempt, picture: &Picture) -> Inquiry {
    let mut inquiry = Inquiry::default();
    let is_refused =
        |pod: &&PodView| attempt.pods.get(&pod.id.uid).is_some_and(|track| is_refused(&track.stage));
    for pod in picture.pods.iter().filter(is_refused) {
        add(&mut inquiry, pod, picture);
    }
    inquiry
}

fn add(inquiry: &mut Inquiry, pod: &PodView, picture: &Picture) {
    for budget in guarding(pod, &picture.budgets) {
        inquiry.controller_manager = true;
        let known = |query: &BudgetQuery| query.namespace == budget.namespace && query.name == budget.name;
        if let Some(selector) = &budget.selector
            && inquiry.budgets.len() < MOST_BUDGETS
            && !inquiry.budgets.iter().any(known)
        {
            inquiry.budgets.push(BudgetQuery {
                namespace: budget.namespace.clone(),
                name: budget.name.clone(),
                selector: selector.clone(),
            });
        }
    }
    if let Some(machine) = machine(pod)
        && inquiry.machines.len() < MOST_MACHINES
    {
        inquiry.machines.push(machine);
    }
    if is_instance_manager(pod) {
        inquiry.longhorn = Some(pod.id.namespace.clone());
    }
}

/// The virtual machine that the pod runs: KubeVirt's launcher pods are controlled by it.
pub(crate) fn machine(pod: &PodView) -> Option<MachineQuery> {
    let owner = pod.controller.as_ref()?;
    let is_machine = owner.kind == "VirtualMachineInstance" && owner.api_version.starts_with("kubevirt.io/");
    is_machine.then(|| MachineQuery {
        pod: pod.id.uid.clone(),
        namespace: pod.id.namespace.clone(),
        name: owner.name.clone(),
    })
}

/// The pod serves this node's Longhorn volumes.
pub(crate) fn is_instance_manager(pod: &PodView) -> bool {
    let (label, value) = LONGHORN_COMPONENT;
    pod.labels.get(label).is_some_and(|found| found == value)
}

#[cfg(test)]
mod tests;
