//! `kubectl ebb reboot NODE…`, `shutdown`, `update` and `request`: command the devices behind Nodes by annotations, which ebb
//! on each device carries out.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use cluster::clock::wall;
use cluster::node_commands::{LONGEST_TEXT, NodeCommand, UpdateText};
use cluster::{Cluster, NodeFacts, commanding};
use trust::user;
use uuid::Uuid;

use crate::following::{Followed, Goal, Waiting, answer_to, words};
use crate::kubectl::DryRun;
use crate::kubectl::nodes::NodeArguments;
use crate::screen;
use crate::uncordon::refuse_server;

/// Arguments of `kubectl ebb reboot`, `shutdown` and `request`.
#[derive(Args, Debug)]
pub struct CommandArguments {
    #[command(flatten)]
    pub(crate) nodes: NodeArguments,
    /// Reason, written into the annotation behind the time and your name
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    waiting: Waiting,
}

/// Arguments of `kubectl ebb update`.
#[derive(Args, Debug)]
pub struct UpdateArguments {
    #[command(flatten)]
    pub(crate) command: CommandArguments,
    /// Image: the UUID of its content tree
    #[arg(long, value_name = "UUID")]
    image: Uuid,
    /// Version of the image, as the image reports it when it runs
    #[arg(long = "version", value_name = "V")]
    image_version: String,
}

/// Gives the command to the devices of the nodes. If a node does not take it, it is named, the others are commanded all the
/// same, and the exit code is 1.
pub fn run(command: NodeCommand, arguments: &CommandArguments) -> anyhow::Result<ExitCode> {
    command_all(command, arguments, &arguments.text())
}

/// Commands the update to an image, as [`run`].
pub fn update(arguments: &UpdateArguments) -> anyhow::Result<ExitCode> {
    let UpdateArguments { command, image, image_version } = arguments;
    let (image, version) = (image.hyphenated().to_string(), image_version.clone());
    let text = UpdateText { image, version, reason: command.text() }.to_text();
    command_all(NodeCommand::Update, command, &text)
}

fn command_all(command: NodeCommand, arguments: &CommandArguments, text: &str) -> anyhow::Result<ExitCode> {
    let (name, mode) = (command.name(), arguments.nodes.dry_run.mode);
    // `drain` is kubectl's drain, done from here.
    let verb = if command == NodeCommand::Drain { "request" } else { name };
    let chosen = arguments.nodes.chosen(verb)?;
    refuse_server(mode)?;
    if text.len() > LONGEST_TEXT {
        let count = text.len();
        bail!(
            "--reason is too long: with the time and your name {count} bytes; accepted: at most {LONGEST_TEXT}"
        );
    }
    crate::in_runtime(async {
        let mut followed = Vec::new();
        let give_one = async |cluster: &Cluster, node: &NodeFacts| {
            give(cluster, node, command, text, mode).await?;
            let (node, uid) = (node.view.name.clone(), node.view.uid.clone());
            screen::line(&format!("node/{node} {name} commanded{}", mode.suffix()));
            let goal = Goal::Done(command, command.counter(&uid, text));
            followed.push(Followed { name: node, uid, goal });
            Ok(())
        };
        let done = arguments.nodes.each(verb, &chosen, give_one).await?;
        if mode != DryRun::None {
            screen::say(&format!("annotation {} would be: {text}", command.key()));
            followed.clear();
        } else if let Some(Followed { name, .. }) = followed.first().filter(|_| !arguments.waiting.is_on()) {
            screen::say(&format!(
                "{}; how far it is: kubectl get node {name} -o \
                 jsonpath='{{.metadata.annotations.ebb\\.dev/state}}', or --wait with the next command",
                follows(command)
            ));
        }
        arguments.waiting.end(done, followed).await
    })
}

impl CommandArguments {
    /// The text of the command, which no command before has had.
    fn text(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or_default();
        let colon = if reason.is_empty() { "" } else { ": " };
        format!("{:.3} by {}{colon}{reason}", wall(), user())
    }
}

const fn follows(command: NodeCommand) -> &'static str {
    match command {
        NodeCommand::Reboot | NodeCommand::Shutdown => "the device carries it out once its node is drained",
        NodeCommand::Update => "the device activates the image once its node is drained, and reboots into it",
        NodeCommand::Drain => {
            "the device drains its node, and keeps it drained, over boots too, until `kubectl ebb cancel`"
        }
    }
}

/// Gives the command to one node, unless it carries one that is not over.
async fn give(
    cluster: &Cluster,
    node: &NodeFacts,
    command: NodeCommand,
    text: &str,
    mode: DryRun,
) -> Result<(), String> {
    let (name, uid) = (&node.view.name, &node.view.uid);
    if let Some(given) = node.commands.of_kind(command) {
        let answer = answer_to(node, command, given.counter);
        if !answer.as_ref().is_some_and(|answer| answer.state.is_final()) {
            let answer = answer.as_ref().map_or_else(|| "no answer yet".to_owned(), words);
            return Err(format!(
                "{} is commanded already ({answer}): `kubectl ebb cancel {name}` takes it back",
                command.name()
            ));
        }
    }
    match mode {
        DryRun::None => commanding::command(cluster, name, uid, command, text)
            .await
            .map_err(|failure| failure.to_string()),
        DryRun::Client | DryRun::Server => Ok(()),
    }
}
