//! The server's answers to an eviction.

use std::time::Duration;

use anyhow::{Context, Result};
use cluster::drainer::Drain;
use contract::PodState::{Ready, ReadyForLong};
use contract::{Place, Target, WEBHOOK, objects};
use drain::Outcome;
use drain::state::{Failure, Stage};
use fake_cluster::{Controller, Effect, Fault, Reply};
use serde_json::{Value, json};

use crate::driving::{
    blocked, codes, deletions, drain, end, evictions, fake, insistent, is_untouched, line, meanwhile,
    options, patient, paused, requests, stage, turn, uid_sent, until,
};

/// A refusal as the API writes it.
fn refusal(code: u16, reason: &str, message: &str, details: &Value) -> Reply {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": details, "code": code,
    });
    Reply::json(code, &body)
}

/// Sets the effect on the next eviction.
fn next_eviction(target: &Target, effect: Effect) -> Result<()> {
    fake(target)?.faults().add(Fault::on("create", "pods/eviction", effect));
    Ok(())
}

/// The codes of all answers to this client's evictions.
fn eviction_codes(target: &Target, client: &str) -> Result<Vec<u16>> {
    codes(target, client, "create", "pods/eviction")
}

async fn is_gone(place: &Place<'_>, pod: &str) -> Result<bool> {
    Ok(place.caller().get(&place.path(&format!("pods/{pod}"))).await?.code == 404)
}

/// The budget's watch causes the next try: by the clock it would be due in 50 minutes.
pub(crate) async fn a_budget_refuses_until_it_has_room(target: &Target) -> Result<()> {
    let place = Place::new(target, "t01").await?;
    place.pods(&[("a", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);

    let found = until(&mut drain, "the budget refuses", |drain| blocked(drain, "a")).await?;
    let words = "PodDisruptionBudget: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget p needs 1 healthy pods and has 1 currently";
    assert_eq!(found.cause, words);
    let names: Vec<_> = found.budgets.iter().map(|guard| guard.budget.name.as_str()).collect();
    assert_eq!(names, ["p"]);
    let found = place.get("pods/a").await?;
    assert!(is_untouched(&found), "{found}");

    let room = async {
        let node = place.add_node("b").await?;
        place.create("pods", &objects::bound_pod("b", &node, objects::Kubelet::Quick)).await
    };
    meanwhile(&mut drain, room).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert!(is_gone(&place, "a").await? && !is_gone(&place, "b").await?);
    assert_eq!(evictions(&client)?, 2, "one refused, one not");
    Ok(())
}

/// A 429 without a budget: plain text, and `Retry-After: 1`.
pub(crate) async fn a_busy_server_is_asked_again_when_it_says(target: &Target) -> Result<()> {
    let place = Place::new(target, "t02").await?;
    let user = place.namespace.as_str();
    place.pods(&[("a", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 0}), [1, 1, 0, 1]).await?;
    let client = target.client_without(user, "no verb", "no resource").await?;
    let busy = target.make_busy(user, user).await?;

    // A drain that takes this 429 for a budget's would try again in 50 minutes.
    let mut drain = drain(&client, patient(), &place.node);
    let (text, pause) = paused(&mut drain, "a").await?;
    assert_eq!(text, "Too many requests, please try again later.");
    let wish = Duration::from_secs(1);
    assert!((wish..=wish.mul_f64(1.25)).contains(&pause), "{pause:?}");
    assert_eq!(drain.blocked(), [], "a busy server does not block a pod");

    meanwhile(&mut drain, busy.end()).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert!(is_gone(&place, "a").await? && evictions(&client)? >= 2);
    Ok(())
}

/// The UID of a virtual machine. The real server does not know the kind, so a machine that does not exist is no problem
/// there.
fn machine(target: &Target, place: &Place<'_>) -> Result<Value> {
    let Some(fake) = target.as_fake() else { return Ok(json!("11111111-2222-4333-8444-555555555555")) };
    let machine = fake.apply(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": place.namespace},
    }))?;
    Ok(machine["metadata"]["uid"].clone())
}

