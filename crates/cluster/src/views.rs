//! Trims Pods and PodDisruptionBudgets to what decisions need.
//!
//! Every field of an object may be missing, and each case has a defined meaning. Nothing here fails or panics.

use std::time::Duration;

use drain::view::{
    Amount, BudgetView, Controller, Demand, Existence, Phase, PodClaim, PodId, PodView, Terminating,
};
use drain::{Requirement, Selector};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference,
};
use serde_json::Value;

use crate::failure::words;
use crate::objects::{Budget, BudgetSpec, Condition, MIRROR, Pod, PodStatus, PodVolume, Toleration};

/// The node controller's taint for a cordoned node.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Kubernetes' default for `terminationGracePeriodSeconds`.
const DEFAULT_GRACE: i64 = 30;

/// A pod, trimmed, and the time at which its deletion is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodFacts {
    view: PodView,
    due: Option<Timestamp>,
}

impl PodFacts {
    /// Trims the pod to what decisions need.
    pub(crate) fn of(pod: &Pod) -> Self {
        let (metadata, spec) = (&pod.metadata, pod.spec.as_ref());
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let is_bound =
            spec.is_some_and(|spec| spec.node_name.as_deref().is_some_and(|name| !name.is_empty()));
        let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let tolerations = spec.and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
        let grace = spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE);
        let view = PodView {
            id: pod_id(metadata),
            phase: phase_of(phase),
            ready: conditions.iter().any(|condition| condition.is("Ready") && condition.status() == "True"),
            names_node: is_bound && !conditions.iter().any(|condition| condition.is("PodScheduled")),
            labels: metadata.labels.clone().unwrap_or_default(),
            mirror: annotation(metadata, MIRROR).is_some(),
            controller: controller(metadata),
            empty_dir: volumes.iter().any(|volume| volume.empty_dir.is_some()),
            grace: seconds(grace),
            terminating: metadata.deletion_timestamp.as_ref().map(|_| Terminating {
                grace: seconds(metadata.deletion_grace_period_seconds.unwrap_or(grace)),
                ..Terminating::default()
            }),
            runs: status.is_some_and(runs),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
            tolerates_cordon: tolerations.iter().any(tolerates_cordon),
            claims: claims(metadata.name.as_deref().unwrap_or_default(), volumes),
        };
        Self { view, due: metadata.deletion_timestamp.as_ref().map(|time| time.0) }
    }

    /// The view at this time of the API server's clock; if the time is not known, nothing is overdue and no time is
    /// left.
    pub(crate) fn at(&self, server_time: Option<Timestamp>) -> PodView {
        let mut view = self.view.clone();
        if let (Some(terminating), Some(due), Some(now)) = (&mut view.terminating, self.due, server_time) {
            terminating.overdue = Duration::try_from(now.duration_since(due)).unwrap_or_default();
            terminating.left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
        }
        view
    }

    /// The view, with nothing overdue.
    pub(crate) fn view(&self) -> &PodView {
        &self.view
    }
}

