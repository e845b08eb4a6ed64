//! `ebb cordon NODE…`: `kubectl cordon`, which also writes owner and reason into annotations of the node.

use std::process::ExitCode;

use clap::Args;
use cluster::cordon::PriorCordon;
use cluster::{Cluster, CordonFailure, cordon, would_cordon};
use drain::view::NodeView;

use crate::drain::owner;
use crate::kubectl::DryRun;
use crate::kubectl::nodes::NodeArguments;
use crate::screen;

/// Arguments of `ebb cordon`.
#[derive(Args, Debug)]
pub(crate) struct CordonArguments {
    #[command(flatten)]
    nodes: NodeArguments,
    /// Reason, written into an annotation of the node
    #[arg(long, value_name = "TEXT", default_value = "ebb cordon")]
    reason: String,
}

/// Cordons the nodes. If one cannot be cordoned, it is named, the others are cordoned all the same, and the exit code
/// is 1.
pub(crate) fn run(arguments: &CordonArguments) -> anyhow::Result<ExitCode> {
    let chosen = arguments.nodes.chosen("cordon")?;
    let mode = arguments.nodes.dry_run.mode;
    crate::in_runtime(async {
        let (cluster, nodes) = arguments.nodes.find("cordon", &chosen).await?;
        let mut code = ExitCode::SUCCESS;
        for node in &nodes {
            match one(&cluster, node, &arguments.reason, mode).await {
                Ok(before) => screen::line(&cordoned(&node.name, before, mode)),
                Err(failure) => {
                    screen::say(&format!("error: unable to cordon node {:?}: {failure}", node.name));
                    code = ExitCode::FAILURE;
                }
            }
        }
        Ok(code)
    })
}

async fn one(
    cluster: &Cluster,
    node: &NodeView,
    reason: &str,
    mode: DryRun,
) -> Result<PriorCordon, CordonFailure> {
    match mode {
        DryRun::None => cordon(cluster, &node.name, &owner(), reason).await.map(|cordoned| cordoned.before()),
        DryRun::Client if node.cordoned => Ok(PriorCordon::Foreign),
        DryRun::Client => Ok(PriorCordon::Schedulable),
        DryRun::Server => would_cordon(cluster, &node.name, &owner(), reason).await,
    }
}

/// kubectl's line for a cordoned node.
pub(crate) fn cordoned(node: &str, before: PriorCordon, mode: DryRun) -> String {
    let already = if before == PriorCordon::Schedulable { "" } else { "already " };
    format!("node/{node} {already}cordoned{}", mode.suffix())
}