/// The webhook chooses the code itself, and it is the same as a budget's.
pub(crate) async fn a_webhook_denies(target: &Target) -> Result<()> {
    const WHY: &str = "VMI vm is configured with an eviction strategy but is not live-migratable";
    let place = Place::new(target, "t03").await?;
    let mut launcher = objects::bound_pod("launcher", &place.node, objects::Kubelet::Quick);
    launcher["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "controller": true,
        "uid": machine(target, &place)?,
    }]);
    place.create("pods", &launcher).await?;
    target.deny_evictions(&place.namespace, 429, WHY).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, insistent(), &place.node);

    let found = until(&mut drain, "the webhook denies", |drain| blocked(drain, "launcher")).await?;
    let expected = format!("admission webhook \"{WEBHOOK}\" denied the request: {WHY}");
    assert_eq!(found.cause, expected);
    assert!(found.budgets.is_empty(), "{found:?}");
    assert_eq!(found.holder, format!("KubeVirt: virtual machine {}/vm", place.namespace));

    meanwhile(&mut drain, target.allow_evictions(&place.namespace)).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert!(is_gone(&place, "launcher").await? && evictions(&client)? >= 2);
    Ok(())
}

/// A 500 without a reason. When a person removes one budget, the drain sees it at once.
pub(crate) async fn two_budgets(target: &Target) -> Result<()> {
    let place = Place::new(target, "t04").await?;
    place.pods(&[("a", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 0}), [1, 1, 0, 1]).await?;
    place.budget("q", &json!({"minAvailable": 0}), [1, 1, 0, 1]).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);

    let found = until(&mut drain, "both refuse", |drain| blocked(drain, "a")).await?;
    assert!(found.cause.starts_with("more than one PodDisruptionBudget selects the pod"), "{found:?}");
    assert!(found.hint.contains("only one of p, q selects"), "{found:?}");

    let path = place.path("poddisruptionbudgets/q");
    meanwhile(&mut drain, async { place.caller().delete(&path, &json!({})).await?.object() }).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert!(is_gone(&place, "a").await?);
    assert_eq!(evictions(&client)?, 2, "a budget that is gone is seen by its watch");
    Ok(())
}

/// A conflict says that the pod was changed, not that it is gone.
pub(crate) async fn another_version_is_no_other_pod(target: &Target) -> Result<()> {
    let place = Place::new(target, "t06").await?;
    place.pods(&[("a", Ready)]).await?;
    let message = "Operation cannot be fulfilled on Pod \"a\": the ResourceVersion in the precondition (1) does not \
                   match the ResourceVersion in record (2). The object might have been modified";
    let conflict = refusal(409, "Conflict", message, &json!({"name": "a", "kind": "Pod"}));
    next_eviction(target, Effect::Answer(conflict))?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);

    let (text, _) = paused(&mut drain, "a").await?;
    assert!(text.contains("the ResourceVersion in the precondition"), "{text}");
    assert_eq!(drain.blocked(), []);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(eviction_codes(target, &place.namespace)?, [409, 201]);
    assert!(is_gone(&place, "a").await?);
    Ok(())
}

