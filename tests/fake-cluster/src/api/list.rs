//! GET of many objects: selectors, pages of one snapshot, and reads that may be stale.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use serde_json::{Value, json};

use super::call::{Objects, Query};
use crate::object;
use crate::refusal::Refusal;
use crate::resources::Resource;
use crate::selector::{Fields, Labels, Selection};
use crate::store::{Key, Object, Store};

/// One page of a list; it is serialized as the list object of its kind.
#[derive(Debug)]
pub(crate) struct Page {
    resource: &'static Resource,
    revision: u64,
    objects: Vec<Object>,
    next: Option<String>,
    /// Number of objects on later pages; only known without selectors, as on a real server.
    remaining: Option<usize>,
}

/// The selection of a list or watch, from its URL.
pub(crate) fn selection(objects: &Objects, query: &Query) -> Result<Selection, Refusal> {
    let invalid = |problem: String| Refusal::bad_request(problem);
    Ok(Selection {
        namespace: Some(objects.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        fields: Fields::parse(objects.resource, query.text("fieldSelector")).map_err(invalid)?,
        labels: Labels::parse(query.text("labelSelector")).map_err(invalid)?,
    })
}

/// Lists the selected objects. `stale` is the revision that a read without a version guarantee sees.
pub(crate) fn list(store: &Store, objects: &Objects, query: &Query, stale: u64) -> Result<Page, Refusal> {
    let selection = selection(objects, query)?;
    let start = start(store, query, stale)?;
    let limit = if start.is_cached { None } else { query.number("limit")?.filter(|limit| *limit > 0) };
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let table = store.table_at(objects.resource, start.revision).map_err(|_| expired(&start))?;
    let first = start.after.clone().unwrap_or_else(|| Key::new(&objects.namespace, ""));
    let is_before = |key: &Key| start.after.as_ref().is_none_or(|after| after < key);
    let is_inside = |key: &Key| objects.namespace.is_empty() || objects.namespace == key.namespace;
    let mut rest =
        table.range(first..).filter(|(key, _)| is_before(key)).take_while(|(key, _)| is_inside(key));
    let mut found = Vec::new();
    let mut last = None;
    while found.len() < limit
        && let Some((key, object)) = rest.find(|(_, object)| selection.matches(object))
    {
        last = Some(key.clone());
        found.push(Object::clone(object));
    }
    // The rest is not matched against the selectors: with a selector the last page may be empty, as on a real server.
    let mut rest = rest.peekable();
    let has_more = rest.peek().is_some();
    Ok(Page {
        resource: objects.resource,
        revision: start.revision,
        objects: found,
        next: last.filter(|_| has_more).map(|key| token(start.revision, &key)),
        remaining: (has_more && !selection.has_selector()).then(|| rest.count()),
    })
}

/// The start of a list.
#[derive(Debug)]
struct Start {
    revision: u64,
    /// The last key of the previous page.
    after: Option<Key>,
    /// The list is answered as if from the server's watch cache, which knows no pages.
    is_cached: bool,
}

fn start(store: &Store, query: &Query, stale: u64) -> Result<Start, Refusal> {
    let version = query.number("resourceVersion")?;
    let version_match = query.text("resourceVersionMatch");
    if !query.text("continue").is_empty() {
        return continued(query.text("continue"));
    }
    let current = store.revision();
    // A page of a given version, without a `resourceVersionMatch`, means exactly that version.
    let is_page = version_match.is_empty() && query.number("limit")?.is_some_and(|limit| limit > 0);
    match version {
        None => Ok(Start { revision: current, after: None, is_cached: false }),
        Some(0) => Ok(Start { revision: stale, after: None, is_cached: true }),
        Some(version) if version > current => Err(too_large(version, current)),
        Some(version) if version_match == "Exact" || is_page => {
            Ok(Start { revision: version, after: None, is_cached: false })
        }
        Some(version) => Ok(Start { revision: stale.max(version), after: None, is_cached: true }),
    }
}

/// The refusal for a version that the server does not know yet.
fn too_large(version: u64, current: u64) -> Refusal {
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    Refusal::new(504, "Timeout", message).with_details(json!({"causes": [cause]})).with_retry_after(1)
}

fn expired(start: &Start) -> Refusal {
    if start.after.is_some() {
        return Refusal::expired(
            "The provided continue parameter is too old to display a consistent list result.",
        );
    }
    Refusal::expired(format!("The resourceVersion for the provided list is too old: {}", start.revision))
}

fn token(revision: u64, last: &Key) -> String {
    let token =
        json!({"v": "meta.k8s.io/v1", "rv": revision, "namespace": last.namespace, "name": last.name});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

/// Reads a token made by [`token`].
fn continued(token: &str) -> Result<Start, Refusal> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let token: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let revision = token.as_ref().and_then(|token| token.get("rv")).and_then(Value::as_u64);
    let (Some(token), Some(revision)) = (&token, revision) else {
        return Err(Refusal::bad_request("invalid continue token: continue key is not valid"));
    };
    let after = Some(Key::new(object::text(token, "/namespace"), object::text(token, "/name")));
    Ok(Start { revision, after, is_cached: false })
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(next) = &self.next {
            object::set(&mut metadata, &["continue"], next.as_str());
        }
        if let Some(remaining) = self.remaining {
            object::set(&mut metadata, &["remainingItemCount"], remaining);
        }
        let items: Vec<Item<'_>> = self.objects.iter().map(|object| Item(object)).collect();
        let mut list = serializer.serialize_struct("List", 4)?;
        list.serialize_field("kind", &format!("{}List", self.resource.kind))?;
        list.serialize_field("apiVersion", &self.resource.api_version())?;
        list.serialize_field("metadata", &metadata)?;
        list.serialize_field("items", &items)?;
        list.end()
    }
}

/// An object inside a list, without its kind, which the list has already.
struct Item<'a>(&'a Value);

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.as_object().into_iter().flatten();
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in fields.filter(|(key, _)| *key != "apiVersion" && *key != "kind") {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
