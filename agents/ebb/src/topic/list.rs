//! `ebb topic list`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use pubsub::{Holder, Persistence, Root, TopicSocket, lock_holder};
use runtime::topics::{FoundTopic, find};
use schemas::{agent, check_of};
use serde::Serialize;

use super::{Device, compact};
use crate::screen::{self, table};

/// Columns of the table.
const HEAD: [&str; 6] = ["AGENT", "TOPIC", "PERSISTENT", "ITEMS", "SOCKET", "PROCESS"];

/// Arguments of `ebb topic list`.
#[derive(Args, Debug)]
pub(super) struct ListArguments {
    /// Show only the topics of this agent
    agent: Option<String>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: Device,
}

/// One topic, as in `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    agent: String,
    topic: String,
    /// True if the topic is below /persist/status.
    persistent: bool,
    /// Number of files that are named as items, valid or not; null if there is only a socket.
    items: Option<usize>,
    socket: State,
    /// Error of an Unreachable socket; empty otherwise.
    socket_error: String,
    /// Process of the agent: the one that serves the socket, else the one that holds the agent's lock.
    pid: Option<u32>,
    /// True if a process serves the socket or holds the agent's lock.
    running: bool,
    /// True if the topic is one of our schemas.
    known: bool,
}

/// State of a topic's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum State {
    /// There is no socket file.
    Absent,
    /// The file exists, but no process listens.
    Stale,
    /// A process serves it.
    Served,
    /// The socket cannot be dialled.
    Unreachable,
}

/// Prints the topics. Exit code 1 if a folder could not be read, or if the agent has no topic.
pub(super) fn run(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let root = arguments.device.root();
    let found = find(&root, arguments.agent.as_deref().map(agent::on_wire));
    for problem in &found.problems {
        screen::say(&format!("error: {problem}"));
    }
    let entries: Vec<Entry> = found.topics.iter().map(|topic| entry(&root, topic)).collect();
    if entries.is_empty()
        && let Some(agent) = &arguments.agent
    {
        bail!(
            "agent {agent:?} has no topic below {} or {}; `ebb topic list` without a name has all agents",
            root.join("/run").display(),
            root.join("/persist/status").display()
        );
    }
    if arguments.json {
        screen::line(&compact(&entries)?);
    } else if entries.is_empty() {
        screen::say(&format!("no topics below {}", root.path().display()));
    } else {
        let rows: Vec<_> = entries.iter().map(row).collect();
        screen::lines(table(&HEAD, &rows));
    }
    Ok(if found.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn entry(root: &Root, topic: &FoundTopic) -> Entry {
    let place = &topic.place;
    // If the lock cannot be read, the socket may still show the process.
    let holder = lock_holder(root, place.agent()).ok().flatten();
    let (socket, socket_error, peer) = match &topic.socket {
        TopicSocket::Absent | TopicSocket::Foreign => (State::Absent, String::new(), None),
        TopicSocket::Stale => (State::Stale, String::new(), None),
        TopicSocket::Served(peer) => (State::Served, String::new(), peer.and_then(|peer| peer.pid)),
        TopicSocket::Unreachable(reason) => (State::Unreachable, reason.clone(), None),
    };
    Entry {
        agent: place.agent().to_owned(),
        topic: place.topic().to_owned(),
        persistent: place.persistence() == Persistence::Persistent,
        items: topic.items,
        socket,
        socket_error,
        pid: peer.or_else(|| holder.and_then(|Holder { pid }| pid)),
        running: holder.is_some() || socket == State::Served,
        known: check_of(place.topic()).is_some(),
    }
}

fn row(entry: &Entry) -> [String; 6] {
    let Entry { agent, topic, persistent, items, socket, pid, running, .. } = entry;
    let none = || "-".to_owned();
    [
        agent.clone(),
        topic.clone(),
        if *persistent { "yes" } else { "no" }.to_owned(),
        items.map_or_else(none, |items| items.to_string()),
        match socket {
            State::Absent => "-",
            State::Stale => "stale",
            State::Served => "served",
            State::Unreachable => "unreachable",
        }
        .to_owned(),
        pid.map_or_else(|| if *running { "?".to_owned() } else { none() }, |pid| pid.to_string()),
    ]
}
