//! `ebb topic`: shows the topics of any agent, EVE's included, for debugging.
//!
//! The verbs do not need the type of a topic: an item is any JSON object.

mod get;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use pubsub::{Persistence, Root, TopicPlace, read_items_of};
use schemas::{AnyItem, agent};

/// Arguments of `ebb topic`.
#[derive(Args, Debug)]
pub(crate) struct TopicArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the items of a topic, each as one line of JSON
    Get(get::GetArguments),
    /// Print the items of a topic, then each change as it happens; Ctrl-C ends it
    Watch(watch::WatchArguments),
}

/// Runs the verb. Exit code 1 if a file cannot be read, or if the item does not exist.
pub(crate) fn run(arguments: &TopicArguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::Get(arguments) => get::run(arguments),
        Verb::Watch(arguments) => watch::run(arguments),
    }
}

/// Root folder of the device.
#[derive(Args, Debug)]
struct Device {
    /// Folder that is used as the root of the device's files (for tests and containers)
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

impl Device {
    fn root(&self) -> Root {
        Root::new(&self.root)
    }
}

/// Choice of a topic.
#[derive(Args, Debug)]
struct TopicChoice {
    /// Topic, such as `zedkube/NodeDrainStatus`
    #[arg(value_name = "AGENT/TOPIC", value_parser = name)]
    name: Name,
    /// Use the topic below /persist/status; default: the one below /run, unless only /persist/status has the topic
    #[arg(long)]
    persistent: bool,
}

impl TopicChoice {
    /// Folder and socket of the topic.
    fn place(&self, root: &Root) -> anyhow::Result<TopicPlace> {
        let at = |persistence| TopicPlace::named(root, &self.name.agent, &self.name.topic, persistence);
        let (volatile, persistent) = (at(Persistence::Volatile)?, at(Persistence::Persistent)?);
        let is_only_persistent = !may_exist(&volatile.folder()) && may_exist(&persistent.folder());
        Ok(if self.persistent || is_only_persistent { persistent } else { volatile })
    }
}

/// Agent and topic in `AGENT/TOPIC`, both checked as names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    agent: String,
    topic: String,
}

fn name(text: &str) -> Result<Name, String> {
    let (agent, topic) = text
        .split_once('/')
        .ok_or_else(|| "accepted: AGENT/TOPIC, such as zedkube/NodeDrainStatus".to_owned())?;
    TopicPlace::named(&Root::new("/"), agent, topic, Persistence::Volatile)
        .map_err(|error| error.to_string())?;
    Ok(Name { agent: agent::on_wire(agent).to_owned(), topic: topic.to_owned() })
}

/// Refuses to read a topic by socket if an item has one of EVE's large fields: each reading would leave files on the
/// device.
fn refuse_large_fields(place: &TopicPlace) -> anyhow::Result<()> {
    if read_items_of::<AnyItem>(place).items.values().any(AnyItem::has_large_field) {
        bail!(
            "{place} is not read by socket: each time EVE would leave its large fields behind as files in \
             /persist/pubsub-large; without --socket the files are read, and have all of it"
        );
    }
    Ok(())
}

/// The command that lists all items below this root.
fn listing(root: &Root) -> String {
    let below = |folder| format!("{}/*/*/*.json", text::path(&root.join(folder)));
    format!("ls {} {}", below("/run"), below("/persist/status"))
}

/// True if the path exists, or if that cannot be found out.
fn may_exist(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// The document as one line of JSON.
fn compact(document: &impl serde::Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string(document).context("cannot write JSON")?;
    Ok(text::json(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_named_by_agent_and_topic() {
        let named =
            |agent: &str, topic: &str| Some(Name { agent: agent.to_owned(), topic: topic.to_owned() });
        for (text, expected) in [
            ("zedkube/NodeDrainStatus", named("zedkube", "NodeDrainStatus")),
            ("device-op/DeviceOpStatus", named("zedagent", "DeviceOpStatus")),
            ("a-b_1.2/T", named("a-b_1.2", "T")),
            ("zedkube", None),
            ("zedkube/", None),
            ("/NodeDrainStatus", None),
            ("zedkube/NodeDrainStatus/global", None),
            ("../etc", None),
            ("zedkube/..", None),
            ("zed kube/T", None),
            ("a/\u{1b}[2J", None),
        ] {
            assert_eq!(name(text).ok(), expected, "{text:?}");
        }
    }
}
