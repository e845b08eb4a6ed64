//! Answers discovery and health paths: `/api/v1`, `/apis`, `/version`, `/readyz`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::call::Verb;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::resources::{PODS, RESOURCES, Resource, api_version};

const VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// Answers a path that names no objects.
pub(super) fn answer(verb: Verb, path: &str, unserved: &BTreeSet<String>) -> Result<Reply, Refusal> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments == ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] {
        return Ok(Reply::json(201, &everything_is_allowed()));
    }
    if verb != Verb::Get {
        return if is_known(&segments) { Err(Refusal::unknown_path()) } else { Ok(page_not_found()) };
    }
    match segments.as_slice() {
        ["readyz" | "livez" | "healthz", ..] => Ok(Reply::text(200, "ok")),
        ["version"] => Ok(Reply::json(200, &version())),
        ["api"] => Ok(Reply::json(200, &json!({"kind": "APIVersions", "versions": ["v1"]}))),
        ["apis"] => Ok(Reply::json(200, &group_list())),
        ["apis", group] => {
            Ok(group_named(group).map_or_else(page_not_found, |group| Reply::json(200, &group)))
        }
        ["api", version] => Ok(resource_list("", version, unserved)),
        ["apis", group, version] => Ok(resource_list(group, version, unserved)),
        _ if is_known(&segments) => Err(Refusal::unknown_path()),
        _ => Ok(page_not_found()),
    }
}

/// The answer to a review of rights: every right is granted.
fn everything_is_allowed() -> Value {
    json!({
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {}, "spec": {}, "status": {"allowed": true},
    })
}

/// True if the path begins with a group and version that are served.
fn is_known(segments: &[&str]) -> bool {
    let (group, version) = match segments {
        ["api", version, ..] => ("", version),
        ["apis", group, version, ..] => (*group, version),
        _ => return false,
    };
    RESOURCES.iter().any(|resource| resource.group == group && resource.version == *version)
}

/// The server's answer for a group that is not installed: plain text, no Status.
fn page_not_found() -> Reply {
    Reply::text(404, "404 page not found\n")
}

/// The server version whose answers were measured.
fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.2", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

/// Names of the groups and their versions, without the core group.
fn groups() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut groups: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for resource in RESOURCES.iter().filter(|resource| !resource.group.is_empty()) {
        groups.entry(resource.group).or_default().insert(resource.version);
    }
    groups
}

fn group(name: &str, versions: &BTreeSet<&str>) -> Value {
    let version = |version: &&str| json!({"groupVersion": api_version(name, version), "version": version});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn group_list() -> Value {
    let groups: Vec<Value> = groups().iter().map(|(name, versions)| group(name, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group_named(name: &str) -> Option<Value> {
    let groups = groups();
    let versions = groups.get(name)?;
    let mut found = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Some(found), Value::Object(fields)) = (found.as_object_mut(), group(name, versions)) {
        found.extend(fields);
    }
    Some(found)
}

fn resource_list(group: &str, version: &str, unserved: &BTreeSet<String>) -> Reply {
    let of_group = RESOURCES.iter().filter(|resource| resource.group == group && resource.version == version);
    let mut known = of_group.peekable();
    if known.peek().is_none() {
        return page_not_found();
    }
    let served =
        known.filter(|resource| !unserved.contains(resource.plural)).flat_map(|resource| entries(resource));
    let is_served = |entry: &Value| {
        !entry.get("name").and_then(Value::as_str).is_some_and(|name| unserved.contains(name))
    };
    let resources: Vec<Value> = served.filter(is_served).collect();
    Reply::json(
        200,
        &json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version),
            "resources": resources,
        }),
    )
}

/// The entries of a kind and of its subresources.
fn entries(resource: &Resource) -> Vec<Value> {
    let (plural, kind, namespaced) = (resource.plural, resource.kind, resource.is_namespaced());
    let mut entries = vec![json!({
        "name": plural, "singularName": kind.to_ascii_lowercase(), "namespaced": namespaced, "kind": kind,
        "verbs": VERBS, "shortNames": resource.short_names,
    })];
    if resource.has_status() {
        let name = format!("{plural}/status");
        entries.push(json!({
            "name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": STATUS_VERBS,
        }));
    }
    if resource == PODS {
        entries.push(json!({
            "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
            "kind": "Eviction", "verbs": ["create"],
        }));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it kubectl knows no core group, and `kubectl get nodes` finds Longhorn's nodes.
    #[test]
    fn the_core_group_has_a_version() {
        let reply = answer(Verb::Get, "/api", &BTreeSet::new()).unwrap();
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(body["versions"], json!(["v1"]));
    }
}
