//! The eviction subresource: the effects of an eviction, and its requirements.

use std::time::Duration;

use anyhow::{Context, Result};
use contract::PodState::{Finished, Pending, Ready, ReadyForLong, Unbound};
use contract::{Place, Said, Target, failure, objects};
use drain::{Answer, PodId};
use serde_json::{Value, json};

const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

fn bad_request(message: &str) -> Said {
    failure(400, "BadRequest", message, Value::Null)
}

/// The refusal because of a precondition.
fn precondition(why: &str) -> Said {
    let message = format!("Operation cannot be fulfilled on Pod \"a\": {why}");
    failure(409, "Conflict", &message, json!({"name": "a", "kind": "Pod"}))
}

fn wrong_uid(pod: &Value) -> Said {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    precondition(&format!(
        "the UID in the precondition ({NO_UID}) does not match the UID in record ({uid}). The object might have been \
         deleted and then recreated"
    ))
}

fn with_uid(uid: &str) -> Value {
    json!({"preconditions": {"uid": uid}})
}

/// The condition that an eviction sets on a pod.
fn mark(pod: &Value) -> Option<[&str; 3]> {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mark = conditions.into_iter().find(|condition| condition["type"] == "DisruptionTarget")?;
    Some(["status", "reason", "message"].map(|field| mark[field].as_str().unwrap_or_default()))
}

const MARK: Option<[&str; 3]> = Some(["True", "EvictionByEvictionAPI", "Eviction API: evicting"]);

/// Seconds since 1970.
fn deadline(pod: &Value) -> i64 {
    let text = pod["metadata"]["deletionTimestamp"].as_str().unwrap();
    text.parse::<jiff::Timestamp>().unwrap().as_second()
}

pub(crate) async fn an_eviction_marks_the_pod_and_begins_its_end(target: &Target) -> Result<()> {
    let place = Place::new(target, "evicted").await?;
    let before = place.pods(&[("b", Ready), ("a", ReadyForLong)]).await?;
    assert_eq!(place.evict("a").await?.said()?, Said::created());
    let pod = place.get("pods/a").await?;
    assert_eq!(mark(&pod), MARK);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let generation = |pod: &Value| pod["metadata"]["generation"].as_i64();
    assert_eq!(generation(&pod), generation(&before).map(|before| before + 1));
    assert_eq!(place.answer("b").await?, Answer::Accepted);
    place.until_gone("pods/b").await
}

pub(crate) async fn a_pod_or_namespace_that_is_not_there(target: &Target) -> Result<()> {
    let place = Place::new(target, "missing").await?;
    let missing = |kind: &str, name: &str| {
        failure(404, "NotFound", &format!("{kind} \"{name}\" not found"), json!({"name": name, "kind": kind}))
    };
    assert_eq!(place.evict("a").await?.said()?, missing("pods", "a"));
    assert_eq!(place.evict_with("a", "?dryRun=All", &json!({})).await?.said()?, missing("pods", "a"));
    assert_eq!(place.answer("a").await?, Answer::Gone);

    let body = json!({"metadata": {"name": "a"}});
    let reply = place.caller().post("/api/v1/namespaces/none/pods/a/eviction", &body).await?;
    assert_eq!(reply.said()?, missing("namespaces", "none"));
    let id = PodId { namespace: "none".to_owned(), name: "a".to_owned(), uid: NO_UID.to_owned() };
    assert_eq!(cluster::evict::would_evict(place.caller().cluster(), &id, None).await, Answer::Gone);
    Ok(())
}

pub(crate) async fn delete_options_count(target: &Target) -> Result<()> {
    let place = Place::new(target, "options").await?;
    let pod = place.pods(&[("b", ReadyForLong), ("a", ReadyForLong)]).await?;
    let options = json!({"gracePeriodSeconds": 7, "preconditions": {
        "uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"],
    }});
    assert_eq!(place.evict_with("a", "", &options).await?.said()?, Said::created());
    assert_eq!(place.get("pods/a").await?["metadata"]["deletionGracePeriodSeconds"], 7);
    let now = json!({"gracePeriodSeconds": 0});
    assert_eq!(place.evict_with("b", "", &now).await?.said()?, Said::created());
    assert_eq!(place.caller().get(&place.path("pods/b")).await?.code, 404, "no grace: gone at once");
    Ok(())
}

