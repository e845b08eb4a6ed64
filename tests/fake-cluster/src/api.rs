//! The API without a network: answers a request.

mod call;
mod discovery;
mod list;
mod options;
mod watch;

use std::collections::BTreeSet;

use serde_json::json;

pub(crate) use call::{Call, Objects, Target, Verb};
pub(crate) use options::{delete_options, dry_run_in};
pub(crate) use watch::{Batch, Watch};

use call::Query;

use crate::clock::Moment;
use crate::eviction;
use crate::object;
use crate::patch;
use crate::refusal::Refusal;
use crate::removal::{self, Answered, Removal};
use crate::reply::Reply;
use crate::resources::{PODS, Resource};
use crate::store::{Object, Store};
use crate::write::{self, Context, DeleteOptions, Deleted, NewStatus, Part};

/// Everything that an answer depends on besides the objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Moment,
    /// The revision that reads without a guarantee see, if the watch cache is frozen.
    pub(crate) frozen_cache: Option<u64>,
    /// Kinds and subresources that this server pretends not to know, as the audit log names them.
    pub(crate) unserved: &'a BTreeSet<String>,
}

/// An answer: complete, or a watch that goes on.
#[derive(Debug)]
pub(crate) enum Answer {
    Reply(Reply),
    /// A page that is serialized later, without the store's lock.
    List(list::Page),
    Watch(Watch),
}

/// Answers one request.
pub(crate) fn answer(store: &mut Store, call: &Call, around: Surroundings<'_>) -> Result<Answer, Refusal> {
    let objects = match &call.target {
        Target::Path(path) => return discovery::answer(call.verb, path, around.unserved).map(Answer::Reply),
        Target::Objects(objects) => objects,
    };
    if around.unserved.contains(&call.resource()) || around.unserved.contains(objects.resource.plural) {
        return Err(Refusal::unknown_path());
    }
    match objects.subresource.as_str() {
        "" => on_objects(store, call, objects, around),
        "status" if objects.resource.has_status() => on_status(store, call, objects, around),
        "eviction" if objects.resource == PODS => {
            on_eviction(store, call, objects, around.now).map(Answer::Reply)
        }
        _ => Err(Refusal::unknown_path()),
    }
}

fn on_objects(
    store: &mut Store,
    call: &Call,
    objects: &Objects,
    around: Surroundings<'_>,
) -> Result<Answer, Refusal> {
    let stale = around
        .frozen_cache
        .unwrap_or_else(|| store.revision())
        .clamp(store.history().oldest(), store.revision());
    match call.verb {
        Verb::Get => get(store, objects, call).map(Answer::Reply),
        Verb::List => list::list(store, objects, &call.query, stale).map(Answer::List),
        Verb::Watch => Watch::new(store, objects, &call.query).map(Answer::Watch),
        Verb::Create => create(store, call, objects, around.now).map(Answer::Reply),
        Verb::Update | Verb::Patch => change(store, call, objects, Part::Main, around.now).map(Answer::Reply),
        Verb::Delete => delete(store, call, objects, around.now).map(Answer::Reply),
        Verb::Other => Err(Refusal::method_not_allowed()),
    }
}

fn on_status(
    store: &mut Store,
    call: &Call,
    objects: &Objects,
    around: Surroundings<'_>,
) -> Result<Answer, Refusal> {
    match call.verb {
        Verb::Get => get(store, objects, call).map(Answer::Reply),
        Verb::Update | Verb::Patch => {
            change(store, call, objects, Part::Status, around.now).map(Answer::Reply)
        }
        Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::Other => {
            Err(Refusal::method_not_allowed())
        }
    }
}

fn on_eviction(store: &mut Store, call: &Call, objects: &Objects, now: Moment) -> Result<Reply, Refusal> {
    if call.verb != Verb::Create {
        return Err(Refusal::method_not_allowed());
    }
    let eviction = eviction::read(call)?;
    let context = Context { now, dry_run: options::dry_run(&call.query, "CreateOptions")? };
    let removal = Removal::of(store, &objects.namespace, call.name(), Answered::Evicted);
    let result = eviction::evict(store, (&objects.namespace, call.name()), &eviction, context);
    let answered = removal::answered(result.as_ref()).filter(|_| !context.dry_run && !eviction.is_dry_run);
    if let Some((removal, answer)) = removal.zip(answered) {
        store.note_removal(Removal { answer, ..removal });
    }
    result?;
    let body =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let reply = Reply::json(201, &body);
    Ok(eviction.warnings().iter().fold(reply, |reply, warning| reply.header("Warning", warning)))
}

