//! `ebb uncordon NODE…`: `kubectl uncordon`, but it does not pull the ground from under a device's own drain.

mod own_node;

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use cluster::{Cluster, Uncordoned, uncordon_any};
use drain::view::NodeView;
use schemas::agent::ZEDKUBE;

use crate::kubectl::flags::{DryRun, go_bool, is_on};
use crate::kubectl::nodes::NodeArguments;
use crate::screen;
use own_node::OwnNode;

/// What `ebb uncordon` takes.
#[derive(Args, Debug)]
#[expect(
    clippy::option_option,
    reason = "clap's form of pflag's switches: absent, `--force`, `--force=false`"
)]
pub(crate) struct UncordonArguments {
    #[command(flatten)]
    nodes: NodeArguments,
    #[command(flatten)]
    own: OwnNode,
    /// Also lift the cordon of a device's own drain; with --self also somebody else's, whoever asks for a drain
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    force: Option<Option<bool>>,
}

/// Lifts the cordons. A node that cannot be or should not be is named, and the others go on; then the exit code is 1.
pub(crate) fn run(arguments: &UncordonArguments) -> anyhow::Result<ExitCode> {
    let mode = arguments.nodes.dry_run.mode;
    if arguments.own.is_meant {
        refuse_server(mode)?;
        let (kubeconfig, force) = (arguments.nodes.kubeconfig.clone(), is_on(arguments.force));
        return crate::in_runtime(own_node::run(&arguments.own, kubeconfig, force, mode));
    }
    let chosen = arguments.nodes.chosen("uncordon")?;
    refuse_server(mode)?;
    crate::in_runtime(async {
        let (cluster, nodes) = arguments.nodes.find("uncordon", &chosen).await?;
        let mut code = ExitCode::SUCCESS;
        for node in &nodes {
            match one(&cluster, node, is_on(arguments.force), mode).await {
                Ok(already) => {
                    screen::line(&format!("node/{} {already}uncordoned{}", node.name, mode.suffix()));
                }
                Err(why) => {
                    screen::say(&format!("error: unable to uncordon node {:?}: {why}", node.name));
                    code = ExitCode::FAILURE;
                }
            }
        }
        Ok(code)
    })
}

fn refuse_server(mode: DryRun) -> anyhow::Result<()> {
    if mode == DryRun::Server {
        bail!("--dry-run=server is not supported here: use --dry-run=client");
    }
    Ok(())
}

/// `already ` if there was nothing to lift.
async fn one(cluster: &Cluster, node: &NodeView, force: bool, mode: DryRun) -> Result<&'static str, String> {
    if node.cordoned && !force && node.cordoned_by.as_deref() == Some(ZEDKUBE) {
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
