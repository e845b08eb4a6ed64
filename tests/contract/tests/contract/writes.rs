//! POST, PUT, PATCH: their effects, and when they are refused.

use anyhow::Result;
use contract::PodState::{Pending, Unbound};
use contract::{Change, Place, Said, Target, failure, objects};
use serde_json::{Value, json};

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

fn not_found(resource: &str, group: &str, name: &str) -> Said {
    let (qualified, details) = named(resource, group, name);
    failure(404, "NotFound", &format!("{qualified} \"{name}\" not found"), details)
}

fn conflict(resource: &str, group: &str, name: &str) -> Said {
    let (qualified, details) = named(resource, group, name);
    let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {MODIFIED}");
    failure(409, "Conflict", &message, details)
}

/// The name of an object in a message and in its details.
fn named(resource: &str, group: &str, name: &str) -> (String, Value) {
    if group.is_empty() {
        return (resource.to_owned(), json!({"name": name, "kind": resource}));
    }
    (format!("{resource}.{group}"), json!({"name": name, "group": group, "kind": resource}))
}

fn lease(name: &str, holder: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 40, "renewTime": "2026-01-02T03:04:05.000000Z"},
    })
}

pub(crate) async fn what_is_not_there(target: &Target) -> Result<()> {
    let place = Place::new(target, "absent").await?;
    let caller = place.caller();
    for (path, resource, group) in [
        (place.path("pods/a"), "pods", ""),
        ("/api/v1/nodes/a".to_owned(), "nodes", ""),
        (place.path("poddisruptionbudgets/a"), "poddisruptionbudgets", "policy"),
        (place.path("deployments/a"), "deployments", "apps"),
        (place.path("leases/a"), "leases", "coordination.k8s.io"),
    ] {
        let expected = not_found(resource, group, "a");
        assert_eq!(caller.get(&path).await?.said()?, expected, "GET {path}");
        assert_eq!(caller.delete(&path, &json!({})).await?.said()?, expected, "DELETE {path}");
        let patch = json!({"metadata": {"annotations": {"n": "1"}}});
        assert_eq!(caller.patch(&path, Change::Merge, &patch).await?.said()?, expected, "PATCH {path}");
    }
    let status = place.path("pods/a/status");
    assert_eq!(caller.get(&status).await?.said()?, not_found("pods", "", "a"));
    let pod = objects::abandoned_pod("a");
    let nowhere = caller.post("/api/v1/namespaces/none/pods", &pod).await?;
    assert_eq!(nowhere.said()?, not_found("namespaces", "", "none"));
    let empty = caller.get("/api/v1/namespaces/none/pods").await?.object()?;
    assert_eq!(empty["items"], json!([]), "a namespace that is not there is empty");
    Ok(())
}

pub(crate) async fn what_is_not_served(target: &Target) -> Result<()> {
    let place = Place::new(target, "unserved").await?;
    let unknown = failure(404, "NotFound", "the server could not find the requested resource", json!({}));
    for rest in ["things", "things/a", "pods/a/thing"] {
        assert_eq!(place.caller().get(&place.path(rest)).await?.said()?, unknown, "{rest}");
    }
    // An API group that is not installed, as KubeVirt's on most clusters.
    let reply = place.caller().get("/apis/things.example.org/v1/things").await?;
    let found = (reply.code, reply.content_type.as_str(), reply.body.as_str());
    assert_eq!(found, (404, "text/plain; charset=utf-8", "404 page not found\n"));
    Ok(())
}

pub(crate) async fn a_name_that_is_taken(target: &Target) -> Result<()> {
    let place = Place::new(target, "taken").await?;
    let pod = objects::abandoned_pod("a");
    let budget = objects::budget("a", "x", &json!({"minAvailable": 1}));
    for (resource, group, object) in [
        ("pods", "", &pod),
        ("poddisruptionbudgets", "policy", &budget),
        ("leases", "coordination.k8s.io", &lease("a", "b")),
    ] {
        place.create(resource, object).await?;
        let (qualified, details) = named(resource, group, "a");
        let expected = failure(409, "AlreadyExists", &format!("{qualified} \"a\" already exists"), details);
        let again = place.caller().post(&place.path(resource), object).await?;
        assert_eq!(again.said()?, expected, "{resource}");
    }
    Ok(())
}

