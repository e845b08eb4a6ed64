//! Kubernetes objects trimmed to what decisions need.
//!
//! Every field of an object may be missing; each has a named meaning then. Nothing here fails or panics.

use std::time::Duration;

use drain::cordon::CORDONED_BY;
use drain::view::{BudgetView, Controller, Existence, NodeView, Phase, PodId, PodView, Terminating};
use drain::{Requirement, Selector};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference,
};

use crate::objects::{Budget, MIRROR, Node, Pod};

/// The node controller's taint for a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// EVE's label for a node that only votes and never takes pods.
const TIE_BREAKER: &str = "tie-breaker-node";

/// EVE's label with the device's UUID.
const NODE_UUID: &str = "node-uuid";

/// Kubernetes' `terminationGracePeriodSeconds` where a pod has none.
const DEFAULT_GRACE: i64 = 30;

/// A pod, trimmed, and when its deletion is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodFacts {
    view: PodView,
    due: Option<Timestamp>,
}

/// A Node, trimmed, and what tells which machine it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// What decisions need of it.
    pub view: NodeView,
    /// Label `node-uuid`, empty without one: EVE's UUID of the device.
    pub uuid_label: String,
    /// `status.nodeInfo.machineID`, empty when the kubelet has not said: `/etc/machine-id` of the machine.
    pub machine_id: String,
}

impl PodFacts {
    /// What decisions need of the pod.
    pub(crate) fn of(pod: &Pod) -> Self {
        let (metadata, spec) = (&pod.metadata, pod.spec.as_ref());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let grace = spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE);
        let view = PodView {
            id: pod_id(metadata),
            phase: phase_of(phase),
            labels: metadata.labels.clone().unwrap_or_default(),
            mirror: annotation(metadata, MIRROR).is_some(),
            controller: controller(metadata),
            empty_dir: volumes.iter().any(|volume| volume.empty_dir.is_some()),
            grace: seconds(grace),
            terminating: metadata.deletion_timestamp.as_ref().map(|_| Terminating {
                grace: seconds(metadata.deletion_grace_period_seconds.unwrap_or(grace)),
                overdue: Duration::ZERO,
            }),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            ..PodView::default()
        };
        Self { view, due: metadata.deletion_timestamp.as_ref().map(|time| time.0) }
    }

    /// The view when the API server's clock shows this; an unknown time makes nothing overdue.
    pub(crate) fn at(&self, server_time: Option<Timestamp>) -> PodView {
        let mut view = self.view.clone();
        if let (Some(terminating), Some(due), Some(now)) = (&mut view.terminating, self.due, server_time) {
            terminating.overdue = Duration::try_from(now.duration_since(due)).unwrap_or_default();
        }
        view
    }

    /// The view, with nothing overdue.
    pub(crate) fn view(&self) -> &PodView {
        &self.view
    }
}

impl NodeFacts {
    /// What decisions need of the Node.
    pub(crate) fn of(node: &Node) -> Self {
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        Self {
            view: NodeView {
                name: node.metadata.name.clone().unwrap_or_default(),
                uid: node.metadata.uid.clone().unwrap_or_default(),
                cordoned: is_unschedulable(node) || has_taint(node),
                cordoned_by: annotation(&node.metadata, CORDONED_BY).cloned(),
                ready: is_ready(node),
                tie_breaker: label(&node.metadata, TIE_BREAKER) == Some("true"),
                boot_id: info.and_then(|info| info.boot_id.clone()).unwrap_or_default(),
                ..NodeView::default()
            },
            uuid_label: label(&node.metadata, NODE_UUID).unwrap_or_default().to_owned(),
            machine_id: info.and_then(|info| info.machine_id.clone()).unwrap_or_default(),
        }
    }
}

/// `spec.unschedulable`: what a cordon sets. The taint is made of it some milliseconds later, and may outlive it when
/// the controller is dead.
pub(crate) fn is_unschedulable(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
}

/// What decisions need of a PodDisruptionBudget.
pub(crate) fn budget_view(budget: &Budget) -> BudgetView {
    let metadata = &budget.metadata;
    let status = budget.status.clone().unwrap_or_default();
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    BudgetView {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        version: metadata.resource_version.clone().unwrap_or_default(),
        selector: selector.map(selector_of),
        status_lags: status.observed_generation.unwrap_or(0) < metadata.generation.unwrap_or(0),
        expected_pods: status.expected_pods.unwrap_or(0),
        current_healthy: status.current_healthy.unwrap_or(0),
        desired_healthy: status.desired_healthy.unwrap_or(0),
        disruptions_allowed: status.disruptions_allowed.unwrap_or(0),
        disrupted_pods: status.disrupted_pods.unwrap_or_default().into_keys().collect(),
        ..BudgetView::default()
    }
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

/// Seconds as the API writes them. It treats a negative grace period as one second.
fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(1))
}

fn has_taint(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key.as_deref() == Some(UNSCHEDULABLE))
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is = |text: &Option<String>, expected: &str| text.as_deref() == Some(expected);
    conditions.iter().any(|condition| is(&condition.kind, "Ready") && is(&condition.status, "True"))
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    metadata.annotations.as_ref().and_then(|annotations| annotations.get(key))
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
}

fn selector_of(selector: &LabelSelector) -> Selector {
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()]));
    let expressions = selector.match_expressions.iter().flatten().map(requirement_of);
    Selector { requirements: labels.chain(expressions).collect() }
}

/// The API server refuses operators with the wrong number of values; one that got in all the same selects nothing, as
/// its own evaluation does.
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
#[path = "views_tests.rs"]
mod tests;
