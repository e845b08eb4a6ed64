//! `kubectl ebb history NODE`: what a Node and its Events still know of its drains.

use std::process::ExitCode;

use anyhow::bail;
use cluster::events::{NAMESPACE, NodeEvent, list_node_events};
use cluster::{ApiFailure, Cluster};
use serde::Serialize;

use super::SeenArguments;
use super::facts::Seen;
use super::why::{Document, document, present, show_slot};
use crate::called::program;
use crate::screen::{self, Page, Tone};

/// How long what is shown lasts.
const KEPT: &str = "Events are kept for an hour by default (--event-ttl of the API server)";

/// JSON form of the history of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryDocument {
    /// The node as it is now.
    now: Document,
    /// Oldest first; empty if they cannot be read.
    events: Vec<EventDocument>,
    /// Why the Events cannot be read; null if they can.
    events_unknown: Option<String>,
}

/// One Event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EventDocument {
    /// When it happened last, in RFC 3339; null if it does not say.
    at: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    count: u32,
    message: String,
}

/// Prints the Events and the present state. Exit code 0 when the Node could be read.
pub fn run(arguments: &SeenArguments) -> anyhow::Result<ExitCode> {
    let chosen = arguments.nodes.chosen("history")?;
    if arguments.nodes.nodes.len() != 1 {
        bail!("USAGE: history NODE [flags]; see '{} history --help' for help and examples", program());
    }
    crate::in_runtime(async {
        let (cluster, all) = arguments.read("history", &chosen).await?;
        for seen in &all {
            show(arguments.is_json(), seen, events(&cluster, seen).await)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The Events of the node; or one line that says why they cannot be read.
async fn events(cluster: &Cluster, seen: &Seen) -> Result<Vec<NodeEvent>, String> {
    let view = &seen.node.view;
    let told = |failure: ApiFailure| format!("the Events in namespace {NAMESPACE} cannot be read: {failure}");
    list_node_events(cluster, &view.name, &view.uid).await.map_err(told)
}

fn show(is_json: bool, seen: &Seen, events: Result<Vec<NodeEvent>, String>) -> anyhow::Result<()> {
    if is_json {
        let (events, events_unknown) = match events {
            Ok(events) => (events, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let events = events.into_iter().map(EventDocument::of).collect();
        return screen::json(&HistoryDocument { now: document(seen), events, events_unknown });
    }
    let mut page = Page::for_terminal(true);
    past(seen, &events, &mut page);
    present(seen, &mut page);
    show_slot(&seen.slot, &mut page);
    page.line(KEPT);
    screen::lines_of_page(&page.lines(""));
    Ok(())
}

/// Adds the Events, or one line in their place.
fn past(seen: &Seen, events: &Result<Vec<NodeEvent>, String>, page: &mut Page) {
    match events {
        Ok(events) if events.is_empty() => page.line(&format!("{}: ebb has left no Events", seen.name())),
        Ok(events) => events.iter().for_each(|event| add(event, page)),
        Err(why) => page.line(why),
    }
}

/// Adds an Event: `2026-11-29T17:00:00Z Blocked (3 times): the message`.
fn add(event: &NodeEvent, page: &mut Page) {
    let at = event.at.map_or_else(|| "-".to_owned(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
    let tone = if event.kind == "Warning" { Tone::Alarm } else { Tone::Usual };
    page.toned(tone, &format!("{at} {}{times}: {}", event.reason, event.message));
}

impl EventDocument {
    fn of(event: NodeEvent) -> Self {
        let NodeEvent { at, kind, reason, count, message } = event;
        Self { at: at.map(|at| at.to_string()), kind, reason, count, message }
    }
}
