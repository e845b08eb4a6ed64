//! Sends one eviction or one deletion.
//!
//! kube's own `Api::evict` sends the key `delete_options`, which the API server ignores (M2), so the grace period and
//! the UID would not count. So the body is made here, with strict field validation by the server.
//!
//! Each costs one call. A conflict costs one more, to see whether the pod has been replaced; so does a server without
//! evictions, to be sure of it. Evictions and budgets are `policy/v1`: servers before 1.22 have no such evictions.

use std::time::Duration;

use drain::{Answer, PodId};
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::core::params::GetParams;
use serde::Serialize;

use crate::answer::{Asked, classify};
use crate::bounds::EVICTION_DEADLINE;
use crate::cordon::Cordoned;
use crate::failure::ApiFailure;
use crate::objects::Pod;
use crate::operation::{DryRun, Operation, is_name};
use crate::wire::{Cluster, Reply};

/// Evicts the pod from the cordoned node; its UID is the precondition. `grace` is the grace period to send, rounded up
/// to seconds; `None` leaves it to the pod's own.
///
/// The caller has to compare the UID with a fresh snapshot first: a wrong UID uses up one disruption of the budget for
/// two minutes.
pub async fn evict(cluster: &Cluster, _cordoned: &Cordoned, pod: &PodId, grace: Option<Duration>) -> Answer {
    send(cluster, Asked::Eviction, pod, grace, DryRun::No).await
}

/// Deletes the pod from the cordoned node, bypassing all budgets; its UID is the precondition.
pub async fn delete(cluster: &Cluster, _cordoned: &Cordoned, pod: &PodId, grace: Option<Duration>) -> Answer {
    send(cluster, Asked::Deletion, pod, grace, DryRun::No).await
}

/// Asks for the server's answer to an eviction now, as a dry run. It changes nothing, not even a budget's count, so it
/// needs no cordon.
pub async fn would_evict(cluster: &Cluster, pod: &PodId, grace: Option<Duration>) -> Answer {
    send(cluster, Asked::Eviction, pod, grace, DryRun::Yes).await
}

/// Asks for the server's answer to a deletion now, as a dry run. It changes nothing.
pub async fn would_delete(cluster: &Cluster, pod: &PodId, grace: Option<Duration>) -> Answer {
    send(cluster, Asked::Deletion, pod, grace, DryRun::Yes).await
}

async fn send(
    cluster: &Cluster,
    asked: Asked,
    pod: &PodId,
    grace: Option<Duration>,
    dry_run: DryRun,
) -> Answer {
    if !is_name(&pod.namespace) || !is_name(&pod.name) {
        return Answer::Rejected { text: format!("`{pod}` is not the name of a pod") };
    }
    let reply = match asked {
        Asked::Eviction => post_eviction(cluster, pod, grace, dry_run).await,
        Asked::Deletion => {
            let operation = on_pod("delete", "pods", pod);
            cluster.call(&operation, deletion(pod, grace, dry_run), EVICTION_DEADLINE).await
        }
    };
    let reply = match reply {
        Ok(reply) => reply,
        Err(failure) => return unanswered(failure),
    };
    let code = reply.status.as_u16();
    if code == 409 && is_replaced(cluster, pod).await {
        return Answer::Gone;
    }
    let answer = classify(asked, code, reply.retry_after, &reply.text());
    if answer == Answer::NoEvictions { without_evictions(cluster).await } else { answer }
}

async fn post_eviction(
    cluster: &Cluster,
    pod: &PodId,
    grace: Option<Duration>,
    dry_run: DryRun,
) -> Result<Reply, ApiFailure> {
    let operation = on_pod("create", "pods/eviction", pod);
    cluster.call(&operation, eviction(pod, grace, dry_run), EVICTION_DEADLINE).await
}