/// kube's own client sends this key.
pub(crate) async fn a_misspelt_field_is_ignored_unless_strict(target: &Target) -> Result<()> {
    let place = Place::new(target, "misspelt").await?;
    place.pods(&[("a", ReadyForLong)]).await?;
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"},
        "delete_options": {"gracePeriodSeconds": 7, "preconditions": {"uid": NO_UID}},
    });
    let post = async |query: &str| {
        place.caller().post(&place.path(&format!("pods/a/eviction{query}")), &body).await?.said()
    };
    let strict = "Eviction in version \"v1\" cannot be handled as a Eviction: strict decoding error: unknown field \
                  \"delete_options\"";
    assert_eq!(post("?fieldValidation=Strict").await?, bad_request(strict));
    assert_eq!(post("?fieldValidation=Ignore&dryRun=All").await?, Said::created());
    assert_eq!(post("").await?, Said::created().warning("299 - \"unknown field \\\"delete_options\\\"\""));
    assert_eq!(place.get("pods/a").await?["metadata"]["deletionGracePeriodSeconds"], 30);
    Ok(())
}

pub(crate) async fn bodies(target: &Target) -> Result<()> {
    let place = Place::new(target, "bodies").await?;
    place.pods(&[("a", Ready)]).await?;
    let other_name = bad_request("name in URL does not match name in Eviction object");
    let other_namespace =
        bad_request("the namespace of the provided object does not match the namespace sent on the request");
    for (body, expected) in [
        (json!({"metadata": {"name": "a"}}), Said::created()),
        (
            json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a"}}),
            Said::created(),
        ),
        (
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}}),
            other_name.clone(),
        ),
        (json!({}), other_name),
        (json!({"metadata": {"name": "a", "namespace": "other"}}), other_namespace),
    ] {
        let reply = place.caller().post(&place.path("pods/a/eviction?dryRun=All"), &body).await?;
        assert_eq!(reply.said()?, expected, "{body}");
    }
    for body in ["", "{", "[]"] {
        let reply = place.caller().post_text(&place.path("pods/a/eviction?dryRun=All"), body).await?;
        // The rest of the message are the words of Go's decoder.
        let said = reply.said()?.cut_message_after("must be of type Eviction)");
        let expected = "the object provided is unrecognized (must be of type Eviction)";
        assert_eq!(said, bad_request(expected), "{body}");
    }
    Ok(())
}

pub(crate) async fn a_dry_run_evicts_nobody(target: &Target) -> Result<()> {
    let place = Place::new(target, "dry").await?;
    let pod = place.pods(&[("b", Ready), ("a", Ready)]).await?;
    let budget = place.budget("p", &json!({"minAvailable": 1}), [2, 2, 1, 1]).await?;
    let by_body = json!({"dryRun": ["All"]});
    for (query, options) in [("?dryRun=All", json!({})), ("", by_body.clone()), ("?dryRun=All", by_body)] {
        // Sent twice, because the budget allows only one eviction.
        for name in ["a", "b"] {
            let reply = place.evict_with(name, query, &options).await?;
            assert_eq!(reply.said()?, Said::created(), "{name} {query} {options}");
        }
    }
    let id = place.pod_id("a").await?;
    assert_eq!(cluster::evict::would_evict(place.caller().cluster(), &id, None).await, Answer::Accepted);
    assert_eq!(place.get("pods/a").await?, pod);
    assert_eq!(place.get("poddisruptionbudgets/p").await?, budget);

    let unknown = |kind: &str| {
        let problem = "Unsupported value: [\"Some\"]: supported values: \"All\"";
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: dryRun: {problem}");
        let cause = json!({"reason": "FieldValueNotSupported", "message": problem, "field": "dryRun"});
        failure(422, "Invalid", &message, json!({"group": "meta.k8s.io", "kind": kind, "causes": [cause]}))
    };
    let by_query = place.evict_with("a", "?dryRun=Some", &json!({})).await?;
    assert_eq!(by_query.said()?, unknown("CreateOptions"));
    let by_body = place.evict_with("a", "", &json!({"dryRun": ["Some"]})).await?;
    assert_eq!(by_body.said()?, unknown("DeleteOptions"));
    assert_eq!(place.get("pods/a").await?, pod);
    Ok(())
}

