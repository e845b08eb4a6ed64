//! Helpers of these cases for a drain and its client, in addition to `contract::driving`.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cluster::drainer::Drain;
use cluster::{Cluster, Drainer};
use contract::driving::{clock, count};
pub(crate) use contract::driving::{end, line, stage, turn, until};
use contract::{Client, Target};
use drain::Policy;
use drain::diagnosis::Blocked;
use drain::state::Stage;
use fake_cluster::{FakeCluster, Request};
use serde_json::Value;

/// The policy of a device, with a short attempt and a short pause between the final checks.
pub(crate) fn policy() -> Policy {
    Policy { attempt_timeout: Duration::from_hours(1), settle: Duration::from_millis(50), ..Policy::device() }
}

/// As [`policy`], but a second try comes only when a watch causes it.
pub(crate) fn patient() -> Policy {
    Policy { retry: Duration::from_mins(50), ..policy() }
}

/// As [`policy`], but it tries again all the time.
pub(crate) fn insistent() -> Policy {
    Policy { retry: Duration::from_millis(100), ..policy() }
}

/// A drain of this node by this client, on the clock that [`turn`] moves.
pub(crate) fn drain(client: &Client<'_>, policy: Policy, node: &str) -> Drain {
    drain_with(client.cluster(), policy, node)
}

/// As [`drain`], with a client of other settings.
pub(crate) fn drain_with(cluster: &Cluster, policy: Policy, node: &str) -> Drain {
    Drainer::new(cluster.clone(), policy).with_clock(clock).drain(node)
}

/// Runs the drain while `act` runs; fails if the drain ends before `act` does.
pub(crate) async fn meanwhile<T>(drain: &mut Drain, act: impl Future<Output = Result<T>>) -> Result<T> {
    let mut act = pin!(act);
    loop {
        tokio::select! {
            done = &mut act => return done,
            progress = drain.next() => ensure!(progress.is_some(), "it ended: {:?}", drain.ended()),
        }
    }
}

/// The reason why the pod does not leave, as reported.
pub(crate) fn blocked(drain: &Drain, pod: &str) -> Option<Blocked> {
    drain.blocked().into_iter().find(|blocked| blocked.pod.name == pod)
}

/// Runs the drain until it has begun, and moves the clock past the time in which a scheduler may not know of the
/// cordon.
pub(crate) async fn begun_long_ago(drain: &mut Drain) -> Result<()> {
    until(drain, "it has begun", |drain| drain::progress::attempt(drain.state()).map(drop)).await?;
    turn(Duration::from_secs(6));
    Ok(())
}

/// Runs the drain until the pod waits after a failure that is no refusal. Returns the failure and the length of the
/// pause.
pub(crate) async fn paused(drain: &mut Drain, pod: &str) -> Result<(String, Duration)> {
    let look = |drain: &Drain| {
        let line = line(drain, pod)?;
        let Some(Stage::Paused { text, next }) = line.stage else { return None };
        Some((text, next.since(line.since)))
    };
    until(drain, "the pod waits", look).await
}

/// Number of evictions that the client has sent.
pub(crate) fn evictions(client: &Client<'_>) -> Result<usize> {
    count(client, "create", "pods/eviction")
}

/// Number of deletions of pods that the client has sent.
pub(crate) fn deletions(client: &Client<'_>) -> Result<usize> {
    count(client, "delete", "pods")
}

/// The fake; fails on a real server.
pub(crate) fn fake(target: &Target) -> Result<&FakeCluster> {
    target.as_fake().context("a case for the fake only")
}

/// The requests of this client to the fake, in their order.
pub(crate) fn requests(target: &Target, client: &str, verb: &str, resource: &str) -> Result<Vec<Request>> {
    let mut requests = fake(target)?.requests().recent();
    requests.retain(|request| {
        request.user_agent.ends_with(&format!(" {client}"))
            && request.verb == verb
            && request.resource == resource
    });
    Ok(requests)
}

/// The codes of the fake's answers to these requests; 0 where there was none.
pub(crate) fn codes(target: &Target, client: &str, verb: &str, resource: &str) -> Result<Vec<u16>> {
    let requests = requests(target, client, verb, resource)?;
    Ok(requests.iter().map(|request| request.code.unwrap_or_default()).collect())
}

/// The options in the body of an eviction or a deletion.
pub(crate) fn options(request: &Request) -> Value {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    body.get("deleteOptions").cloned().unwrap_or(body)
}

/// The UID in the preconditions of these options.
pub(crate) fn uid_sent(request: &Request) -> String {
    options(request)["preconditions"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// True if the pod is neither terminating nor marked for a disruption.
pub(crate) fn is_untouched(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.into_iter().all(|condition| condition["type"] != "DisruptionTarget")
}
