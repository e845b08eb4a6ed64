//! Waiting until the pod is gone.

use std::time::Duration;

use anyhow::{Context, Result};
use cluster::drainer::Drain;
use cluster::relist;
use contract::PodState::{Ready, ReadyForLong};
use contract::{Place, Target, objects};
use drain::state::{Failure, Stage};
use drain::{Outcome, Policy, Verdict};
use fake_cluster::{Effect, FakeCluster, Fault, Reply};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::driving::{
    blocked, codes, deletions, drain, end, evictions, fake, insistent, line, meanwhile, patient, paused,
    policy, stage, turn, until,
};

/// The answer of a broken server.
fn broken() -> Effect {
    Effect::Answer(Reply::json(
        500,
        &json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Internal error occurred: it broke", "reason": "InternalError", "code": 500,
        }),
    ))
}

/// The answer of a server that has forgotten the version.
fn expired() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410,
    })
}

fn is_terminating(drain: &Drain) -> Option<()> {
    (stage(drain, "a") == Some(Stage::Terminating)).then_some(())
}

/// Ends the pod as a kubelet would that has come back.
async fn kill(place: &Place<'_>) -> Result<Value> {
    let path = place.path("pods/a");
    place.caller().delete(&path, &json!({"gracePeriodSeconds": 0})).await?.object()
}

/// The lists that should prove that the pod is gone fail: that is neither a proof nor the end of the drain.
pub(crate) async fn failing_lists_prove_nothing(target: &Target) -> Result<()> {
    let place = Place::new(target, "t19").await?;
    place.pods(&[("a", Ready)]).await?;
    let client = target.client(&place.namespace).await?;
    // The first list is the watch's.
    let agent = format!("ebb/{} {}", env!("CARGO_PKG_VERSION"), place.namespace);
    fake(target)?.faults().add(Fault::on("list", "pods", broken()).from_agent(&agent).after(1).times(3));
    let mut drain = drain(&client, patient(), &place.node);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(codes(target, &place.namespace, "list", "pods")?, [200, 500, 500, 500, 200]);
    assert_eq!(place.caller().get(&place.path("pods/a")).await?.code, 404);
    Ok(())
}

/// After a conflict the drain reads the pod itself. A failed read does not mean that the pod is gone.
pub(crate) async fn a_failing_get_proves_nothing(target: &Target) -> Result<()> {
    let place = Place::new(target, "t19").await?;
    place.pods(&[("a", Ready)]).await?;
    let client = target.client(&place.namespace).await?;
    let agent = format!("ebb/{} {}", env!("CARGO_PKG_VERSION"), place.namespace);
    let conflict = Effect::Answer(Reply::json(
        409,
        &json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Operation cannot be fulfilled on Pod \"a\"", "reason": "Conflict", "code": 409,
        }),
    ));
    let faults = fake(target)?.faults();
    faults.add(Fault::on("create", "pods/eviction", conflict));
    faults.add(Fault::on("get", "pods", broken()).from_agent(&agent));
    let mut drain = drain(&client, patient(), &place.node);
    paused(&mut drain, "a").await?;
    assert_eq!(codes(target, &place.namespace, "get", "pods")?, [500]);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(codes(target, &place.namespace, "create", "pods/eviction")?, [409, 201]);
    Ok(())
}

/// Watches that the server ends, in order or in the middle, continue where they were: changes of budgets and pods are
/// seen.
pub(crate) async fn watches_end_and_go_on(target: &Target) -> Result<()> {
    let cuts: [fn(&FakeCluster, &str); 2] = [
        |fake, resource| fake.faults().cut_watches(Some(resource)),
        |fake, resource| fake.faults().break_watches(Some(resource)),
    ];
    for cut in cuts {
        let place = Place::new(target, "t20").await?;
        let fake = fake(target)?;
        let cut = |resource: &str| {
            cut(fake, resource);
            Ok(())
        };
        drain_across(target, &place, cut).await?;
        let lists = codes(target, &place.namespace, "list", "poddisruptionbudgets")?;
        assert_eq!(lists, [200], "it goes on where it was");
    }
    Ok(())
}