pub(crate) async fn a_stale_version_is_refused(target: &Target) -> Result<()> {
    let place = Place::new(target, "stale").await?;
    let caller = place.caller();
    place.pods(&[("a", Unbound)]).await?;
    place.create("poddisruptionbudgets", &objects::budget("a", "x", &json!({"minAvailable": 1}))).await?;
    place.create("leases", &lease("a", "b")).await?;
    let patch = json!({"metadata": {"resourceVersion": "1", "annotations": {"n": "1"}}});
    for (path, resource, group, name) in [
        (place.node_path(), "nodes", "", place.node.as_str()),
        (place.path("pods/a"), "pods", "", "a"),
        (place.path("pods/a/status"), "pods", "", "a"),
        (place.path("poddisruptionbudgets/a"), "poddisruptionbudgets", "policy", "a"),
        (place.path("leases/a"), "leases", "coordination.k8s.io", "a"),
    ] {
        let expected = conflict(resource, group, name);
        for form in [Change::Merge, Change::Strategic] {
            assert_eq!(caller.patch(&path, form, &patch).await?.said()?, expected, "{path} {form:?}");
        }
        let mut object = caller.get(&path).await?.object()?;
        assert_eq!(object["metadata"]["annotations"].get("n"), None, "{path}");
        object["metadata"]["resourceVersion"] = json!("1");
        assert_eq!(caller.put(&path, &object).await?.said()?, expected, "PUT {path}");
    }
    Ok(())
}

/// The condition under which a command, or the answer to one, is written: the Node is still the same.
pub(crate) async fn the_uid_of_an_object_stays(target: &Target) -> Result<()> {
    let place = Place::new(target, "uid").await?;
    let path = place.node_path();
    let uid = place.caller().get(&path).await?.object()?["metadata"]["uid"].clone();
    let patch = |uid: Value| json!({"metadata": {"uid": uid, "annotations": {"n": "1"}}});
    let refused = place.caller().patch(&path, Change::Merge, &patch(json!("x"))).await?;
    let message = "metadata.uid: Invalid value: \\\"x\\\": field is immutable";
    assert!(refused.code == 422 && refused.body.contains(message), "{}", refused.body);
    place.caller().patch(&path, Change::Merge, &patch(uid)).await?.object()?;
    Ok(())
}

pub(crate) async fn null_in_a_merge_patch_removes(target: &Target) -> Result<()> {
    let place = Place::new(target, "null").await?;
    let path = place.node_path();
    let caller = place.caller();
    let set = json!({"metadata": {"annotations": {"a": "1", "b": "2"}}, "spec": {"unschedulable": true}});
    caller.patch(&path, Change::Merge, &set).await?.object()?;
    let clear =
        json!({"metadata": {"annotations": {"a": null, "none": null}}, "spec": {"unschedulable": null}});
    caller.patch(&path, Change::Merge, &clear).await?.object()?;
    let node = caller.get(&path).await?.object()?;
    assert_eq!(node["metadata"]["annotations"].get("a"), None);
    assert_eq!(node["metadata"]["annotations"]["b"], "2");
    assert_eq!(node["spec"].get("unschedulable"), None);
    Ok(())
}

