//! `kubectl ebb reboot NODE…` and `shutdown NODE…`: command the devices behind Nodes by annotations, which ebb on each
//! device carries out once its node is drained.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use cluster::node_commands::{LONGEST_TEXT, NodeCommand};
use cluster::{Cluster, NodeFacts, commanding};
use runtime::clock::wall;
use runtime::peers::user;

use crate::following::{Followed, Goal, Sent, Waiting, answer_to, words};
use crate::kubectl::DryRun;
use crate::kubectl::nodes::NodeArguments;
use crate::screen;
use crate::uncordon::refuse_server;

/// Arguments of `kubectl ebb reboot` and `shutdown`.
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

/// Gives the command to the devices of the nodes. If a node does not take it, it is named, the others are commanded all the
/// same, and the exit code is 1.
pub fn run(command: NodeCommand, arguments: &CommandArguments) -> anyhow::Result<ExitCode> {
    let (verb, mode) = (command.name(), arguments.nodes.dry_run.mode);
    let chosen = arguments.nodes.chosen(verb)?;
    refuse_server(mode)?;
    let text = text(arguments.reason.as_deref().unwrap_or_default())?;
    crate::in_runtime(async {
        let (cluster, nodes) = arguments.nodes.find_facts(verb, &chosen).await?;
        let mut sent = Sent::default();
        for node in &nodes {
            let (name, uid) = (&node.view.name, &node.view.uid);
            match give(&cluster, node, command, &text, mode).await {
                Ok(()) => {
                    screen::line(&format!("node/{name} {verb} commanded{}", mode.suffix()));
                    let goal = Goal::Done(command, command.counter(uid, &text));
                    sent.followed.push(Followed { name: name.clone(), uid: uid.clone(), goal });
                }
                Err(why) => {
                    screen::say(&format!("error: unable to {verb} node {name:?}: {why}"));
                    sent.failed.push(name.clone());
                }
            }
        }
        if mode != DryRun::None {
            screen::say(&format!("annotation {} would be: {text}", command.key()));
            sent.followed.clear();
        } else if let Some(Followed { name, .. }) =
            sent.followed.first().filter(|_| !arguments.waiting.is_on())
        {
            screen::say(&format!(
                "the device carries it out once its node is drained; how far it is: kubectl get node {name} -o \
                 jsonpath='{{.metadata.annotations.ebb\\.dev/state}}', or --wait with the next command"
            ));
        }
        arguments.waiting.end(&cluster, nodes.len(), sent).await
    })
}

/// The text of a command, which no command before has had.
///
/// # Errors
/// The reason is too long.
fn text(reason: &str) -> anyhow::Result<String> {
    let colon = if reason.is_empty() { "" } else { ": " };
    let text = format!("{:.3} by {}{colon}{reason}", wall(), user());
    if text.len() > LONGEST_TEXT {
        let count = text.len();
        bail!(
            "--reason is too long: with the time and your name {count} bytes; accepted: at most {LONGEST_TEXT}"
        );
    }
    Ok(text)
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
    if let Some(given) = node.commands.given.iter().find(|given| given.command == command) {
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
