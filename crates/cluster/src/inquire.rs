//! Finds out why pods do not leave. The results are for people; no decision depends on them.

mod budget_pods;
mod machine;

use std::time::Duration;

use drain::findings::{LeaseView, LonghornView, MOST_BUDGETS, MOST_MACHINES};
use drain::{Findings, Inquiry};
use futures::future::join_all;
use jiff::Timestamp;
use kube::core::Request;
use kube::core::params::GetParams;
use serde_json::Value;

use crate::failure::{ApiFailure, words};
use crate::operation::{Operation, is_name};
use crate::wire::Cluster;

/// Longest foreign text in a finding, in characters.
const LONGEST: usize = 160;

/// Asks all questions at once, each with the usual deadline of 10 s. A question without an answer becomes a line in
/// `trouble`.
///
/// Costs one list of pods for each budget (one more for each 500 pods that it selects), one call for each virtual
/// machine, two for Longhorn, one for kube-controller-manager.
pub async fn inquire(cluster: &Cluster, node: &str, inquiry: &Inquiry) -> Findings {
    let cluster = &cluster.at_leisure();
    let budgets = inquiry.budgets.iter().take(MOST_BUDGETS);
    let machines = inquiry.machines.iter().take(MOST_MACHINES);
    let (budgets, machines, longhorn, controller_manager) = tokio::join!(
        join_all(budgets.map(|query| budget_pods::ask(cluster, query))),
        join_all(machines.map(|query| machine::ask(cluster, node, query))),
        async {
            match &inquiry.longhorn {
                Some(namespace) => longhorn(cluster, namespace, node).await,
                None => (None, Vec::new()),
            }
        },
        async { if inquiry.controller_manager { controller_manager(cluster).await } else { Ok(None) } },
    );
    let mut findings = Findings::default();
    findings.budgets = answered(&mut findings.trouble, budgets);
    findings.machines = answered(&mut findings.trouble, machines);
    let (longhorn, trouble) = longhorn;
    findings.longhorn = longhorn;
    findings.trouble.extend(trouble);
    findings.controller_manager = answered(&mut findings.trouble, [controller_manager]).pop().flatten();
    findings
}

/// The answers; failures are added to `trouble`.
fn answered<T>(trouble: &mut Vec<String>, answers: impl IntoIterator<Item = Result<T, String>>) -> Vec<T> {
    let keep = |answer: Result<T, String>| answer.map_err(|text| trouble.push(text)).ok();
    answers.into_iter().filter_map(keep).collect()
}

/// Reads Longhorn's setting and its own Node of this name; gives as much as could be read.
async fn longhorn(cluster: &Cluster, namespace: &str, node: &str) -> (Option<LonghornView>, Vec<String>) {
    let group = "/apis/longhorn.io/v1beta2";
    let (setting, own) = tokio::join!(
        get(cluster, group, "settings", namespace, "node-drain-policy"),
        get(cluster, group, "nodes", namespace, node),
    );
    let mut view = LonghornView::default();
    if let Ok(setting) = &setting {
        view.drain_policy = text(setting, "/value");
    }
    if let Ok(own) = &own {
        view.evicting = own.pointer("/status/autoEvicting").and_then(Value::as_bool).unwrap_or(false);
    }
    let is_known = setting.is_ok() || own.is_ok();
    let trouble = [setting, own].into_iter().filter_map(Result::err);
    (is_known.then_some(view), trouble.map(|failure| failure.text().to_owned()).collect())
}

/// Reads the Lease of kube-controller-manager. Without a Lease it runs alone, and nothing is known about it.
async fn controller_manager(cluster: &Cluster) -> Result<Option<LeaseView>, String> {
    let group = "/apis/coordination.k8s.io/v1";
    let lease = match get(cluster, group, "leases", "kube-system", "kube-controller-manager").await {
        Ok(lease) => lease,
        Err(ApiFailure::NotFound { .. }) => return Ok(None),
        Err(failure) => return Err(failure.text().to_owned()),
    };
    let renewed = text(&lease, "/spec/renewTime").parse::<Timestamp>().ok();
    let (Some(renewed), Some(now)) = (renewed, cluster.server_time()) else {
        return Err("lease kube-system/kube-controller-manager does not say when it was renewed".to_owned());
    };
    let silent = Duration::try_from(now.duration_since(renewed)).unwrap_or_default();
    Ok(Some(LeaseView { holder: text(&lease, "/spec/holderIdentity"), silent }))
}

/// Reads an object of which only a few fields are needed and any may be missing.
async fn get(
    cluster: &Cluster,
    group: &str,
    resource: &'static str,
    namespace: &str,
    name: &str,
) -> Result<Value, ApiFailure> {
    let operation = Operation { verb: "get", resource, namespace, name };
    if !is_name(namespace) || !is_name(name) {
        return Err(ApiFailure::other(format!("cannot {operation}: nothing can have this name")));
    }
    let path = format!("{group}/namespaces/{namespace}/{resource}");
    cluster.fetch(&operation, Request::new(path).get(name, &GetParams::default())).await
}

/// The text of a field, shortened; empty if there is none.
fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).map(short).unwrap_or_default()
}

/// A foreign text, made fit for a part of a line.
fn short(text: &str) -> String {
    let mut line = words(text);
    if let Some((cut, _)) = line.char_indices().nth(LONGEST) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests;