fn get(store: &Store, objects: &Objects, call: &Call) -> Result<Reply, Refusal> {
    let found = store.get(objects.resource, &objects.namespace, call.name());
    let found = found.ok_or_else(|| Refusal::not_found(objects.resource, call.name()))?;
    Ok(Reply::json(200, found))
}

fn create(store: &mut Store, call: &Call, objects: &Objects, now: Moment) -> Result<Reply, Refusal> {
    if objects.name.is_some() || (objects.resource.is_namespaced() && objects.namespace.is_empty()) {
        return Err(Refusal::method_not_allowed());
    }
    let context = Context { now, dry_run: options::dry_run(&call.query, "CreateOptions")? };
    let (resource, namespace) = (objects.resource, &objects.namespace);
    let created = write::create(store, resource, namespace, call.json()?, NewStatus::ByRule, context)?;
    Ok(Reply::json(201, &created))
}

fn change(
    store: &mut Store,
    call: &Call,
    objects: &Objects,
    part: Part,
    now: Moment,
) -> Result<Reply, Refusal> {
    let (resource, namespace, name) = (objects.resource, objects.namespace.as_str(), call.name());
    if name.is_empty() {
        return Err(Refusal::method_not_allowed());
    }
    let is_patch = call.verb == Verb::Patch;
    let options = if is_patch { "PatchOptions" } else { "UpdateOptions" };
    let context = Context { now, dry_run: options::dry_run(&call.query, options)? };
    let mut wanted = if is_patch { patched(store, call, objects)? } else { call.json()? };
    if let Some(before) = store.get(resource, namespace, name) {
        write::note_manager(before, &mut wanted, Some(call.query.text("fieldManager")));
    }
    let changed = write::update(store, resource, (namespace, name), wanted, part, context)?;
    Ok(Reply::json(200, &changed))
}

fn patched(store: &Store, call: &Call, objects: &Objects) -> Result<serde_json::Value, Refusal> {
    let found = store.get(objects.resource, &objects.namespace, call.name());
    let before = found.ok_or_else(|| Refusal::not_found(objects.resource, call.name()))?;
    let mut after = patch::apply(&call.content_type, before, &call.body)?;
    // A patch that names no version means the version that it was applied to.
    object::set_default(
        &mut after,
        &["metadata", "resourceVersion"],
        object::text(before, "/metadata/resourceVersion"),
    );
    Ok(after)
}

fn delete(store: &mut Store, call: &Call, objects: &Objects, now: Moment) -> Result<Reply, Refusal> {
    let (options, dry_run) = deletion(call)?;
    let key = (objects.namespace.as_str(), call.name());
    let is_pod = objects.resource == PODS && !dry_run;
    let removal = is_pod.then(|| Removal::of(store, key.0, key.1, Answered::Deleted)).flatten();
    let deleted = write::delete(store, objects.resource, key, &options, Context { now, dry_run })?;
    if let Some(removal) = removal {
        store.note_removal(removal);
    }
    match deleted {
        Deleted::Terminating(object) => Ok(Reply::json(200, &object)),
        Deleted::Gone(object) if objects.resource == PODS => Ok(Reply::json(200, &object)),
        Deleted::Gone(object) => Ok(Reply::json(200, &deleted_status(objects.resource, &object))),
    }
}

/// The options of a DELETE, and whether it is a dry run. If there is a body, even `{}`, the query is ignored.
fn deletion(call: &Call) -> Result<(DeleteOptions, bool), Refusal> {
    if call.body.is_empty() {
        let dry_run = options::dry_run(&call.query, "DeleteOptions")?;
        return Ok((options::delete_options(&json!({}), &call.query)?, dry_run));
    }
    let body = call.json()?;
    let dry_run = options::dry_run_in(&body)?;
    Ok((options::delete_options(&body, &Query::default())?, dry_run))
}

/// The server's answer about a deleted object of which no last state is shown.
fn deleted_status(resource: &Resource, object: &Object) -> serde_json::Value {
    let mut details = resource.details(object::name(object));
    object::set(&mut details, &["uid"], object::uid(object));
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
