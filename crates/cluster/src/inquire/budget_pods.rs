//! Finds the unhealthy pods of a budget.

use drain::Requirement;
use drain::findings::{BudgetPods, BudgetQuery, MOST_UNHEALTHY, UnhealthyPod};
use serde::Deserialize;

use super::short;
use crate::list::Selection;
use crate::objects::Condition;
use crate::operation::{Operation, is_name};
use crate::wire::Cluster;

/// Reasons of a container that only waits for other containers.
const WAITS_FOR_OTHERS: [&str; 2] = ["PodInitializing", "ContainerCreating"];

/// The part of a Pod that shows why it is not Ready.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    conditions: Option<Vec<Condition>>,
    init_container_statuses: Option<Vec<Container>>,
    container_statuses: Option<Vec<Container>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    state: Option<ContainerState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<String>,
}

/// Lists the pods that the budget selects and that are not Ready.
pub(super) async fn ask(cluster: &Cluster, query: &BudgetQuery) -> Result<BudgetPods, String> {
    let BudgetQuery { namespace, name, selector } = query;
    if selector.requirements.iter().any(|requirement| matches!(requirement, Requirement::Invalid(_))) {
        return Err(format!("budget {namespace}/{name} has a selector that selects no pod"));
    }
    let operation = Operation { verb: "list", resource: "pods", namespace, name: "" };
    if !is_name(namespace) {
        return Err(format!("cannot {operation}: no namespace can have the name `{}`", short(namespace)));
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let pods = cluster.list(&operation, &path, &Selection::Labels(selector.to_string()), unhealthy).await;
    let pods = pods.map_err(|failure| format!("{} (budget {namespace}/{name})", failure.text()))?;
    let mut unhealthy: Vec<_> = pods.into_iter().flatten().collect();
    let more = unhealthy.len().saturating_sub(MOST_UNHEALTHY);
    unhealthy.truncate(MOST_UNHEALTHY);
    Ok(BudgetPods { namespace: namespace.clone(), name: name.clone(), unhealthy, more })
}

fn unhealthy(pod: &Pod) -> Option<UnhealthyPod> {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.is("Ready"));
    if ready.is_some_and(|ready| ready.status() == "True") {
        return None;
    }
    let why = status.and_then(waiting).or_else(|| not_scheduled(conditions));
    let why = why.or_else(|| not_running(status)).or_else(|| ready?.reason.clone());
    Some(UnhealthyPod {
        name: pod.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        why: short(&why.unwrap_or_else(|| "not Ready".to_owned())),
    })
}

/// The reason why a container waits; containers that only wait for others come last.
fn waiting(status: &Status) -> Option<String> {
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let reasons = || {
        containers.clone().filter_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone())
    };
    let own = reasons().find(|reason| !WAITS_FOR_OTHERS.contains(&reason.as_str()));
    own.or_else(|| reasons().next())
}

fn not_scheduled(conditions: &[Condition]) -> Option<String> {
    let is_open = |condition: &&Condition| condition.is("PodScheduled") && condition.status() == "False";
    let open = conditions.iter().find(is_open)?;
    open.message.clone().filter(|message| !message.is_empty()).or_else(|| open.reason.clone())
}

fn not_running(status: Option<&Status>) -> Option<String> {
    status.and_then(|status| status.phase.clone()).filter(|phase| phase != "Running")
}

#[cfg(test)]
mod tests;
