//! `ebb slots release`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use cluster::cordon::uncordon_any;
use cluster::{Cluster, SlotMap, list_nodes, take_slots_away};
use drain::view::NodeView;
use runtime::peers;
use serde::Serialize;
use session::slot_survey::is_in_use;
use session::slots::is_out_for;

use super::{Common, node_of, node_state};
use crate::operator::journal;
use kubectl_ebb::kubectl::nodes::node_name;
use kubectl_ebb::screen;

/// The slot to release.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct SlotOwner {
    /// Node that holds the slot
    #[arg(value_name = "NODE")]
    holder: Option<String>,
    /// Release all slots of the group, even if their entries cannot be read
    #[arg(long)]
    all: bool,
}

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    /// Nodes that held a slot.
    released: Vec<String>,
    /// Nodes among them whose slot was in use, as far as it is known.
    in_use: Vec<String>,
    by: String,
    text: String,
}

/// Releases the slots.
///
/// # Errors
/// The node holds no slot; a slot is in use and `--force` is not given; the slots cannot be read or changed.
pub(super) async fn run(which: &SlotOwner, force: bool, common: &Common) -> anyhow::Result<ExitCode> {
    let device = common.device()?;
    let map = zedkube::slot_map(&device.settings);
    let wanted = which.holder.as_deref().map(node_name).transpose()?;
    let cluster = device.reach("slots").await?;
    let group = device.settings.policy.slots_group.as_deref();
    let is_meant = |node: &str| wanted.as_ref().is_none_or(|wanted| node == wanted);
    let released = matching(&cluster, &map, group, is_meant, force).await?;
    if let Some(name) = wanted.as_ref().filter(|_| released.nodes.is_empty()) {
        bail!("node {name} has no slot of group {}; `ebb slots list` says who has one", map.group);
    }
    if !released.nodes.is_empty() {
        let by = peers::user();
        journal(
            &device.root,
            &format!("slots of configmap {}: {} (by {by})", map.name(), released.line()),
            "",
        );
    }
    released.answer(common.json)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug)]
struct Released {
    nodes: Vec<String>,
    in_use: Vec<String>,
}

impl Released {
    fn line(&self) -> String {
        let done = match self.nodes.as_slice() {
            [] => return "no node has a slot".to_owned(),
            [node] => format!("the slot of {node} is free"),
            nodes => format!("the slots of {} are free", nodes.join(", ")),
        };
        if self.in_use.is_empty() {
            return done;
        }
        format!(
            "{done}, although in use ({}): two nodes may now be down at once; a drain that runs there stops within a \
             minute and queues again",
            self.in_use.join("; ")
        )
    }

    fn answer(self, json: bool) -> anyhow::Result<()> {
        let text = self.line();
        if !json {
            screen::line(&text);
            return Ok(());
        }
        let Self { nodes: released, in_use } = self;
        let document = Document { released, in_use, by: peers::user(), text };
        screen::json(&document)
    }
}

/// Removes the entries, and with `force` also zedkube's cordons: a node that carries one counts without an entry, too.
async fn matching(
    cluster: &Cluster,
    map: &SlotMap,
    group: Option<&str>,
    is_meant: impl Fn(&str) -> bool,
    force: bool,
) -> anyhow::Result<Released> {
    let judge = async |meant: &[String]| {
        if force { Ok(()) } else { refuse(&in_use(meant, &nodes(cluster).await?)) }
    };
    let mut removed = take_slots_away(cluster, map, &is_meant, judge).await?;
    // An entry can be removed with --force also without the right to list nodes.
    let nodes = if force { nodes(cluster).await.unwrap_or_default() } else { nodes(cluster).await? };
    let cordoned = nodes.iter().filter(|node| is_meant(&node.name) && is_out_for(node, group));
    for node in cordoned {
        if !force {
            refuse(&[named(node)])?;
        }
        uncordon_any(cluster, &node.name).await.with_context(|| {
            format!(
                "node {} still counts, because zedkube has cordoned it, and cannot be uncordoned",
                node.name
            )
        })?;
        if !removed.contains(&node.name) {
            removed.push(node.name.clone());
        }
    }
    let in_use = in_use(&removed, &nodes);
    Ok(Released { nodes: removed, in_use })
}

async fn nodes(cluster: &Cluster) -> anyhow::Result<Vec<NodeView>> {
    Ok(list_nodes(cluster).await?.into_iter().map(|facts| facts.view).collect())
}

fn in_use(names: &[String], nodes: &[NodeView]) -> Vec<String> {
    let found = names.iter().filter_map(|name| node_of(name, nodes));
    found.filter(|node| is_in_use(node)).map(named).collect()
}

fn named(node: &NodeView) -> String {
    format!("{} is {}", node.name, node_state(node))
}

fn refuse(in_use: &[String]) -> anyhow::Result<()> {
    if in_use.is_empty() {
        return Ok(());
    }
    bail!(
        "the slot is in use: {}; another node could go down at the same time. zedkube releases it by itself when the node \
         is in service again; `ebb uncordon --self` on that node releases it at once, --force releases it now",
        in_use.join("; ")
    );
}
