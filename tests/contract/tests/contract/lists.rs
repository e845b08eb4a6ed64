//! LIST: its content, and the moment that it shows.

use anyhow::Result;
use contract::PodState::{Pending, Unbound};
use contract::{Place, Target, failure, objects};
use serde_json::{Value, json};

/// The list at `path`.
async fn list(place: &Place<'_>, path: &str) -> Result<Value> {
    place.caller().get(path).await?.object()
}

/// Names of the listed objects, in the list's order.
fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

pub(crate) async fn a_list_has_all_that_was_written_before(target: &Target) -> Result<()> {
    let place = Place::new(target, "list").await?;
    let path = place.path("pods");
    assert_eq!(list(&place, &path).await?["items"], json!([]));
    for (count, name) in ["c", "a", "b"].iter().enumerate() {
        let pod = place.pods(&[(name, Pending)]).await?;
        let list = list(&place, &path).await?;
        assert_eq!([&list["kind"], &list["apiVersion"]], ["PodList", "v1"]);
        assert_eq!(names(&list).len(), count + 1);
        let (of_list, of_pod) = (&list["metadata"]["resourceVersion"], &pod["metadata"]["resourceVersion"]);
        assert!(number(of_list) >= number(of_pod), "{of_list} {of_pod}");
    }
    let list = list(&place, &path).await?;
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert!(list["items"][0].get("kind").is_none(), "the list says the kind once for all");
    Ok(())
}

pub(crate) async fn fields_select(target: &Target) -> Result<()> {
    let place = Place::new(target, "fields").await?;
    let (a, b) = (place.node.clone(), place.add_node("b").await?);
    place.pods(&[("one", Pending), ("waiting", Unbound)]).await?;
    let other = objects::bound_pod("other", &b, objects::Kubelet::NeverStarts);
    place.create("pods", &other).await?;
    for (selector, expected) in [
        (format!("spec.nodeName={a}"), vec!["one"]),
        (format!("spec.nodeName=={a}"), vec!["one"]),
        (format!("spec.nodeName!={a}"), vec!["other", "waiting"]),
        ("spec.nodeName=".to_owned(), vec!["waiting"]),
        ("metadata.name=one".to_owned(), vec!["one"]),
        (format!("metadata.name=one,spec.nodeName={b}"), vec![]),
        ("status.phase=Pending".to_owned(), vec!["one", "other", "waiting"]),
        ("status.phase!=Pending".to_owned(), vec![]),
        (format!("metadata.namespace={}", place.namespace), vec!["one", "other", "waiting"]),
    ] {
        let list = list(&place, &place.path(&format!("pods?fieldSelector={selector}"))).await?;
        assert_eq!(names(&list), expected, "{selector}");
    }
    let everywhere = list(&place, &format!("/api/v1/pods?fieldSelector=spec.nodeName={a}")).await?;
    assert_eq!(names(&everywhere), ["one"]);
    let nodes = list(&place, &format!("/api/v1/nodes?fieldSelector=metadata.name={a}")).await?;
    assert_eq!(names(&nodes), [&a]);
    for (selector, problem) in [
        ("spec.foo=x", "field label not supported: spec.foo"),
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    ] {
        let reply = place.caller().get(&place.path(&format!("pods?fieldSelector={selector}"))).await?;
        assert_eq!(reply.said()?, failure(400, "BadRequest", problem, Value::Null), "{selector}");
    }
    Ok(())
}

pub(crate) async fn labels_select(target: &Target) -> Result<()> {
    let place = Place::new(target, "labels").await?;
    for (name, labels) in
        [("a", json!({"app": "x", "tier": "1"})), ("b", json!({"app": "y"})), ("c", json!({}))]
    {
        let mut pod = objects::abandoned_pod(name);
        pod["metadata"]["labels"] = labels;
        place.create("pods", &pod).await?;
    }
    for (selector, expected) in [
        ("", vec!["a", "b", "c"]),
        ("app=x", vec!["a"]),
        ("app==x", vec!["a"]),
        ("app!=x", vec!["b", "c"]),
        ("app%20in%20(x,y)", vec!["a", "b"]),
        ("app%20notin%20(x)", vec!["b", "c"]),
        ("app", vec!["a", "b"]),
        ("!app", vec!["c"]),
        ("app,tier=1", vec!["a"]),
        ("app,tier%20notin%20(1)", vec!["b"]),
    ] {
        let list = list(&place, &place.path(&format!("pods?labelSelector={selector}"))).await?;
        assert_eq!(names(&list), expected, "{selector}");
    }
    let reply = place.caller().get(&place.path("pods?labelSelector=app%20in%20x")).await?;
    let problem = "unable to parse requirement: found 'x' expected: '('";
    assert_eq!(reply.said()?, failure(400, "BadRequest", problem, Value::Null));
    Ok(())
}