pub(crate) async fn two_forms_of_a_patch(target: &Target) -> Result<()> {
    let place = Place::new(target, "forms").await?;
    place.pods(&[("a", Pending)]).await?;
    let (path, status) = (place.path("pods/a"), place.path("pods/a/status"));
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    for (path, form, patch) in [
        (&path, Change::Merge, json!({"metadata": {"labels": {"l": "1", "app": null}}})),
        (&path, Change::Strategic, json!({"metadata": {"labels": {"m": "2"}}})),
        (&status, Change::Merge, json!({"status": {"conditions": [condition("A", "True")]}})),
        (&status, Change::Strategic, json!({"status": {"conditions": [condition("B", "True")]}})),
        (&status, Change::Strategic, json!({"status": {"conditions": [condition("A", "False")]}})),
    ] {
        place.caller().patch(path, form, &patch).await?.object()?;
    }
    let pod = place.get("pods/a").await?;
    assert_eq!(pod["metadata"]["labels"], json!({"l": "1", "m": "2"}));
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let mut conditions: Vec<_> =
        conditions.iter().map(|one| [&one["type"], &one["status"]].map(Value::as_str)).collect();
    conditions.sort_unstable();
    assert_eq!(conditions, [[Some("A"), Some("False")], [Some("B"), Some("True")]]);
    Ok(())
}

pub(crate) async fn a_patch_that_changes_nothing_writes_nothing(target: &Target) -> Result<()> {
    let place = Place::new(target, "same").await?;
    place.pods(&[("a", Pending)]).await?;
    let patch = json!({"metadata": {"annotations": {"n": "1"}}});
    let first = place.patch("pods/a", &patch).await?;
    let second = place.patch("pods/a", &patch).await?;
    assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
    Ok(())
}

pub(crate) async fn spec_and_status_are_written_apart(target: &Target) -> Result<()> {
    let place = Place::new(target, "apart").await?;
    let mut pod = objects::bound_pod("a", &place.node, objects::Kubelet::NeverStarts);
    pod["status"] = json!({"phase": "Running", "message": "mine"});
    let made = place.create("pods", &pod).await?;
    assert_eq!([&made["status"]["phase"], &made["status"]["message"]], [&json!("Pending"), &Value::Null]);
    let by_main = place.patch("pods/a", &json!({"status": {"message": "mine"}})).await?;
    assert_eq!(by_main["status"], made["status"]);
    let both = json!({"spec": {"terminationGracePeriodSeconds": 5}, "status": {"message": "mine"}});
    let by_status = place.patch("pods/a/status", &both).await?;
    assert_eq!(by_status["status"]["message"], "mine");
    assert_eq!(by_status["spec"], made["spec"]);
    Ok(())
}

pub(crate) async fn generations_count_changes_of_the_spec(target: &Target) -> Result<()> {
    let place = Place::new(target, "generation").await?;
    let budget = objects::budget("p", "x", &json!({"minAvailable": 1}));
    let generation = |budget: &Value| budget["metadata"]["generation"].as_i64();
    assert_eq!(generation(&place.create("poddisruptionbudgets", &budget).await?), Some(1));
    for (patch, expected) in [
        (json!({"metadata": {"labels": {"l": "1"}}}), 1),
        (json!({"spec": {"minAvailable": 1}}), 1),
        (json!({"spec": {"minAvailable": 2}}), 2),
    ] {
        let changed = place.patch("poddisruptionbudgets/p", &patch).await?;
        assert_eq!(generation(&changed), Some(expected), "{patch}");
    }
    place.until_budget("p", [0, 0, 2, 0]).await?;
    assert_eq!(generation(&place.get("poddisruptionbudgets/p").await?), Some(2), "a status is no change");
    Ok(())
}

pub(crate) async fn a_dry_run_writes_nothing(target: &Target) -> Result<()> {
    let place = Place::new(target, "dry").await?;
    let caller = place.caller();
    let pod = objects::abandoned_pod("b");
    let made = caller.post(&place.path("pods?dryRun=All"), &pod).await?;
    assert_eq!((made.code, &made.object()?["metadata"]["name"]), (201, &json!("b")));
    assert_eq!(caller.get(&place.path("pods/b")).await?.said()?, not_found("pods", "", "b"));

    let before = place.pods(&[("a", Pending)]).await?;
    let path = place.path("pods/a?dryRun=All");
    let patch = json!({"metadata": {"annotations": {"n": "1"}}});
    let patched = caller.patch(&path, Change::Merge, &patch).await?.object()?;
    assert_eq!(patched["metadata"]["annotations"]["n"], "1");
    assert_eq!(place.get("pods/a").await?, before);
    Ok(())
}