/// Evictions never succeed in this namespace; a deletion with the pod's own grace does. A pod that is already
/// terminating is left alone.
pub(crate) async fn a_terminating_namespace_takes_deletions_only(target: &Target) -> Result<()> {
    let place = Place::new(target, "t07").await?;
    place.pods(&[("a", ReadyForLong), ("ending", ReadyForLong)]).await?;
    let own = json!({"gracePeriodSeconds": 9});
    place.caller().delete(&place.path("pods/ending"), &own).await?.object()?;
    place.budget("p", &json!({"minAvailable": 1}), [2, 1, 1, 0]).await?;
    if let Some(fake) = target.as_fake() {
        // Only we delete pods in the namespace. The real controller begins 5 s later.
        fake.faults().pause(Controller::Namespace);
    }
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, insistent(), &place.node);
    until(&mut drain, "the budget refuses", |drain| blocked(drain, "a")).await?;

    let path = format!("/api/v1/namespaces/{}", place.namespace);
    meanwhile(&mut drain, async { place.caller().delete(&path, &json!({})).await?.object() }).await?;
    let ends = |drain: &Drain| (stage(drain, "a") == Some(Stage::Terminating)).then_some(());
    until(&mut drain, "the pod ends", ends).await?;
    let pod = place.get("pods/a").await?;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30, "its own grace");

    let asked = client.asked()?;
    let change = |asked: &&contract::Asked| asked.is_change() && asked.resource.starts_with("pods");
    let changes: Vec<_> = asked.iter().filter(change).collect();
    assert!(changes.iter().all(|change| change.name == "a"), "the ending pod is left alone: {changes:?}");
    assert_eq!(deletions(&client)?, 1, "{changes:?}");
    if target.as_fake().is_some() {
        let evictions = eviction_codes(target, &place.namespace)?;
        assert_eq!(evictions.last(), Some(&403), "{evictions:?}");
        let deletion = requests(target, &place.namespace, "delete", "pods")?.remove(0);
        assert_eq!(uid_sent(&deletion), pod["metadata"]["uid"].as_str().unwrap());
        assert_eq!(options(&deletion).get("gracePeriodSeconds"), None);
    }
    let kill = async {
        for name in ["a", "ending"] {
            let path = place.path(&format!("pods/{name}"));
            place.caller().delete(&path, &json!({"gracePeriodSeconds": 0})).await?.object()?;
        }
        Ok(())
    };
    meanwhile(&mut drain, kill).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    Ok(())
}

/// The evictions are tried again for half a minute, because servers refuse for moments after a restart; then the report
/// names the missing right.
pub(crate) async fn no_right_to_evict_is_final(target: &Target) -> Result<()> {
    let place = Place::new(target, "t08").await?;
    place.pods(&[("a", Ready), ("b", Ready)]).await?;
    let client = target.client_without(&place.namespace, "create", "pods/eviction").await?;
    let mut drain = drain(&client, insistent(), &place.node);
    let is_denied = |drain: &cluster::drainer::Drain| {
        drain::progress::attempt(drain.state())?.pods().values().all(|track| track.tries() >= 1).then_some(())
    };
    until(&mut drain, "both pods were asked for", is_denied).await?;
    while drain.ended().is_none() {
        turn(Duration::from_secs(10));
        drain.next().await;
    }
    assert_eq!(end(&mut drain).await?, Outcome::Failed(Failure::Stuck));
    for pod in ["a", "b"] {
        let found = blocked(&drain, pod).context("the pod is not reported")?;
        assert!(found.cause.contains("is forbidden: User "), "{found:?}");
        assert!(found.cause.ends_with("; needs the right to `create` `pods/eviction`"), "{found:?}");
        let found = place.get(&format!("pods/{pod}")).await?;
        assert!(is_untouched(&found), "{found}");
    }
    // At least three tries of each pod, and no deletion instead.
    assert!(evictions(&client)? >= 6, "{}", evictions(&client)?);
    assert_eq!(deletions(&client)?, 0);
    Ok(())
}

/// The other 403 about numbers: more disruptions than the server keeps, and no controller that counts them off.
pub(crate) async fn too_many_disrupted_pods_pass(target: &Target) -> Result<()> {
    let place = Place::new(target, "t09").await?;
    place.pods(&[("a", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 0}), [1, 1, 0, 1]).await?;
    target.pause_controller_manager()?;
    let disrupted = (0..=2000).map(|number| (format!("pod-{number}"), json!("2026-01-01T00:00:00Z")));
    let disrupted: serde_json::Map<_, _> = disrupted.collect();
    let status = json!({"status": {"disruptedPods": disrupted}});
    place.patch("poddisruptionbudgets/p/status", &status).await?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);
    let (text, _) = paused(&mut drain, "a").await?;
    assert!(text.contains("DisruptedPods map too big"), "{text}");
    assert!(is_untouched(&place.get("pods/a").await?));
    target.resume_controller_manager()?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert!(is_gone(&place, "a").await?);
    Ok(())
}

