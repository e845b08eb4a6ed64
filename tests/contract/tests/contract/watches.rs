//! WATCH: its events, and where it begins.

use anyhow::{Context, Result};
use contract::PodState::{Pending, Unbound};
use contract::{Place, Target, Watch, objects};
use serde_json::{Value, json};

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

fn number(object: &Value) -> u64 {
    version(object).parse().unwrap()
}

/// The present version of the collection.
async fn now(place: &Place<'_>) -> Result<String> {
    Ok(version(&place.get("pods").await?).to_owned())
}

/// Checks that the next change has this type and object.
async fn expect(watch: &mut Watch, kind: &str, name: &str) -> Result<Value> {
    let (found, object) = watch.change().await?;
    assert_eq!((found.as_str(), &object["metadata"]["name"]), (kind, &json!(name)), "{object}");
    assert_eq!([&object["kind"], &object["apiVersion"]], ["Pod", "v1"]);
    Ok(object)
}

pub(crate) async fn a_watch_goes_on_from_a_version(target: &Target) -> Result<()> {
    let place = Place::new(target, "resume").await?;
    let path = place.path("leases");
    let before = place.get("leases").await?;
    let made = place.create("leases", &json!({"metadata": {"name": "a"}, "spec": {}})).await?;
    let changed = place.patch("leases/a", &json!({"metadata": {"annotations": {"n": "1"}}})).await?;
    place.caller().delete(&place.path("leases/a"), &json!({})).await?.object()?;

    let from = |object: &Value| format!("resourceVersion={}", version(object));
    let mut watch = place.caller().watch(&path, &from(&before)).await?;
    assert_eq!(watch.change().await?, ("ADDED".to_owned(), made.clone()));
    assert_eq!(watch.change().await?, ("MODIFIED".to_owned(), changed.clone()));
    let (kind, deleted) = watch.change().await?;
    assert_eq!((kind.as_str(), &deleted["metadata"]["annotations"]["n"]), ("DELETED", &json!("1")));
    assert!(number(&deleted) > number(&changed), "the version of the deletion, to go on from");

    let mut watch = place.caller().watch(&path, &from(&made)).await?;
    assert_eq!(watch.change().await?.0, "MODIFIED");
    let mut watch = place.caller().watch(&path, &from(&deleted)).await?;
    let next = place.create("leases", &json!({"metadata": {"name": "b"}, "spec": {}})).await?;
    assert_eq!(watch.change().await?, ("ADDED".to_owned(), next));
    Ok(())
}

/// A pod without grace, too, is seen terminating by its watchers before it is gone.
pub(crate) async fn the_end_of_a_pod_is_two_events(target: &Target) -> Result<()> {
    let place = Place::new(target, "end").await?;
    place.pods(&[("a", Pending), ("b", Unbound)]).await?;
    for (name, grace) in [("a", json!({"gracePeriodSeconds": 0})), ("b", json!({}))] {
        let query = format!("fieldSelector=metadata.name={name}&resourceVersion={}", now(&place).await?);
        let mut watch = place.caller().watch(&place.path("pods"), &query).await?;
        place.caller().delete(&place.path(&format!("pods/{name}")), &grace).await?.object()?;
        let ending = expect(&mut watch, "MODIFIED", name).await?;
        assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 0);
        assert!(ending["metadata"]["deletionTimestamp"].is_string());
        let gone = expect(&mut watch, "DELETED", name).await?;
        assert!(number(&gone) > number(&ending));
    }
    Ok(())
}

pub(crate) async fn a_watch_without_a_version_begins_with_what_is_there(target: &Target) -> Result<()> {
    let place = Place::new(target, "anew").await?;
    place.pods(&[("a", Pending), ("b", Pending)]).await?;
    let path = place.path("pods");
    let mut watches = Vec::new();
    for query in ["", "resourceVersion=0"] {
        let mut watch = place.caller().watch(&path, query).await?;
        expect(&mut watch, "ADDED", "a").await?;
        expect(&mut watch, "ADDED", "b").await?;
        watches.push(watch);
    }
    place.pods(&[("c", Pending)]).await?;
    for watch in &mut watches {
        expect(watch, "ADDED", "c").await?;
    }
    Ok(())
}

