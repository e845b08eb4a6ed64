//! `ebb cordon NODE…`: `kubectl cordon`, which also writes owner and reason into annotations of the node.

use std::process::ExitCode;

use clap::Args;
use cluster::cordon::{Marks, PriorCordon, cordon_marked};
use cluster::{Cluster, CordonFailure, NodeFacts, would_cordon};
use drain::view::NodeView;

use crate::kubectl::nodes::NodeArguments;
use crate::kubectl::{DryRun, owner};
use crate::screen;

/// Arguments of `ebb cordon`.
#[derive(Args, Debug)]
pub struct CordonArguments {
    #[command(flatten)]
    pub(crate) nodes: NodeArguments,
    /// Reason, written into an annotation of the node
    #[arg(long, value_name = "TEXT", default_value = "ebb cordon")]
    reason: String,
}

/// Cordons the nodes. If one cannot be cordoned, it is named, the others are cordoned all the same, and the exit code
/// is 1.
pub fn run(arguments: &CordonArguments) -> anyhow::Result<ExitCode> {
    let chosen = arguments.nodes.chosen("cordon")?;
    let mode = arguments.nodes.dry_run.mode;
    let cordon_one = async |cluster: &Cluster, NodeFacts { view: node, .. }: &NodeFacts| {
        let cordoned_one = one(cluster, node, &arguments.reason, mode).await;
        let (before, refusal) = cordoned_one.map_err(|failure| failure.to_string())?;
        screen::line(&cordoned(&node.name, before, mode));
        if let Some(refusal) = refusal {
            screen::say(&unmarked(&node.name, &refusal));
        }
        Ok(())
    };
    crate::in_runtime(async {
        arguments.nodes.each("cordon", &chosen, cordon_one).await.map(|done| done.exit_code())
    })
}

/// Cordons one node. Returns its state before, and why the annotations were refused if they were.
async fn one(
    cluster: &Cluster,
    node: &NodeView,
    reason: &str,
    mode: DryRun,
) -> Result<(PriorCordon, Option<String>), CordonFailure> {
    let before = match mode {
        DryRun::None => {
            let cordoned = cordon_marked(cluster, &node.name, &owner(), reason, Marks::Wished).await?;
            return Ok((cordoned.before(), cordoned.unmarked().map(str::to_owned)));
        }
        DryRun::Client if node.cordoned => PriorCordon::Foreign,
        DryRun::Client => PriorCordon::Schedulable,
        DryRun::Server => would_cordon(cluster, &node.name, &owner(), reason, Marks::Wished).await?,
    };
    Ok((before, None))
}

/// The warning about a cordon whose annotations were refused.
pub(crate) fn unmarked(node: &str, refusal: &str) -> String {
    format!(
        "Warning: node/{node} is cordoned without ebb's annotations, so nothing on it says who has cordoned it, and why: \
         they were refused: {refusal}"
    )
}

/// kubectl's line for a cordoned node.
pub(crate) fn cordoned(node: &str, before: PriorCordon, mode: DryRun) -> String {
    let already = if before == PriorCordon::Schedulable { "" } else { "already " };
    format!("node/{node} {already}cordoned{}", mode.suffix())
}
