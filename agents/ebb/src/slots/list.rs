//! `ebb slots list`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use cluster::{Holder, SlotLease, list_nodes, read_slots};
use drain::view::NodeView;
use serde::Serialize;

use super::sight::{down_for, is_out, node_of, words};
use super::{Common, lease_of};
use crate::screen::{self, table};

/// The columns of the table.
const HEAD: [&str; 5] = ["NODE", "SLOT", "BOOT", "RENEWAL", "NOW"];

/// So many characters of a boot id tell one boot from another.
const SHORT_BOOT: usize = 8;

/// `ebb slots list --json`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    group: String,
    /// `namespace/name`.
    lease: String,
    /// Setting `slots.limit`; 0 is no limit.
    limit: u32,
    /// Nodes that count against it: holders that exist, and nodes that are down.
    taken: usize,
    holders: Vec<Entry>,
    /// Nodes without an entry that count as well: NotReady for less than `slots.down-max`.
    down: Vec<Down>,
}

/// One entry of the Lease.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(flatten)]
    holder: Holder,
    /// What its node looks like now.
    now: String,
    /// Its node is down, or cordoned by zedkube.
    in_use: bool,
}

/// One node that is down.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Down {
    node: String,
    #[serde(rename = "NodeUID")]
    node_uid: String,
    now: String,
}

/// Prints who has a slot.
pub(super) async fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let device = common.device()?;
    let lease = lease_of(&device);
    let cluster = device.reach("slots").await?;
    let slots = read_slots(&cluster, &lease).await?;
    // After the Lease: a node that joined and took a slot in between would look as if it were gone.
    let nodes: Vec<NodeView> = list_nodes(&cluster).await?.into_iter().map(|facts| facts.view).collect();
    let limits = &device.settings.slots;
    let document = document(&lease, slots.holders, &nodes, limits.limit, limits.down_max);
    if common.json {
        screen::line(&serde_json::to_string_pretty(&document).context("cannot write JSON")?);
    } else {
        screen::line(tell(&document).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn document(
    lease: &SlotLease,
    holders: Vec<Holder>,
    nodes: &[NodeView],
    limit: u32,
    down_max: Duration,
) -> Document {
    let holds = |node: &NodeView| holders.iter().any(|holder| holder.node_uid == node.uid);
    let counts = |node: &&NodeView| down_for(node).is_some_and(|lasting| lasting < down_max) && !holds(node);
    let down: Vec<Down> = nodes
        .iter()
        .filter(counts)
        .map(|node| Down { node: node.name.clone(), node_uid: node.uid.clone(), now: words(node) })
        .collect();
    // By UID: a node that is in the Lease twice counts once.
    let taken = down.len() + nodes.iter().filter(|node| holds(node)).count();
    let entry = |holder: Holder| {
        let node = node_of(&holder, nodes);
        let now = node.map_or_else(|| "gone: whoever needs a slot next frees it".to_owned(), words);
        Entry { now, in_use: node.is_some_and(is_out), holder }
    };
    Document {
        group: lease.group.clone(),
        lease: format!("{}/{}", lease.namespace, lease.name()),
        limit,
        taken,
        holders: holders.into_iter().map(entry).collect(),
        down,
    }
}

fn tell(document: &Document) -> String {
    let Document { group, lease, limit, taken, holders, down } = document;
    let of = if *limit == 0 { "no limit (slots.limit = 0)".to_owned() } else { format!("limit {limit}") };
    let who = if holders.is_empty() { "nobody has a slot; " } else { "" };
    let head = format!("{who}group {group}: {taken} taken, {of} (Lease {lease})\n");
    let of_holder = |entry: &Entry| {
        let Holder { node, boot_id, renewal, .. } = &entry.holder;
        [node.clone(), "held".to_owned(), short(boot_id), renewal.to_string(), entry.now.clone()]
    };
    let of_down =
        |down: &Down| [down.node.clone(), "down".to_owned(), "-".into(), "-".into(), down.now.clone()];
    let rows: Vec<_> = holders.iter().map(of_holder).chain(down.iter().map(of_down)).collect();
    if rows.is_empty() { head } else { head + &table(HEAD, &rows) }
}

/// Anybody who may write the Lease may have written something else.
fn short(boot_id: &str) -> String {
    let plain = boot_id.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-');
    let short: String = plain.take(SHORT_BOOT).collect();
    if short.is_empty() { "-".to_owned() } else { short }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