pub(crate) async fn another_uid_is_refused(target: &Target) -> Result<()> {
    let place = Place::new(target, "uid").await?;
    let pod = place.pods(&[("a", Ready)]).await?;
    assert_eq!(place.evict_with("a", "", &with_uid(NO_UID)).await?.said()?, wrong_uid(&pod));
    let version = pod["metadata"]["resourceVersion"].as_str().unwrap();
    let by_version = place.evict_with("a", "", &json!({"preconditions": {"resourceVersion": "1"}})).await?;
    let why = format!(
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The \
         object might have been modified"
    );
    assert_eq!(by_version.said()?, precondition(&why));
    let other = PodId { uid: NO_UID.to_owned(), ..place.pod_id("a").await? };
    let cordoned = place.cordoned().await?;
    let answer = cluster::evict::evict(place.caller().cluster(), &cordoned, &other, None).await;
    assert_eq!(answer, Answer::Gone, "ours is gone: another pod has its name");
    assert_eq!(cluster::evict::would_evict(place.caller().cluster(), &other, None).await, Answer::Gone);
    assert_eq!(place.get("pods/a").await?, pod);
    Ok(())
}

/// A wrong UID uses up a disruption for two minutes, unless it was a dry run.
pub(crate) async fn another_uid_burns_a_disruption(target: &Target) -> Result<()> {
    let place = Place::new(target, "burnt").await?;
    let pod = place.pods(&[("b", Ready), ("a", Ready)]).await?;
    let before = place.budget("p", &json!({"minAvailable": 1}), [2, 2, 1, 1]).await?;
    let dry = place.evict_with("a", "?dryRun=All", &with_uid(NO_UID)).await?;
    assert_eq!(dry.said()?, wrong_uid(&pod));
    assert_eq!(place.get("poddisruptionbudgets/p").await?, before);

    assert_eq!(place.evict_with("a", "", &with_uid(NO_UID)).await?.said()?, wrong_uid(&pod));
    let budget = place.until_budget("p", [2, 1, 1, 0]).await?;
    let burnt = budget["status"]["disruptedPods"].as_object().context("no disruptedPods")?;
    assert_eq!(burnt.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(place.evict("b").await?.code, 429);
    assert_eq!(place.get("pods/a").await?["metadata"]["deletionTimestamp"], Value::Null);
    Ok(())
}

pub(crate) async fn a_terminating_pod_is_evicted_again(target: &Target) -> Result<()> {
    let place = Place::new(target, "terminating").await?;
    place.pods(&[("a", ReadyForLong)]).await?;
    let first =
        place.caller().delete(&place.path("pods/a"), &json!({"gracePeriodSeconds": 70})).await?.object()?;
    place.budget("p", &json!({"minAvailable": 1}), [1, 0, 1, 0]).await?;
    assert_eq!(place.evict("a").await?.said()?, Said::created(), "its budget is not asked");
    let longer = place.evict_with("a", "", &json!({"gracePeriodSeconds": 200})).await?;
    assert_eq!(longer.said()?, Said::created());
    let pod = place.get("pods/a").await?;
    assert_eq!(
        [deadline(&pod), pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap()],
        [deadline(&first), 70]
    );
    // The server never gives less than what is left: a machine that is slow needs many seconds up to here.
    let shorter = place.evict_with("a", "", &json!({"gracePeriodSeconds": 20})).await?;
    assert_eq!(shorter.said()?, Said::created());
    let pod = place.get("pods/a").await?;
    assert_eq!(
        [deadline(&pod), pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap()],
        [deadline(&first) - 50, 20]
    );
    assert_eq!(place.answer("a").await?, Answer::Accepted);
    Ok(())
}

pub(crate) async fn a_pod_that_does_not_run_needs_no_budget(target: &Target) -> Result<()> {
    let place = Place::new(target, "idle").await?;
    place.pods(&[("bound", Pending), ("finished", Finished), ("unbound", Unbound)]).await?;
    place
        .create("poddisruptionbudgets", &objects::budget("p", objects::APP, &json!({"minAvailable": 9})))
        .await?;
    let observed = |budget: &Value| (budget["status"]["desiredHealthy"] == 9).then_some(());
    place.until("the budget has counted", "poddisruptionbudgets/p", observed).await?;
    for name in ["bound", "finished", "unbound"] {
        assert_eq!(place.evict(name).await?.said()?, Said::created(), "{name}");
    }
    let bound = place.get("pods/bound").await?;
    assert_eq!((mark(&bound), &bound["metadata"]["deletionGracePeriodSeconds"]), (MARK, &json!(30)));
    for name in ["finished", "unbound"] {
        assert_eq!(
            place.caller().get(&place.path(&format!("pods/{name}"))).await?.code,
            404,
            "{name}: gone at once"
        );
    }
    Ok(())
}

pub(crate) async fn a_terminating_namespace_takes_deletions_only(target: &Target) -> Result<()> {
    let place = Place::new(target, "going").await?;
    let namespace = &place.namespace;
    place.pods(&[("a", ReadyForLong), ("b", ReadyForLong), ("c", ReadyForLong)]).await?;
    let cordoned = place.cordoned().await?;
    place.caller().delete(&place.path("pods/c"), &json!({})).await?.object()?;
    let gone =
        place.caller().delete(&format!("/api/v1/namespaces/{namespace}"), &json!({})).await?.object()?;
    assert_eq!(gone["status"]["phase"], "Terminating");

    let refused = |pod: &str| {
        let message = format!(
            "pods \"{pod}\" is forbidden: unable to create new content in namespace {namespace} because it is being \
             terminated"
        );
        let cause = json!({
            "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        });
        failure(403, "Forbidden", &message, json!({"name": pod, "kind": "pods", "causes": [cause]}))
    };
    for (pod, query) in [("a", ""), ("a", "?dryRun=All"), ("c", "")] {
        assert_eq!(place.evict_with(pod, query, &json!({})).await?.said()?, refused(pod), "{pod} {query}");
    }
    let mut pod = objects::abandoned_pod("d");
    pod["metadata"]["namespace"] = json!(namespace);
    assert_eq!(place.caller().post(&place.path("pods"), &pod).await?.said()?, refused("d"));
    assert_eq!(place.answer("a").await?, Answer::NamespaceTerminating);
    let id = place.pod_id("b").await?;
    let cluster = place.caller().cluster();
    assert_eq!(cluster::evict::delete(cluster, &cordoned, &id, None).await, Answer::Accepted);
    assert!(place.get("pods/b").await?["metadata"]["deletionTimestamp"].is_string());
    for name in ["a", "b", "c"] {
        let path = place.path(&format!("pods/{name}"));
        place.caller().delete(&path, &json!({"gracePeriodSeconds": 0})).await?.object()?;
    }
    let is_gone = |namespace: &Value| namespace.is_null().then_some(());
    place.caller().until("the namespace is gone", &format!("/api/v1/namespaces/{namespace}"), is_gone).await
}

pub(crate) async fn who_may_evict(target: &Target) -> Result<()> {
    let place = Place::new(target, "rights").await?;
    let namespace = &place.namespace;
    place.pods(&[("a", Ready)]).await?;
    let id = place.pod_id("a").await?;
    let body = json!({"metadata": {"name": "a"}});
    let path = place.path("pods/a/eviction");

    let wrong = target.with_wrong_token().await?;
    let unauthorized = failure(401, "Unauthorized", "Unauthorized", Value::Null);
    assert_eq!(wrong.post(&path, &body).await?.said()?, unauthorized);
    let text = "the API server does not accept our credentials: Unauthorized".to_owned();
    assert_eq!(cluster::evict::would_evict(wrong.cluster(), &id, None).await, Answer::Denied { text });

    let nobody = target.as_nobody("create", "pods/eviction", namespace, "a").await?;
    let message = format!(
        "pods \"a\" is forbidden: User \"nobody\" cannot create resource \"pods/eviction\" in API group \"\" in the \
         namespace \"{namespace}\""
    );
    let forbidden = failure(403, "Forbidden", &message, json!({"name": "a", "kind": "pods"}));
    assert_eq!(nobody.post(&path, &body).await?.said()?, forbidden);
    let text = format!("{message}; needs the right to `create` `pods/eviction`");
    assert_eq!(cluster::evict::would_evict(nobody.cluster(), &id, None).await, Answer::Denied { text });
    Ok(())
}

/// No event shows when the real server has learned the policy: evictions are sent until it refuses.
pub(crate) async fn an_admission_policy_denies(target: &Target) -> Result<()> {
    let place = Place::new(target, "policy").await?;
    let policy = &place.namespace;
    place.pods(&[("a", Ready)]).await?;
    target.forbid_evictions(policy, "a", "not this pod").await?;
    let reply = loop {
        let reply = place.evict_with("a", "?dryRun=All", &json!({})).await?;
        if reply.code != 201 {
            break reply;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let denial =
        format!("ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: not this pod");
    let message = format!("pods \"a\" is forbidden: {denial}");
    let details = json!({"name": "a", "kind": "pods", "causes": [{"message": denial}]});
    assert_eq!(reply.said()?, failure(403, "Forbidden", &message, details));
    assert_eq!(place.answer("a").await?, Answer::Webhook { text: message });
    Ok(())
}
