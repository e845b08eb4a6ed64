//! `ebb uncordon NODE…`, and with `--self` this device's own node: it is uncordoned at once, without zedkube's health gate.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use cluster::{Cluster, Uncordoned, give_back_slot, uncordon, uncordon_any};
use drain::view::NodeView;
use kubectl_ebb::kubectl::{DryRun, is_on};
use kubectl_ebb::screen;
use kubectl_ebb::uncordon::{UncordonArguments, refuse_server};
use pubsub::Root;
use runtime::{AgentFlags, peers};
use schemas::agent::ZEDKUBE;
use text::one_line;

use crate::device::Device;
use crate::operator::journal;

/// Bytes of another owner's text that are shown.
const MOST_BYTES: usize = 200;

/// Arguments of `ebb uncordon`.
#[derive(Args, Debug)]
#[command(mut_arg("force", |flag| flag.help(FORCE)))]
pub(crate) struct DeviceUncordonArguments {
    #[command(flatten)]
    of_nodes: UncordonArguments,
    #[command(flatten)]
    own: OwnNode,
}

const FORCE: &str = "Also lift the cordon of a device's own drain; with --self also the cordon of another owner, and even while \
                     a drain is requested";

/// Uncordons the nodes, or this device's own.
pub(crate) fn run(arguments: &DeviceUncordonArguments) -> anyhow::Result<ExitCode> {
    let UncordonArguments { nodes, force } = &arguments.of_nodes;
    if !arguments.own.is_meant {
        return kubectl_ebb::uncordon::run(&arguments.of_nodes);
    }
    let mode = nodes.dry_run.mode;
    refuse_server(mode)?;
    kubectl_ebb::in_runtime(run_own(&arguments.own, nodes.kubeconfig.clone(), is_on(*force), mode))
}

/// Flags that choose other nodes or another cluster, so they conflict with --self.
const OTHERS: [&str; 8] = ["nodes", "selector", "context", "cluster", "user", "impersonate", "groups", "uid"];

/// Flags for this device's own node.
#[derive(Args, Debug)]
pub(crate) struct OwnNode {
    /// Uncordon this device's own node (a cordon of its zedkube) and release its slot, without waiting for the health
    /// gate
    #[arg(long = "self", conflicts_with_all = OTHERS)]
    is_meant: bool,
    /// With --self: folder that is used as the root of the device's files
    #[arg(long, value_name = "DIR", requires = "is_meant", conflicts_with_all = OTHERS)]
    root: Option<PathBuf>,
    /// With --self: settings file that overrides the installed ones
    #[arg(long, value_name = "FILE", requires = "is_meant", conflicts_with_all = OTHERS)]
    config: Vec<PathBuf>,
    /// With --self: name of the Node of this device
    #[arg(long, value_name = "NAME", requires = "is_meant", conflicts_with_all = OTHERS)]
    node: Option<String>,
}

/// Uncordons the node, then releases the slot, in the same order as zedkube.
///
/// # Errors
/// Without `force`: a drain is requested, or another owner's cordon stays. A call failed.
async fn run_own(
    own: &OwnNode,
    kubeconfig: Option<PathBuf>,
    force: bool,
    mode: DryRun,
) -> anyhow::Result<ExitCode> {
    let flags = AgentFlags {
        config: own.config.clone(),
        node: own.node.clone(),
        kubeconfig,
        ..AgentFlags::default()
    };
    let flags = AgentFlags { root: own.root.clone().unwrap_or(flags.root), ..flags };
    let device = Device::read(&flags)?;
    refuse_standing(&device.root, force)?;
    let cluster = device.reach("uncordon").await?;
    let node = device.own_node(&cluster).await?;
    let stays = foreign(&node, force);
    if mode != DryRun::None {
        stays?;
        screen::line(&line(&node.name, force && node.cordoned || node.is_cordoned_by(ZEDKUBE), mode));
        return Ok(ExitCode::SUCCESS);
    }
    let lifted = lift(&cluster, &node, force).await?;
    if lifted || stays.is_ok() {
        screen::line(&line(&node.name, lifted, mode));
        record(&device.root, &format!("node {} uncordoned", node.name));
    }
    if give_back_slot(&cluster, &zedkube::slot_map(&device.settings), &node.name).await? {
        record(&device.root, &format!("the slot of node {} given back", node.name));
        screen::line(&format!("the slot of {} is given back", node.name));
    }
    stays.map(|()| ExitCode::SUCCESS)
}

/// Lifts the cordon; true if the node was changed.
async fn lift(cluster: &Cluster, node: &NodeView, force: bool) -> anyhow::Result<bool> {
    let result = if force {
        uncordon_any(cluster, &node.name).await?
    } else {
        uncordon(cluster, &node.name, ZEDKUBE).await?
    };
    match result {
        Uncordoned::Changed | Uncordoned::AnnotationsStay => Ok(true),
        Uncordoned::AnnotationRemoved | Uncordoned::NotOurs | Uncordoned::AlreadySchedulable => Ok(false),
        Uncordoned::StaysCordoned => bail!(
            "node {:?} stays cordoned: annotation ebb.dev/keep-cordoned is on it, or another user has cordoned it after \
             zedkube; --force lifts it all the same",
            node.name
        ),
        Uncordoned::NodeGone => bail!("unable to uncordon node {:?}: it does not exist any more", node.name),
    }
}

fn line(name: &str, lifted: bool, mode: DryRun) -> String {
    let already = if lifted { "" } else { "already " };
    format!("node/{name} {already}uncordoned{}", mode.suffix())
}

/// Refuses to lift the cordon of another owner, without `force`.
fn foreign(node: &NodeView, force: bool) -> anyhow::Result<()> {
    if force || !node.cordoned || node.is_cordoned_by(ZEDKUBE) {
        return Ok(());
    }
    let owner =
        node.cordoned_by.as_ref().map_or_else(|| "somebody".to_owned(), |owner| one_line(owner, MOST_BYTES));
    bail!(
        "node {:?} stays cordoned: {owner} has cordoned it, not {ZEDKUBE}; ask why, or add --force to lift that as well",
        node.name
    );
}

fn record(root: &Root, what: &str) {
    journal(root, &format!("{what} by {} (ebb uncordon --self)", peers::user()), "");
}

/// Refuses, without `force`, if a drain of this node is requested: the node goes down soon.
fn refuse_standing(root: &Root, force: bool) -> anyhow::Result<()> {
    let askers: Vec<String> = peers::askers(root).iter().map(ToString::to_string).collect();
    if askers.is_empty() {
        return Ok(());
    }
    let who = askers.join(", ");
    if force {
        screen::say(&format!(
            "Warning: a drain is asked for by {who}: pods may come to a node that goes down"
        ));
        return Ok(());
    }
    bail!(
        "a drain of this node is asked for by {who}: pods would come to a node that goes down; take that back (`ebb \
         cancel`, `ebb cancel reboot`, at the controller), or add --force"
    );
}
