//! WATCH: where it begins, and which event it gets for each change. No I/O: `server::stream` sends the events.

use std::time::Duration;

use serde_json::{Value, json};

use super::call::{Objects, Query};
use super::list::selection;
use crate::history::Change;
use crate::object;
use crate::refusal::Refusal;
use crate::resources::Resource;
use crate::selector::Selection;
use crate::store::{Object, Store};

/// Number of changes that one pass reads, so that the store's lock is held only for a short time.
const BATCH: usize = 256;

/// Greatest duration of a watch. Real servers choose 30 to 60 minutes.
const LONGEST: Duration = Duration::from_mins(30);

/// A watch, and the revision up to which it has read.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) resource: &'static Resource,
    selection: Selection,
    /// The last revision that was read.
    cursor: u64,
    initial: Vec<Object>,
    /// A bookmark marks the end of the initial objects.
    marks_end_of_initial: bool,
    pub(crate) has_bookmarks: bool,
    /// The server ends the watch after this time.
    pub(crate) timeout: Duration,
}

/// The next events.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Event>,
    /// There may be more events already.
    pub(crate) has_more: bool,
    /// These are the last events: the watch is too far behind.
    pub(crate) is_last: bool,
}

/// One line of a watch's answer.
#[derive(Debug)]
pub(crate) enum Event {
    Added(Object),
    Modified(Object),
    /// The object and the revision of its deletion.
    Deleted(Object, u64),
    Other(Value),
}

impl Watch {
    pub(crate) fn new(store: &Store, objects: &Objects, query: &Query) -> Result<Self, Refusal> {
        let selection = selection(objects, query)?;
        let version = query.number("resourceVersion")?.unwrap_or_default();
        let streams_list = query.flag("sendInitialEvents");
        let begins_with_list = streams_list || version == 0;
        let initial = if begins_with_list {
            store.objects(objects.resource).filter(|object| selection.matches(object)).cloned().collect()
        } else {
            Vec::new()
        };
        let has_bookmarks = query.flag("allowWatchBookmarks");
        let timeout = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        Ok(Self {
            resource: objects.resource,
            selection,
            cursor: if begins_with_list { store.revision() } else { version },
            initial,
            marks_end_of_initial: streams_list && has_bookmarks,
            has_bookmarks,
            timeout: timeout.unwrap_or(LONGEST).min(LONGEST),
        })
    }

    /// Reads the next changes from the store.
    pub(crate) fn next(&mut self, store: &Store) -> Batch {
        let mut events: Vec<Event> = self.initial.drain(..).map(Event::Added).collect();
        if std::mem::take(&mut self.marks_end_of_initial) {
            events.push(Event::Other(self.bookmark(true)));
        }
        let Ok(changes) = store.history().after(self.cursor) else {
            events.push(Event::Other(json!({"type": "ERROR", "object": self.too_old(store).status()})));
            return Batch { events, has_more: false, is_last: true };
        };
        let mut seen = 0;
        for change in changes.take(BATCH) {
            seen += 1;
            self.cursor = change.revision;
            events.extend(self.event(change));
        }
        Batch { events, has_more: seen == BATCH, is_last: false }
    }

    fn too_old(&self, store: &Store) -> Refusal {
        let oldest = store.history().oldest();
        Refusal::expired(format!("too old resource version: {} ({oldest})", self.cursor))
    }

    /// The event for a change: an object that begins to match is added, one that no longer matches is deleted.
    fn event(&self, change: &Change) -> Option<Event> {
        if change.resource != self.resource {
            return None;
        }
        let fitting =
            |object: &Option<Object>| object.clone().filter(|object| self.selection.matches(object));
        match (fitting(&change.before), fitting(&change.after)) {
            (None, Some(after)) => Some(Event::Added(after)),
            (Some(_), Some(after)) => Some(Event::Modified(after)),
            (Some(before), None) => Some(Event::Deleted(before, change.revision)),
            (None, None) => None,
        }
    }

    /// A bookmark: the client has seen everything up to this revision.
    pub(crate) fn bookmark(&self, ends_initial: bool) -> Value {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        if ends_initial {
            object::set(&mut metadata, &["annotations"], json!({"k8s.io/initial-events-end": "true"}));
        }
        let (kind, api_version) = (self.resource.kind, self.resource.api_version());
        json!({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": metadata}})
    }
}

impl Event {
    /// The event as one line of JSON.
    pub(crate) fn line(&self) -> Vec<u8> {
        let event = match self {
            Self::Added(object) => json!({"type": "ADDED", "object": &**object}),
            Self::Modified(object) => json!({"type": "MODIFIED", "object": &**object}),
            Self::Deleted(object, revision) => {
                let mut last = (**object).clone();
                object::set(&mut last, &["metadata", "resourceVersion"], revision.to_string());
                json!({"type": "DELETED", "object": last})
            }
            Self::Other(event) => event.clone(),
        };
        let mut line = event.to_string().into_bytes();
        line.push(b'\n');
        line
    }
}