pub(crate) async fn a_name_can_be_left_to_the_server(target: &Target) -> Result<()> {
    let place = Place::new(target, "generated").await?;
    let mut pod = objects::abandoned_pod("");
    pod["metadata"].as_object_mut().unwrap().remove("name");
    pod["metadata"]["generateName"] = json!("web-");
    let (one, two) = (place.create("pods", &pod).await?, place.create("pods", &pod).await?);
    let names = [&one, &two].map(|pod| pod["metadata"]["name"].as_str().unwrap());
    assert!(names.iter().all(|name| name.starts_with("web-") && name.len() == 9), "{names:?}");
    assert_ne!(names[0], names[1]);
    Ok(())
}

/// Our condition is kept beside those of the kubelet.
pub(crate) async fn a_condition_of_ours_on_the_node(target: &Target) -> Result<()> {
    let place = Place::new(target, "condition").await?;
    let (caller, path) = (place.caller(), format!("{}/status", place.node_path()));
    for status in ["True", "False"] {
        let ours = json!({"type": "ebb.dev/Draining", "status": status, "reason": "Test", "message": "m"});
        let patch = json!({"status": {"conditions": [ours]}});
        caller.patch(&path, Change::Strategic, &patch).await?.object()?;
        let node = caller.get(&place.node_path()).await?.object()?;
        let conditions = node["status"]["conditions"].as_array().unwrap();
        let find = |kind: &str| conditions.iter().find(|one| one["type"] == kind).map(|one| &one["status"]);
        assert_eq!(find("ebb.dev/Draining"), Some(&json!(status)));
        assert_eq!(find("Ready"), Some(&json!("True")));
    }
    Ok(())
}

/// Events about objects without a namespace are in `default`.
pub(crate) async fn an_event_about_a_node(target: &Target) -> Result<()> {
    let place = Place::new(target, "event").await?;
    let node = place.node.as_str();
    let event = json!({
        "metadata": {"generateName": "ebb-"}, "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node},
        "reason": "Draining", "message": "m", "type": "Normal", "source": {"component": "ebb"}, "count": 1,
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z",
    });
    let events = "/api/v1/namespaces/default/events";
    let made = place.caller().post(events, &event).await?.object()?;
    let path = format!("{events}/{}", made["metadata"]["name"].as_str().unwrap());
    place.caller().patch(&path, Change::Merge, &json!({"count": 2})).await?.object()?;
    let query =
        format!("{events}?fieldSelector=involvedObject.kind=Node,involvedObject.name={node},source=ebb");
    let found = place.caller().get(&query).await?.object()?;
    let found = found["items"].as_array().unwrap();
    assert_eq!(found.iter().map(|event| &event["count"]).collect::<Vec<_>>(), [2]);
    Ok(())
}

/// The data that a client reads before it drains.
pub(crate) async fn what_the_server_says_of_itself(target: &Target) -> Result<()> {
    let caller = target.admin().await?;
    for path in ["/readyz", "/livez"] {
        let reply = caller.get(path).await?;
        assert_eq!((reply.code, reply.body.as_str()), (200, "ok"), "{path}");
    }
    let version = caller.get("/version").await?.object()?;
    assert_eq!([&version["major"], &version["minor"], &version["gitVersion"]], ["1", "34", "v1.34.2"]);
    let core = caller.get("/api/v1").await?.object()?;
    let served = core["resources"].as_array().unwrap();
    let eviction = served.iter().find(|resource| resource["name"] == "pods/eviction");
    assert_eq!(
        eviction,
        Some(&json!({
            "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
            "kind": "Eviction", "verbs": ["create"],
        }))
    );
    let policy = caller.get("/apis/policy").await?.object()?;
    assert_eq!(policy["preferredVersion"], json!({"groupVersion": "policy/v1", "version": "v1"}));
    let unknown = caller.get("/apis/things.example.org/v1").await?;
    assert_eq!((unknown.code, unknown.body.as_str()), (404, "404 page not found\n"));
    Ok(())
}