/// True if a container runs, also one of those that run beside the others all the time (init containers).
fn runs(status: &PodStatus) -> bool {
    let mut all = status.containers.iter().chain(&status.init_containers).flatten();
    all.any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// Trims a PodDisruptionBudget to what decisions need.
pub(crate) fn budget_view(budget: &Budget) -> BudgetView {
    let metadata = &budget.metadata;
    let status = budget.status.clone().unwrap_or_default();
    let spec = budget.spec.clone().unwrap_or_default();
    BudgetView {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        version: metadata.resource_version.clone().unwrap_or_default(),
        selector: spec.selector.as_ref().map(selector_of),
        status_lags: status.observed_generation.unwrap_or(0) < metadata.generation.unwrap_or(0),
        expected_pods: status.expected_pods.unwrap_or(0),
        current_healthy: status.current_healthy.unwrap_or(0),
        desired_healthy: status.desired_healthy.unwrap_or(0),
        disruptions_allowed: status.disruptions_allowed.unwrap_or(0),
        never_observed: status.observed_generation.is_none(),
        demand: demand(&spec),
        lets_unready_go: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
        sync_failure: sync_failure(status.conditions.as_deref().unwrap_or_default()),
        disrupted_pods: status.disrupted_pods.unwrap_or_default().into_keys().collect(),
        keeper: controller(metadata),
    }
}

fn demand(spec: &BudgetSpec) -> Option<Demand> {
    let of = |value: &Option<Value>| value.as_ref().and_then(amount);
    let min = of(&spec.min_available).map(Demand::MinAvailable);
    min.or_else(|| of(&spec.max_unavailable).map(Demand::MaxUnavailable))
}

/// A number, or a text such as `50%`; the API accepts nothing else.
fn amount(value: &Value) -> Option<Amount> {
    if let Some(text) = value.as_str() {
        return text.strip_suffix('%')?.parse().ok().map(Amount::Percent);
    }
    i32::try_from(value.as_i64()?).ok().map(Amount::Count)
}

/// The disruption controller's message if it cannot work a budget out; empty if it can.
fn sync_failure(conditions: &[Condition]) -> String {
    let is_failure = |condition: &&Condition| {
        condition.is("DisruptionAllowed")
            && condition.status() == "False"
            && condition.reason.as_deref() == Some("SyncFailed")
    };
    let failure = conditions.iter().find(is_failure);
    let message = failure.map(|failure| words(failure.message.as_deref().unwrap_or_default()));
    message
        .map(|message| if message.is_empty() { "SyncFailed".to_owned() } else { message })
        .unwrap_or_default()
}

/// True if the toleration lets the scheduler put the pod on a cordoned node. An empty operator means `Equal`, an empty
/// effect means all effects, and `Exists` without a key means everything.
fn tolerates_cordon(toleration: &Toleration) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let key = text(&toleration.key);
    let fits = match text(&toleration.operator).as_str() {
        "Exists" => key.is_empty() || key == UNSCHEDULABLE,
        "Equal" | "" => key == UNSCHEDULABLE && text(&toleration.value).is_empty(),
        _ => false,
    };
    fits && matches!(text(&toleration.effect).as_str(), "" | "NoSchedule")
}

/// Each claim once, in the order of the pod's volumes.
fn claims(pod: &str, volumes: &[PodVolume]) -> Vec<PodClaim> {
    let mut claims = Vec::new();
    for claim in volumes.iter().filter_map(|volume| claim(pod, volume)) {
        if !claims.contains(&claim) {
            claims.push(claim);
        }
    }
    claims
}

fn claim(pod: &str, volume: &PodVolume) -> Option<PodClaim> {
    if volume.ephemeral.is_some() {
        let name = format!("{pod}-{}", volume.name.as_deref()?);
        return Some(PodClaim { name, ephemeral: true });
    }
    let name = volume.persistent_volume_claim.as_ref()?.claim_name.clone()?;
    Some(PodClaim { name, ephemeral: false })
}

fn pod_id(metadata: &ObjectMeta) -> PodId {
    PodId {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    }
}

fn phase_of(phase: Option<&str>) -> Phase {
    match phase {
        Some("Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some(_) | None => Phase::Unknown,
    }
}

fn controller(metadata: &ObjectMeta) -> Option<Controller> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let is_controller = |owner: &&OwnerReference| owner.controller == Some(true);
    owners.iter().find(is_controller).map(|owner| Controller {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        existence: Existence::Unknown,
    })
}

/// Seconds as the API writes them. The API treats a negative grace period as one second.
fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(1))
}

pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    metadata.annotations.as_ref().and_then(|annotations| annotations.get(key))
}

fn selector_of(selector: &LabelSelector) -> Selector {
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()]));
    let expressions = selector.match_expressions.iter().flatten().map(requirement_of);
    Selector { requirements: labels.chain(expressions).collect() }
}

/// Converts one requirement of a selector. The API server refuses operators with the wrong number of values; one that
/// exists all the same selects nothing, as in the server's own evaluation.
fn requirement_of(expression: &LabelSelectorRequirement) -> Requirement {
    let key = expression.key.clone();
    let values = expression.values.clone().unwrap_or_default();
    match (expression.operator.as_str(), values.is_empty()) {
        ("In", false) => Requirement::In(key, values),
        ("NotIn", false) => Requirement::NotIn(key, values),
        ("Exists", true) => Requirement::Exists(key),
        ("DoesNotExist", true) => Requirement::DoesNotExist(key),
        _ => Requirement::Invalid(key),
    }
}

#[cfg(test)]
mod tests;
