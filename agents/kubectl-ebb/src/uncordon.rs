//! `ebb uncordon NODE…`: `kubectl uncordon`, which keeps the cordon of a device's own drain.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use cluster::{Cluster, NodeFacts, Uncordoned, uncordon_any};
use drain::view::NodeView;

use crate::kubectl::nodes::NodeArguments;
use crate::kubectl::{DryRun, go_bool, is_on};
use crate::screen;

/// Owner of the cordon that a device's own drain sets.
const ZEDKUBE: &str = "zedkube";

/// Arguments of `ebb uncordon`.
#[derive(Args, Debug)]
pub struct UncordonArguments {
    /// The nodes, and the cluster.
    #[command(flatten)]
    pub nodes: NodeArguments,
    /// Also lift the cordon of a device's own drain
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    pub force: Option<Option<bool>>,
}

/// Uncordons the nodes. If a node cannot or should not be uncordoned, it is named, the others go on, and the exit code
/// is 1.
pub fn run(arguments: &UncordonArguments) -> anyhow::Result<ExitCode> {
    let mode = arguments.nodes.dry_run.mode;
    let chosen = arguments.nodes.chosen("uncordon")?;
    refuse_server(mode)?;
    let uncordon_one = async |cluster: &Cluster, NodeFacts { view: node, .. }: &NodeFacts| {
        let already = one(cluster, node, is_on(arguments.force), mode).await?;
        screen::line(&format!("node/{} {already}uncordoned{}", node.name, mode.suffix()));
        Ok(())
    };
    crate::in_runtime(async {
        arguments.nodes.each("uncordon", &chosen, uncordon_one).await.map(|done| done.exit_code())
    })
}

/// Refuses `--dry-run=server`.
///
/// # Errors
/// The mode is that.
pub fn refuse_server(mode: DryRun) -> anyhow::Result<()> {
    if mode == DryRun::Server {
        bail!("--dry-run=server is not supported here: use --dry-run=client");
    }
    Ok(())
}

/// Uncordons one node. Returns `already ` if it was not cordoned.
async fn one(cluster: &Cluster, node: &NodeView, force: bool, mode: DryRun) -> Result<&'static str, String> {
    if !force && node.is_cordoned_by(ZEDKUBE) {
        return Err(format!(
            "{ZEDKUBE} on the device has cordoned it: a drain is under way there, or a reboot or update is pending \
             (`ebb status` on the device says which). Cancel that, or add --force: pods may then come to a node that \
             goes down"
        ));
    }
    let already = |is_cordoned| if is_cordoned { "" } else { "already " };
    if mode != DryRun::None {
        return Ok(already(node.cordoned));
    }
    match uncordon_any(cluster, &node.name).await {
        Ok(Uncordoned::Changed) => Ok(already(true)),
        Ok(Uncordoned::AnnotationsStay) => {
            screen::say(&format!(
                "Warning: the annotations of the old cordon stay on node/{}: an admission policy refused to remove them",
                node.name
            ));
            Ok(already(true))
        }
        Ok(
            Uncordoned::AlreadySchedulable
            | Uncordoned::AnnotationRemoved
            | Uncordoned::StaysCordoned
            | Uncordoned::NotOurs,
        ) => Ok(already(false)),
        Ok(Uncordoned::NodeGone) => Err("it does not exist any more".to_owned()),
        Err(failure) => Err(failure.to_string()),
    }
}
