//! `ebb topic`: the topics of any agent, EVE's too, as a person sees them who debugs a device.
//!
//! Nothing here needs to know a topic's type: an item is any JSON object. What our schemas know is checked before it is
//! written.

mod get;
mod list;
mod publish;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use pubsub::{Persistence, Root, TopicPlace, read_items_of};
use runtime::topics::may_exist;
use schemas::{AnyItem, agent};

/// What `ebb topic` takes.
#[derive(Args, Debug)]
pub(crate) struct TopicArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the topics of all agents, or of one
    List(list::ListArguments),
    /// Print the items of a topic, each as one line of JSON
    Get(get::GetArguments),
    /// Print what a topic has, then each difference as it happens; Ctrl-C ends it
    Watch(watch::WatchArguments),
    /// Write an item in the name of an agent that does not run
    Publish(publish::PublishArguments),
    /// Remove an item in the name of an agent that does not run
    Delete(publish::DeleteArguments),
}

/// Does what the verb says. Exit code 1 if it is refused, if something cannot be read, or if the wanted item is not
/// there.
pub(crate) fn run(arguments: &TopicArguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::List(arguments) => list::run(arguments),
        Verb::Get(arguments) => get::run(arguments),
        Verb::Watch(arguments) => watch::run(arguments),
        Verb::Publish(arguments) => publish::publish(arguments),
        Verb::Delete(arguments) => publish::delete(arguments),
    }
}

/// Where the device is.
#[derive(Args, Debug)]
struct Device {
    /// Folder that stands for `/`
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

impl Device {
    fn root(&self) -> Root {
        Root::new(&self.root)
    }
}

/// Which topic.
#[derive(Args, Debug)]
struct TopicChoice {
    /// The topic, such as `zedkube/NodeDrainStatus`; `ebb topic list` has them all
    #[arg(value_name = "AGENT/TOPIC", value_parser = name)]
    name: Name,
    /// The one below /persist/status; without this the one below /run if it is there or neither is
    #[arg(long)]
    persistent: bool,
}

impl TopicChoice {
    /// Where it is.
    fn place(&self, root: &Root) -> anyhow::Result<TopicPlace> {
        let at = |persistence| TopicPlace::named(root, &self.name.agent, &self.name.topic, persistence);
        let (volatile, persistent) = (at(Persistence::Volatile)?, at(Persistence::Persistent)?);
        let is_only_persistent = !may_exist(&volatile.folder()) && may_exist(&persistent.folder());
        Ok(if self.persistent || is_only_persistent { persistent } else { volatile })
    }
}

/// What stands before and after the slash, each of them a name.
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

/// Refuses to read a topic by socket when an item of it has one of EVE's large fields: each reading would leave files behind
/// on the device.
fn refuse_large_fields(place: &TopicPlace) -> anyhow::Result<()> {
    if read_items_of::<AnyItem>(place).items.values().any(AnyItem::has_large_field) {
        bail!(
            "{place} is not read by socket: each time EVE would leave its large fields behind as files in \
             /persist/pubsub-large; without --socket the files are read, and have all of it"
        );
    }
    Ok(())
}

/// One line of JSON.
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