/// A 504 with `retryAfterSeconds`.
pub(crate) async fn write_conflicts_on_a_budget_pass(target: &Target) -> Result<()> {
    let place = Place::new(target, "t10").await?;
    place.pods(&[("a", Ready)]).await?;
    let message = "Timeout: couldn't update PodDisruptionBudget \"p\" due to conflicts";
    let conflicts = refusal(504, "Timeout", message, &json!({"retryAfterSeconds": 10}));
    next_eviction(target, Effect::Answer(conflicts.header("Retry-After", "10")))?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);
    let (text, pause) = paused(&mut drain, "a").await?;
    assert!(text.contains("couldn't update PodDisruptionBudget"), "{text}");
    let wish = Duration::from_secs(10);
    assert!((wish..=wish.mul_f64(1.25)).contains(&pause), "{pause:?}");
    turn(pause);
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(eviction_codes(target, &place.namespace)?, [504, 201]);
    Ok(())
}

/// It is unknown whether the server has acted: the snapshot shows it. A pod that terminates is not evicted again.
pub(crate) async fn the_connection_breaks_after_the_server_has_acted(target: &Target) -> Result<()> {
    let place = Place::new(target, "t11").await?;
    place.pods(&[("a", ReadyForLong)]).await?;
    next_eviction(target, Effect::ResetAfter)?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, insistent(), &place.node);
    let ends = |drain: &Drain| (stage(drain, "a") == Some(Stage::Terminating)).then_some(());
    until(&mut drain, "the pod is seen to end", ends).await?;
    turn(Duration::from_mins(1));
    let kill = async {
        let path = place.path("pods/a");
        place.caller().delete(&path, &json!({"gracePeriodSeconds": 0})).await?.object()
    };
    meanwhile(&mut drain, kill).await?;
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(eviction_codes(target, &place.namespace)?, [0]);
    Ok(())
}

pub(crate) async fn the_connection_breaks_before_the_server_has_acted(target: &Target) -> Result<()> {
    let place = Place::new(target, "t11").await?;
    place.pods(&[("a", Ready)]).await?;
    next_eviction(target, Effect::ResetBefore)?;
    let client = target.client(&place.namespace).await?;
    let mut drain = drain(&client, patient(), &place.node);
    let (text, _) = paused(&mut drain, "a").await?;
    assert!(
        text.contains(&format!("{}/a", place.namespace)) && text.contains("API server 127.0.0.1:"),
        "{text}"
    );
    assert_eq!(end(&mut drain).await?, Outcome::Drained);
    assert_eq!(eviction_codes(target, &place.namespace)?, [0, 201]);
    assert!(is_gone(&place, "a").await?);
    Ok(())
}

/// The 404 comes from a proxy, or is about a budget that was just deleted: no reason to delete pods without asking
/// budgets.
pub(crate) async fn a_404_of_something_else_deletes_nothing(target: &Target) -> Result<()> {
    let budget = json!({"name": "p", "group": "policy", "kind": "poddisruptionbudgets"});
    for reply in [
        Reply::text(404, "404 page not found\n"),
        Reply::text(404, "<html>not found</html>"),
        refusal(404, "NotFound", "the server could not find the requested resource", &json!({})),
        refusal(404, "NotFound", "poddisruptionbudgets.policy \"p\" not found", &budget),
    ] {
        let place = Place::new(target, "t15").await?;
        place.pods(&[("a", Ready)]).await?;
        next_eviction(target, Effect::Answer(reply))?;
        let client = target.client(&place.namespace).await?;
        let mut drain = drain(&client, patient(), &place.node);
        let (text, _) = paused(&mut drain, "a").await?;
        assert!(text.contains("404") || text.contains("not found"), "{text}");
        assert_eq!(end(&mut drain).await?, Outcome::Drained);
        assert_eq!(eviction_codes(target, &place.namespace)?, [404, 201]);
        assert_eq!(deletions(&client)?, 0);
        assert_eq!(line(&drain, "a"), None);
    }
    Ok(())
}