pub(crate) async fn a_watch_can_stream_the_list(target: &Target) -> Result<()> {
    let place = Place::new(target, "stream").await?;
    place.pods(&[("a", Pending), ("b", Pending)]).await?;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = place.caller().watch(&place.path("pods"), query).await?;
    expect(&mut watch, "ADDED", "a").await?;
    expect(&mut watch, "ADDED", "b").await?;
    let end = watch.next().await?.context("the watch has ended")?;
    assert_eq!(end["type"], "BOOKMARK", "{end}");
    assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert!(number(&end["object"]) > 0);
    place.pods(&[("c", Pending)]).await?;
    expect(&mut watch, "ADDED", "c").await?;
    Ok(())
}

pub(crate) async fn what_leaves_the_selector_is_deleted_for_it(target: &Target) -> Result<()> {
    let place = Place::new(target, "leaves").await?;
    place.pods(&[("a", Pending)]).await?;
    let query = format!("labelSelector=app=x&resourceVersion={}", now(&place).await?);
    let mut watch = place.caller().watch(&place.path("pods"), &query).await?;
    let app = |value: &str| json!({"metadata": {"labels": {"app": value}}});

    let left = place.patch("pods/a", &app("y")).await?;
    let seen = expect(&mut watch, "DELETED", "a").await?;
    assert_eq!(seen["metadata"]["labels"]["app"], "x", "the last state that fitted");
    assert_eq!(version(&seen), version(&left), "but the version of the change");
    place.patch("pods/a", &app("z")).await?;
    let back = place.patch("pods/a", &app("x")).await?;
    assert_eq!(expect(&mut watch, "ADDED", "a").await?["metadata"], back["metadata"]);

    let query = format!("fieldSelector=status.phase=Pending&resourceVersion={}", now(&place).await?);
    let mut watch = place.caller().watch(&place.path("pods"), &query).await?;
    place.patch("pods/a/status", &json!({"status": {"phase": "Running"}})).await?;
    assert_eq!(expect(&mut watch, "DELETED", "a").await?["status"]["phase"], "Pending");
    Ok(())
}

/// The event of a pod that the scheduler binds, in the watch of its node's pods.
pub(crate) async fn a_bound_pod_is_new_to_its_node(target: &Target) -> Result<()> {
    let place = Place::new(target, "bound").await?;
    let query = format!("fieldSelector=spec.nodeName={}&resourceVersion={}", place.node, now(&place).await?);
    let mut watch = place.caller().watch("/api/v1/pods", &query).await?;
    place.pods(&[("elsewhere", Unbound)]).await?;
    place.create("pods", &objects::pending_pod("a", &place.namespace)).await?;
    assert_eq!(expect(&mut watch, "ADDED", "a").await?["spec"]["nodeName"], place.node);
    Ok(())
}

/// The real server sends a bookmark about 2 s before the watch ends.
pub(crate) async fn bookmarks_tell_the_version(target: &Target) -> Result<()> {
    let place = Place::new(target, "bookmarks").await?;
    let before = place.pods(&[("a", Pending)]).await?;
    let version_now = now(&place).await?;
    let query = format!("resourceVersion={version_now}&allowWatchBookmarks=true&timeoutSeconds=3");
    let mut watch = place.caller().watch(&place.path("pods"), &query).await?;
    let bookmark = watch.next().await?.context("the watch has ended")?;
    assert_eq!(bookmark["type"], "BOOKMARK", "{bookmark}");
    let object = &bookmark["object"];
    assert_eq!([&object["kind"], &object["apiVersion"]], ["Pod", "v1"]);
    assert!(object["metadata"]["name"].is_null() && object["metadata"]["annotations"].is_null(), "{object}");
    assert!(number(object) >= number(&before));
    place.pods(&[("b", Pending)]).await?;
    let query = format!("resourceVersion={}", version(object));
    let mut watch = place.caller().watch(&place.path("pods"), &query).await?;
    expect(&mut watch, "ADDED", "b").await?;
    Ok(())
}

/// A timeout is the ordinary end of a watch, and only clients that ask for bookmarks get them.
pub(crate) async fn a_watch_ends_in_time(target: &Target) -> Result<()> {
    let place = Place::new(target, "timeout").await?;
    let query = format!("resourceVersion={}&timeoutSeconds=1", now(&place).await?);
    let mut watch = place.caller().watch(&place.path("pods"), &query).await?;
    assert_eq!(watch.next().await?, None);
    Ok(())
}