/// A watch that the server cannot continue is started again with a list.
pub(crate) async fn a_watch_is_told_410(target: &Target) -> Result<()> {
    // The real server sends the 410 as an event of a watch that has begun well; a proxy may send it in any way.
    let event = Effect::Answer(Reply::json(200, &json!({"type": "ERROR", "object": expired()})));
    let answer = Effect::Answer(Reply::json(410, &expired()));
    for (effect, lists) in [(event, 2), (answer, 1)] {
        let place = Place::new(target, "t20").await?;
        let forget = |resource: &str| {
            fake(target)?.faults().add(Fault::on("watch", resource, effect.clone()));
            fake(target)?.faults().cut_watches(Some(resource));
            Ok(())
        };
        drain_across(target, &place, forget).await?;
        let found = codes(target, &place.namespace, "list", "poddisruptionbudgets")?;
        assert_eq!(found.len(), lists);
    }
    Ok(())
}

/// A drain that has to see a budget removed and then a pod, each right after its watch was cut. Only the watch can show
/// it: no retry is due, and no relist for the next 30 s.
async fn drain_across(target: &Target, place: &Place<'_>, cut: impl Fn(&str) -> Result<()>) -> Result<()> {
    place.pods(&[("a", ReadyForLong)]).await?;
    place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);
    until(&mut drain, "the budget refuses", |drain| blocked(drain, "a")).await?;

    cut("poddisruptionbudgets")?;
    let path = place.path("poddisruptionbudgets/p");
    place.caller().delete(&path, &json!({})).await?.object()?;
    until(&mut drain, "the pod ends", is_terminating).await?;

    cut("pods")?;
    kill(place).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(evictions(&client)?, 2);
    Ok(())
}

/// The pod is reported as stuck 30 s after its grace, with the finalizer's name; it is gone as soon as the finalizer
/// is.
pub(crate) async fn a_finalizer_holds_the_pod(target: &Target) -> Result<()> {
    let place = Place::new(target, "t21").await?;
    let mut pod = objects::bound_pod("a", &place.node, objects::Kubelet::Quick);
    pod["metadata"]["finalizers"] = json!(["example.org/hold"]);
    place.create("pods", &pod).await?;
    let is_running = |pod: &Value| (pod["status"]["phase"] == "Running").then_some(());
    place.until("the pod runs", "pods/a", is_running).await?;
    let client = target.client(&place.namespace).await?;
    let short = Policy { grace_period: Some(Duration::from_secs(1)), ..patient() };
    let mut drain = drain(&client, short, &place.node);
    until(&mut drain, "the pod ends", is_terminating).await?;
    assert_eq!(drain.blocked(), []);
    turn(Duration::from_secs(15));
    assert_eq!(drain.blocked(), [], "its time is over, but not for long");

    turn(Duration::from_secs(25));
    let found = blocked(&drain, "a").context("the pod is not reported")?;
    assert!(found.cause.starts_with("still terminating "), "{found:?}");
    assert!(found.cause.ends_with("held by finalizers example.org/hold"), "{found:?}");
    assert!(found.hint.contains("which controller has to remove example.org/hold"), "{found:?}");
    let said = line(&drain, "a").context("no line")?.detail;
    assert!(said.ends_with("held by finalizers example.org/hold"), "{said}");

    let free = json!({"metadata": {"finalizers": null}});
    meanwhile(&mut drain, place.patch("pods/a", &free)).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!((evictions(&client)?, deletions(&client)?), (1, 0));
    Ok(())
}

/// A pod on the first node that has two hours to end, and needs them.
async fn slow_pod(place: &Place<'_>) -> Result<()> {
    let mut pod = objects::bound_pod("a", &place.node, objects::Kubelet::NeverEnds);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(7200);
    place.create("pods", &pod).await?;
    let is_running = |pod: &Value| (pod["status"]["phase"] == "Running").then_some(());
    place.until("the pod runs", "pods/a", is_running).await
}

/// The deadline is a failure. The pod is not reported as stuck before, because its grace is not over.
pub(crate) async fn a_grace_longer_than_the_attempt(target: &Target) -> Result<()> {
    let place = Place::new(target, "t22").await?;
    slow_pod(&place).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);
    until(&mut drain, "the pod ends", is_terminating).await?;
    turn(Duration::from_mins(59));
    assert_eq!(drain.blocked(), [], "an hour of its grace is left");

    turn(Duration::from_mins(1));
    assert_eq!(end(&mut drain).await?, Outcome::Failed(Failure::Deadline));
    let left = line(&drain, "a").context("the pod is not reported")?;
    assert_eq!(left.stage, Some(Stage::Terminating));
    assert!(left.detail.contains("still terminating") && left.detail.contains("grace"), "{left:?}");
    assert_eq!((drain.progress().terminating, drain.progress().left, drain.progress().gone), (1, 1, 0));
    assert_eq!(
        place.get("pods/a").await?["metadata"]["deletionGracePeriodSeconds"],
        7200,
        "its grace was not made shorter"
    );
    assert_eq!((evictions(&client)?, deletions(&client)?), (1, 0));
    Ok(())
}

