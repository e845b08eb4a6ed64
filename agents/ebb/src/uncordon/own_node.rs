//! `ebb uncordon --self`: this device's own node is given back at once, without the health gate of zedkube's return.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use cluster::{Cluster, Uncordoned, uncordon, uncordon_any};
use drain::view::NodeView;
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::AgentFlags;
use runtime::plain_text::one_line;
use schemas::agent::{self, ZEDKUBE};
use schemas::{NodeDrainReport, NodeDrainRequest};

use crate::device::Device;
use crate::kubectl::flags::DryRun;
use crate::slots::give_back;
use crate::{journal, peers, screen};

/// So much of what somebody else wrote is shown, in bytes.
const MOST_BYTES: usize = 200;

/// Flags that say which nodes are meant, and where.
const OTHERS: [&str; 3] = ["nodes", "selector", "context"];

/// The device whose node is meant.
#[derive(Args, Debug)]
pub(super) struct OwnNode {
    /// This device's own node: lift the cordon of its zedkube and give the slot back, without the health gate
    #[arg(long = "self", conflicts_with_all = OTHERS)]
    pub(super) is_meant: bool,
    /// With --self: folder that stands for `/`
    #[arg(long, value_name = "DIR", requires = "is_meant", conflicts_with_all = OTHERS)]
    root: Option<PathBuf>,
    /// With --self: settings file that wins over the installed ones
    #[arg(long, value_name = "FILE", requires = "is_meant", conflicts_with_all = OTHERS)]
    config: Vec<PathBuf>,
    /// With --self: name of the Node that is this machine
    #[arg(long, value_name = "NAME", requires = "is_meant", conflicts_with_all = OTHERS)]
    node: Option<String>,
}

/// Uncordons the node, then gives the slot back, as zedkube's own return does.
///
/// # Errors
/// A request stands, or somebody else's cordon stays, and there is no `force`; a call failed.
pub(super) async fn run(
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
        screen::line(&line(&node.name, force && node.cordoned || is_ours(&node), mode));
        return Ok(ExitCode::SUCCESS);
    }
    let lifted = lift(&cluster, &node, force).await?;
    if lifted || stays.is_ok() {
        screen::line(&line(&node.name, lifted, mode));
        record(&device.root, &format!("node {} uncordoned", node.name));
    }
    if give_back(&cluster, &zedkube::slot_map(&device.settings), &node.name).await? {
        record(&device.root, &format!("the slot of node {} given back", node.name));
        screen::line(&format!("the slot of {} is given back", node.name));
    }
    stays.map(|()| ExitCode::SUCCESS)
}

/// Whether something was lifted.
async fn lift(cluster: &Cluster, node: &NodeView, force: bool) -> anyhow::Result<bool> {
    let result = if force {
        uncordon_any(cluster, &node.name).await?
    } else {
        uncordon(cluster, &node.name, ZEDKUBE).await?
    };
    match result {
        Uncordoned::Changed => Ok(true),
        Uncordoned::AnnotationRemoved | Uncordoned::NotOurs | Uncordoned::AlreadySchedulable => Ok(false),
        Uncordoned::StaysCordoned => bail!(
            "node {:?} stays cordoned: annotation ebb.dev/keep-cordoned is on it, or somebody has cordoned it after \
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

fn is_ours(node: &NodeView) -> bool {
    node.cordoned && node.cordoned_by.as_deref() == Some(ZEDKUBE)
}

/// Somebody else's cordon stays.
fn foreign(node: &NodeView, force: bool) -> anyhow::Result<()> {
    if force || !node.cordoned || is_ours(node) {
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
    journal::record(root, &format!("{what} by {} (ebb uncordon --self)", peers::user()));
}

/// A node for which a request stands goes down soon.
fn refuse_standing(root: &Root, force: bool) -> anyhow::Result<()> {
    let standing = standing(root);
    if standing.is_empty() {
        return Ok(());
    }
    let who = standing.join(", ");
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

/// Who asks for a drain that has not failed.
fn standing(root: &Root) -> Vec<String> {
    let read = read_item::<NodeDrainReport>(root, ZEDKUBE, Persistence::Volatile, &TopicKey::global());
    let report = read.ok().flatten().unwrap_or_default();
    let agents = [agent::ZEDAGENT, agent::BASEOSMGR, agent::EBB];
    agents.into_iter().filter_map(|agent| asks(root, agent, &report)).collect()
}

/// A file that cannot be read asks for we do not know what. A failed request holds the node no longer: zedkube itself
/// gives it back.
fn asks(root: &Root, agent: &str, report: &NodeDrainReport) -> Option<String> {
    let said = |context: &str| format!("{agent} ({})", one_line(context, MOST_BYTES));
    let is_failed = |time| report.line_of(agent, time).is_some_and(|line| line.answer.is_failed());
    match read_item::<NodeDrainRequest>(root, agent, Persistence::Volatile, &TopicKey::global()) {
        Ok(Some(request)) => (!is_failed(request.requested_at)).then(|| said(&request.context)),
        Err(refusal) => Some(format!("{agent}, whose request cannot be read ({refusal})")),
        // zedkube has not seen yet that it is gone; one that does not run will not go on with it.
        Ok(None) if peers::runs(root, ZEDKUBE) => {
            let line =
                report.requests.iter().find(|line| line.publisher == agent && !line.answer.is_failed());
            line.map(|line| said(&line.context))
        }
        Ok(None) => None,
    }
}
