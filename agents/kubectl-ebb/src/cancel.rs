//! `kubectl ebb cancel NODE…`: takes back what `reboot`, `shutdown`, `update` and `request` have commanded.

use std::process::ExitCode;

use clap::Args;
use cluster::commanding::take_back;
use cluster::node_commands::{AnswerState, GivenCommand, NodeCommand};
use cluster::{Cluster, NodeFacts};

use crate::following::{Followed, Goal, Waiting, answer_to, too_late};
use crate::kubectl::DryRun;
use crate::kubectl::nodes::NodeArguments;
use crate::screen;
use crate::uncordon::refuse_server;

/// Arguments of `kubectl ebb cancel`.
#[derive(Args, Debug)]
pub struct CancelArguments {
    #[command(flatten)]
    pub(crate) nodes: NodeArguments,
    #[command(flatten)]
    waiting: Waiting,
}

/// Takes the commands of the nodes back. If that fails, or if it is too late, the node is named, the others go on, and the
/// exit code is 1.
pub fn run(arguments: &CancelArguments) -> anyhow::Result<ExitCode> {
    let mode = arguments.nodes.dry_run.mode;
    let chosen = arguments.nodes.chosen("cancel")?;
    refuse_server(mode)?;
    crate::in_runtime(async {
        let mut followed = Vec::new();
        let cancel_one = async |cluster: &Cluster, node: &NodeFacts| {
            let (name, uid) = (node.view.name.clone(), node.view.uid.clone());
            match cancel(cluster, node, mode).await? {
                false => screen::line(&format!("node/{name} has no command")),
                true if mode == DryRun::None => followed.push(Followed { name, uid, goal: Goal::TakenBack }),
                true => {}
            }
            Ok(())
        };
        let done = arguments.nodes.each("cancel", &chosen, cancel_one).await?;
        arguments.waiting.end(done, followed).await
    })
}

/// Takes back all commands of a node but the one that its device is carrying out. True if there were any.
///
/// # Errors
/// The API server does not take that; or the device is going down.
async fn cancel(cluster: &Cluster, node: &NodeFacts, mode: DryRun) -> Result<bool, String> {
    let (name, uid) = (&node.view.name, &node.view.uid);
    let acting = node.commands.answer().filter(|answer| answer.state == AnswerState::Acting);
    let is_acting = |given: &GivenCommand| {
        acting.as_ref().is_some_and(|acting| acting.is_to(given.command, given.counter))
    };
    let standing: Vec<&GivenCommand> = node.commands.given.iter().filter(|given| !is_acting(given)).collect();
    if mode == DryRun::None && !standing.is_empty() {
        let commands: Vec<NodeCommand> = standing.iter().map(|given| given.command).collect();
        take_back(cluster, name, uid, &commands).await.map_err(|failure| failure.to_string())?;
    }
    for given in &standing {
        let answer = answer_to(node, given.command, given.counter);
        let over = answer.filter(|answer| answer.state.is_final());
        let over = over.map(|answer| format!(" (it was over: {:?})", answer.state)).unwrap_or_default();
        screen::line(&format!("node/{name} {} taken back{over}{}", given.command.name(), mode.suffix()));
    }
    acting.map_or(Ok(!standing.is_empty()), |answer| Err(too_late(&answer)))
}