/// Reads the server's list of served kinds before pods are deleted because there are no evictions: a proxy in between
/// may answer 404 too.
async fn without_evictions(cluster: &Cluster) -> Answer {
    match cluster.served("/api/v1").await {
        Ok(served) if served.has("pods") && !served.has("pods/eviction") => Answer::NoEvictions,
        Ok(_) => Answer::Retry {
            text: "the API server answered 404 to an eviction, although it says that it serves pods/eviction"
                .to_owned(),
        },
        Err(failure) => Answer::Retry { text: failure.text().to_owned() },
    }
}

/// Answer for a call without a reply: it is not known whether the server acted; the next snapshot will show it.
fn unanswered(failure: ApiFailure) -> Answer {
    match failure {
        ApiFailure::Unreachable { text } | ApiFailure::Busy { text } => {
            Answer::Throttled { after: None, text }
        }
        ApiFailure::Denied { text }
        | ApiFailure::NotFound { text }
        | ApiFailure::Conflict { text }
        | ApiFailure::Other { text } => Answer::Retry { text },
    }
}

/// After a conflict: true if the pod with this UID is gone, or another pod has its name.
async fn is_replaced(cluster: &Cluster, pod: &PodId) -> bool {
    let request = kube::core::Request::new(pods(pod)).get(&pod.name, &GetParams::default());
    match cluster.fetch::<Pod>(&on_pod("get", "pods", pod), request).await {
        Ok(found) => found.metadata.uid.is_some_and(|uid| uid != pod.uid),
        Err(ApiFailure::NotFound { .. }) => true,
        Err(_) => false,
    }
}

type Built = Result<Request<Vec<u8>>, kube::core::request::Error>;

/// The body of an eviction.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Eviction {
    api_version: &'static str,
    kind: &'static str,
    delete_options: DeleteOptions,
    metadata: ObjectMeta,
}

fn eviction(pod: &PodId, grace: Option<Duration>, dry_run: DryRun) -> Built {
    let query = match dry_run {
        DryRun::No => "fieldValidation=Strict",
        DryRun::Yes => "fieldValidation=Strict&dryRun=All",
    };
    let body = Eviction {
        api_version: "policy/v1",
        kind: "Eviction",
        delete_options: options(pod, grace),
        metadata: ObjectMeta {
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            ..ObjectMeta::default()
        },
    };
    build(Method::POST, format!("{}/{}/eviction?{query}", pods(pod), pod.name), &body)
}

fn deletion(pod: &PodId, grace: Option<Duration>, dry_run: DryRun) -> Built {
    let body = DeleteOptions {
        // In the body, because the API server ignores the whole query of a DELETE that has a body.
        dry_run: (dry_run == DryRun::Yes).then(|| vec!["All".to_owned()]),
        api_version: Some("v1".to_owned()),
        kind: Some("DeleteOptions".to_owned()),
        ..options(pod, grace)
    };
    build(Method::DELETE, format!("{}/{}", pods(pod), pod.name), &body)
}

fn options(pod: &PodId, grace: Option<Duration>) -> DeleteOptions {
    DeleteOptions {
        grace_period_seconds: grace.map(whole_seconds),
        preconditions: Some(Preconditions { uid: Some(pod.uid.clone()), resource_version: None }),
        ..DeleteOptions::default()
    }
}

/// Whole seconds, rounded up: half a second must not become 0, which kills at once.
fn whole_seconds(grace: Duration) -> i64 {
    let seconds = grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn build(method: Method, uri: String, body: &impl Serialize) -> Built {
    use kube::core::request::Error;
    let body = serde_json::to_vec(body).map_err(Error::SerializeBody)?;
    Request::builder()
        .method(method)
        .uri(uri)
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(Error::BuildRequest)
}

fn pods(pod: &PodId) -> String {
    format!("/api/v1/namespaces/{}/pods", pod.namespace)
}

fn on_pod<'a>(verb: &'static str, resource: &'static str, pod: &'a PodId) -> Operation<'a> {
    Operation { verb, resource, namespace: &pod.namespace, name: &pod.name }
}

#[cfg(test)]
mod tests;