/// A pod that was terminating before: its grace is not over, so the drain waits for it and does not evict it again.
pub(crate) async fn a_deletion_in_the_future(target: &Target) -> Result<()> {
    let place = Place::new(target, "t23").await?;
    place.pods(&[("a", ReadyForLong)]).await?;
    let long = json!({"gracePeriodSeconds": 3000});
    place.caller().delete(&place.path("pods/a"), &long).await?.object()?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, skipping(insistent()), &place.node);
    until(&mut drain, "the pod ends", is_terminating).await?;
    // Time enough for a relist, and for code that would count from the deletion instead of from the deadline.
    turn(Duration::from_secs(31));
    let looked = |drain: &Drain| {
        let attempt = drain::progress::attempt(drain.state())?;
        (attempt.seen().since(attempt.started()) >= Duration::from_secs(31)).then_some(())
    };
    until(&mut drain, "the drain relists", looked).await?;
    assert_eq!(line(&drain, "a").map(|line| line.verdict), Some(Verdict::Evict));
    assert_eq!((drain.blocked(), stage(&drain, "a")), (vec![], Some(Stage::Terminating)));

    meanwhile(&mut drain, kill(&place)).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!((evictions(&client)?, deletions(&client)?), (0, 0));
    Ok(())
}

/// The drain does not wait for pods that should have been gone for 10 s.
fn skipping(policy: Policy) -> Policy {
    Policy { skip_wait_for_delete: Some(Duration::from_secs(10)), ..policy }
}

/// All times in objects are the server's, and so is the clock with which they are compared.
pub(crate) async fn the_servers_clock_is_another_one(_: &Target) -> Result<()> {
    for hours in [-50_000, -1, 1, 50_000] {
        let target = Target::fake_ahead(SignedDuration::from_hours(hours))?;
        on_another_clock(&target).await.with_context(|| format!("ahead by {hours} h"))?;
    }
    Ok(())
}

async fn on_another_clock(target: &Target) -> Result<()> {
    let place = Place::new(target, "t24").await?;
    place.pods(&[("a", ReadyForLong), ("b", ReadyForLong)]).await?;
    place.caller().delete(&place.path("pods/b"), &json!({"gracePeriodSeconds": 100})).await?.object()?;
    let client = target.client(&place.namespace).await?;
    let look = relist(client.cluster(), &place.node, None, false).await?;
    let overdue = look.pods.iter().filter_map(|pod| pod.terminating).map(|terminating| terminating.overdue);
    assert_eq!(overdue.collect::<Vec<_>>(), [Duration::ZERO]);

    let mut skips = drain(&client, skipping(policy()), &place.node);
    until(&mut skips, "both end", both_end).await?;
    let mut waits = drain(&client, policy(), &place.node);
    until(&mut waits, "both end", both_end).await?;
    assert_eq!((skips.blocked(), waits.blocked()), (vec![], vec![]));

    // Both clocks move by the same time.
    let pass = |by| {
        turn(by);
        fake(target).map(|fake| fake.advance(by))
    };
    pass(Duration::from_secs(50))?;
    let stuck: Vec<_> = waits.blocked().into_iter().map(|blocked| blocked.pod.name).collect();
    assert_eq!(stuck, Vec::<String>::new(), "their time is over for 20 s at most");
    pass(Duration::from_secs(40))?;
    let left = |drain: &Drain| (line(drain, "a")?.verdict == Verdict::Leave).then_some(());
    until(&mut skips, "the one that is overdue is left", left).await?;
    assert_eq!(stage(&skips, "b"), Some(Stage::Terminating), "the other has time left");
    let stuck = |drain: &Drain| blocked(drain, "a").map(|blocked| blocked.cause);
    let cause = until(&mut waits, "the one that is overdue is stuck", stuck).await?;
    assert!(cause.ends_with("the kubelet has not ended its containers"), "{cause}");
    assert_eq!(blocked(&waits, "b"), None);

    pass(Duration::from_mins(1))?;
    assert_eq!(end(&mut skips).await?, Outcome::Drained);
    Ok(())
}

fn both_end(drain: &Drain) -> Option<()> {
    ["a", "b"].iter().all(|pod| stage(drain, pod) == Some(Stage::Terminating)).then_some(())
}
