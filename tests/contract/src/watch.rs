//! Watches as raw events, and waiting by watches.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

use crate::LIMIT;
use crate::caller::Caller;

/// Objects by name.
pub type Objects = BTreeMap<String, Value>;

/// An open watch. Dropping it ends it.
pub struct Watch {
    body: Body,
    buffer: Vec<u8>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, buffer: Vec::new() }
    }

    /// The next event, `{"type": …, "object": …}`; `None` once the server has ended the watch.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).context("an event that is no JSON")?));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame.context("the watch broke off")?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// The next event that is not a bookmark, as type and object. Fails at the end of the watch.
    pub async fn change(&mut self) -> Result<(String, Value)> {
        loop {
            let mut event = self.next().await?.context("the server has ended the watch")?;
            let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
            if kind != "BOOKMARK" {
                return Ok((kind, event.get_mut("object").map(Value::take).unwrap_or_default()));
            }
        }
    }
}

/// Lists the objects and calls `look`; then watches from the list's version and calls `look` after every event.
pub(crate) async fn until<T>(
    caller: &Caller,
    what: &str,
    path: &str,
    query: &str,
    mut look: impl FnMut(&Objects) -> Option<T>,
) -> Result<T> {
    let mut objects = Objects::new();
    let follow = async {
        let list = caller.get(&format!("{path}?{query}")).await?.object()?;
        objects.extend(items(&list).map(|object| (name(&object), object)));
        if let Some(found) = look(&objects) {
            return Ok(found);
        }
        let version = text(&list, "/metadata/resourceVersion");
        let mut watch = caller.watch(path, &format!("{query}&resourceVersion={version}")).await?;
        loop {
            let (kind, object) = watch.change().await?;
            match kind.as_str() {
                "ADDED" | "MODIFIED" => drop(objects.insert(name(&object), object)),
                "DELETED" => drop(objects.remove(&name(&object))),
                _ => bail!("a watch of {path} brought {kind}: {object}"),
            }
            if let Some(found) = look(&objects) {
                return Ok(found);
            }
        }
    };
    match tokio::time::timeout(LIMIT / 2, follow).await {
        Ok(outcome) => outcome.with_context(|| format!("waiting until {what}")),
        Err(_) => bail!("waiting until {what}: not within {:?}, last seen: {objects:#?}", LIMIT / 2),
    }
}

/// The objects of a list, with kind and version, which lists leave out.
fn items(list: &Value) -> impl Iterator<Item = Value> {
    let kind = text(list, "/kind").trim_end_matches("List");
    let version = text(list, "/apiVersion");
    list.get("items").and_then(Value::as_array).into_iter().flatten().map(move |item| {
        let mut object = item.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.insert("kind".to_owned(), kind.into());
            fields.insert("apiVersion".to_owned(), version.into());
        }
        object
    })
}

fn name(object: &Value) -> String {
    text(object, "/metadata/name").to_owned()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
