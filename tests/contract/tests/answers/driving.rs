//! What these cases ask of a drain and of its client, beside what `contract::driving` has for all.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cluster::drainer::Drain;
use cluster::{Cluster, Drainer};
use contract::driving::{clock, count};
pub(crate) use contract::driving::{end, line, run, stage, turn, until};
use contract::{Client, Target};
use drain::Policy;
use drain::diagnosis::Blocked;
use drain::state::Stage;
use fake_cluster::{FakeCluster, Request};
use serde_json::Value;

/// A device's, with a short attempt and a short rest between the proofs.
pub(crate) fn policy() -> Policy {
    Policy { attempt_timeout: Duration::from_hours(1), settle: Duration::from_millis(50), ..Policy::device() }
}

/// The same that asks a second time only if it is told to: by a watch.
pub(crate) fn patient() -> Policy {
    Policy { retry: Duration::from_mins(50), ..policy() }
}

/// The same that asks all the time.
pub(crate) fn insistent() -> Policy {
    Policy { retry: Duration::from_millis(100), ..policy() }
}

/// A drain of this node by this client, on the clock that [`turn`] turns.
pub(crate) fn drain(client: &Client<'_>, policy: Policy, node: &str) -> Drain {
    drain_with(client.cluster(), policy, node)
}

/// The same with a client of other settings.
pub(crate) fn drain_with(cluster: &Cluster, policy: Policy, node: &str) -> Drain {
    Drainer::new(cluster.clone(), policy).with_clock(clock).drain(node)
}

/// Drives the drain while something else is done; fails if it ends before that is.
pub(crate) async fn meanwhile<T>(drain: &mut Drain, act: impl Future<Output = Result<T>>) -> Result<T> {
    let mut act = pin!(act);
    loop {
        tokio::select! {
            done = &mut act => return done,
            progress = drain.next() => ensure!(progress.is_some(), "it ended: {:?}", drain.ended()),
        }
    }
}

/// What blocks the pod, as the report says it.
pub(crate) fn blocked(drain: &Drain, pod: &str) -> Option<Blocked> {
    drain.blocked().into_iter().find(|blocked| blocked.pod.name == pod)
}

/// Drives the drain until it has begun, and turns the clock past the time in which a scheduler may not know of the cordon.
pub(crate) async fn begun_long_ago(drain: &mut Drain) -> Result<()> {
    until(drain, "it has begun", |drain| drain::progress::attempt(drain.state()).map(drop)).await?;
    turn(Duration::from_secs(6));
    Ok(())
}

/// Drives the drain until the pod waits after a failure that is no refusal: what happened, and when it began to wait
/// until when.
pub(crate) async fn paused(drain: &mut Drain, pod: &str) -> Result<(String, Duration)> {
    let look = |drain: &Drain| {
        let line = line(drain, pod)?;
        let Some(Stage::Paused { text, next }) = line.stage else { return None };
        Some((text, next.since(line.since)))
    };
    until(drain, "the pod waits", look).await
}

/// How many evictions the client has sent.
pub(crate) fn evictions(client: &Client<'_>) -> Result<usize> {
    count(client, "create", "pods/eviction")
}

/// How many deletions of pods the client has sent.
pub(crate) fn deletions(client: &Client<'_>) -> Result<usize> {
    count(client, "delete", "pods")
}

/// The fake.
pub(crate) fn fake(target: &Target) -> Result<&FakeCluster> {
    target.as_fake().context("a case for the fake only")
}

/// What the fake was asked by this client, in this order.
pub(crate) fn requests(target: &Target, client: &str, verb: &str, resource: &str) -> Result<Vec<Request>> {
    let mut requests = fake(target)?.requests().recent();
    requests.retain(|request| {
        request.user_agent.ends_with(&format!(" {client}"))
            && request.verb == verb
            && request.resource == resource
    });
    Ok(requests)
}

/// The codes that the fake has answered to them; 0 for none.
pub(crate) fn codes(target: &Target, client: &str, verb: &str, resource: &str) -> Result<Vec<u16>> {
    let requests = requests(target, client, verb, resource)?;
    Ok(requests.iter().map(|request| request.code.unwrap_or_default()).collect())
}

/// The options of an eviction or a deletion.
pub(crate) fn options(request: &Request) -> Value {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    body.get("deleteOptions").cloned().unwrap_or(body)
}

/// The UID that they insist on.
pub(crate) fn uid_sent(request: &Request) -> String {
    options(request)["preconditions"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// Nobody has begun to end the pod.
pub(crate) fn is_untouched(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.into_iter().all(|condition| condition["type"] != "DisruptionTarget")
}