pub(crate) async fn pages_are_of_one_moment(target: &Target) -> Result<()> {
    let place = Place::new(target, "pages").await?;
    place.pods(&[("a", Unbound), ("b", Unbound), ("c", Unbound), ("d", Unbound), ("e", Unbound)]).await?;
    let path = place.path("pods?limit=2");
    let first = list(&place, &path).await?;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    place.caller().delete(&place.path("pods/d"), &json!({})).await?.object()?;
    place.pods(&[("bb", Unbound)]).await?;

    let mut page = first.clone();
    for expected in [&["c", "d"][..], &["e"]] {
        let token = page["metadata"]["continue"].as_str().unwrap();
        page = list(&place, &format!("{path}&continue={token}")).await?;
        assert_eq!(names(&page), expected);
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    }
    assert_eq!([&page["metadata"]["continue"], &page["metadata"]["remainingItemCount"]], [&Value::Null; 2]);
    assert_eq!(names(&list(&place, &place.path("pods?limit=500")).await?), ["a", "b", "bb", "c", "e"]);

    let selected = list(&place, &format!("{path}&labelSelector=app")).await?;
    assert!(selected["metadata"]["continue"].is_string());
    assert_eq!(
        selected["metadata"]["remainingItemCount"],
        Value::Null,
        "the server does not count selected objects"
    );
    Ok(())
}

pub(crate) async fn a_broken_page_token_is_refused(target: &Target) -> Result<()> {
    let place = Place::new(target, "token").await?;
    let reply = place.caller().get(&place.path("pods?limit=2&continue=abc")).await?;
    // The rest of the message are the words of Go's JSON parser.
    let said = reply.said()?.cut_message_after("continue key is not valid");
    let problem = "invalid continue token: continue key is not valid";
    assert_eq!(said, failure(400, "BadRequest", problem, Value::Null));
    Ok(())
}

pub(crate) async fn a_list_of_a_version(target: &Target) -> Result<()> {
    let place = Place::new(target, "version").await?;
    let pod = place.pods(&[("a", Unbound)]).await?;
    let version = number(&list(&place, &place.path("pods")).await?["metadata"]["resourceVersion"]);
    assert!(version >= number(&pod["metadata"]["resourceVersion"]));
    let later = place.pods(&[("b", Unbound)]).await?;
    let exact = place.path(&format!("pods?resourceVersion={version}&resourceVersionMatch=Exact"));
    let then = list(&place, &exact).await?;
    assert_eq!((names(&then), number(&then["metadata"]["resourceVersion"])), (vec!["a"], version));
    let later = number(&later["metadata"]["resourceVersion"]);
    let at_least = place.path(&format!("pods?resourceVersion={later}&resourceVersionMatch=NotOlderThan"));
    assert_eq!(names(&list(&place, &at_least).await?), ["a", "b"]);
    let from_cache = place.path(&format!("pods?resourceVersion={later}"));
    assert_eq!(names(&list(&place, &from_cache).await?), ["a", "b"]);
    Ok(())
}

/// The server has lost writes, or another server has its address. The real server waits 3 s first.
pub(crate) async fn a_version_of_the_future(target: &Target) -> Result<()> {
    let place = Place::new(target, "future").await?;
    let reply = place.caller().get(&place.path("pods?resourceVersion=999999999")).await?;
    let said = reply.said()?.cut_message_after("current: ");
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    let message = "Timeout: Too large resource version: 999999999, current: ";
    assert_eq!(said, failure(504, "Timeout", message, json!({"causes": [cause]})).retry_after(1));
    Ok(())
}
