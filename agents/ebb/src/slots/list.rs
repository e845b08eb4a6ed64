//! `ebb slots list`.

use std::process::ExitCode;

use cluster::{Holder, SlotMap, Slots, Unreadable, list_nodes, read_slots};
use drain::view::NodeView;
use serde::Serialize;
use session::Policy;
use session::slot_survey::{is_in_use, survey};
use text::one_line;

use super::{Common, MOST_BYTES, node_of, node_state};
use kubectl_ebb::screen::{self, table};

/// Columns of the table.
const HEAD: [&str; 5] = ["NODE", "SLOT", "BOOT", "RENEWAL", "NOW"];

/// Characters of a boot id that are shown; they suffice to tell boots apart.
const SHORT_BOOT: usize = 8;

/// JSON form of `ebb slots list`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    group: String,
    /// `namespace/name`.
    config_map: String,
    /// Setting `slots.limit`; 0 = no limit.
    limit: u32,
    /// Number of nodes that count against the limit: holders that exist, and nodes that are down.
    taken: usize,
    holders: Vec<Entry>,
    /// Keys whose values cannot be read. Such an entry counts while its node is out of service.
    unreadable: Vec<Damaged>,
    /// Nodes without an entry that count too: they are NotReady for less than `slots.down-max`.
    down: Vec<Bare>,
    /// Nodes without an entry that count too: zedkube has cordoned them.
    cordoned: Vec<Bare>,
}

/// One holder.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(flatten)]
    holder: Holder,
    /// `held`, or `passed over`: another node has taken over this slot.
    slot: &'static str,
    /// The nodes whose entries say that this one was passed over.
    passed_over_by: Vec<String>,
    /// State of its node now.
    now: String,
    /// True if its node is down, or cordoned by zedkube.
    in_use: bool,
}

/// One entry that cannot be read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Damaged {
    node: String,
    why: String,
    now: String,
    in_use: bool,
}

/// One node without an entry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Bare {
    node: String,
    #[serde(rename = "NodeUID")]
    node_uid: String,
    now: String,
}

/// Prints the holders of slots.
pub(super) async fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let device = common.device()?;
    let map = zedkube::slot_map(&device.settings);
    let cluster = device.reach("slots").await?;
    let slots = read_slots(&cluster, &map).await?;
    // List the nodes after the slots: otherwise a node that joined and took a slot in between would seem to be gone.
    let nodes: Vec<NodeView> = list_nodes(&cluster).await?.into_iter().map(|facts| facts.view).collect();
    let limits = &device.settings.policy;
    let document = document(&map, &slots, &nodes, limits);
    if common.json {
        screen::json(&document)?;
    } else {
        screen::lines(render(&document));
    }
    Ok(ExitCode::SUCCESS)
}

fn document(map: &SlotMap, slots: &Slots, nodes: &[NodeView], limits: &Policy) -> Document {
    let table = zedkube::slot_table(slots.clone());
    let survey = survey(&table, nodes, limits.slots_group.as_deref(), limits.down_max);
    let seen = |name: &str| {
        let node = node_of(name, nodes);
        let now = node.map_or_else(|| "gone: not counted".to_owned(), node_state);
        (now, node.is_some_and(is_in_use))
    };
    let entry = |(holder, judged): (&Holder, &session::slots::Holder)| {
        let (now, in_use) = seen(&holder.node);
        let is_passed_over = table.is_passed_over(judged);
        let slot = if is_passed_over { "passed over" } else { "held" };
        let passed_over_by = if is_passed_over { table.passed_over_by(judged) } else { vec![] };
        Entry { holder: holder.clone(), slot, passed_over_by, now, in_use }
    };
    let damaged = |Unreadable { node, why }: &Unreadable| {
        let (now, in_use) = seen(node);
        Damaged { node: node.clone(), why: why.clone(), now, in_use }
    };
    // A node whose entry was passed over has a line already, also if it is down or cordoned.
    let has_no_entry = |node: &&&NodeView| table.of(&node.name).is_none();
    let bare = |node: &&NodeView| Bare {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        now: node_state(node),
    };
    Document {
        group: map.group.clone(),
        config_map: format!("{}/{}", map.namespace, map.name()),
        limit: limits.slots_limit,
        taken: survey.taken,
        holders: slots.holders.iter().zip(&table.holders).map(entry).collect(),
        unreadable: slots.unreadable.iter().map(damaged).collect(),
        down: survey.down.iter().filter(has_no_entry).map(bare).collect(),
        cordoned: survey.cordoned.iter().filter(has_no_entry).map(bare).collect(),
    }
}

fn render(document: &Document) -> Vec<String> {
    let Document { group, config_map, limit, taken, holders, unreadable, down, cordoned } = document;
    let of = if *limit == 0 { "no limit (slots.limit = 0)".to_owned() } else { format!("limit {limit}") };
    let is_free = holders.is_empty() && unreadable.is_empty() && cordoned.is_empty();
    let who = if is_free { "no node has a slot; " } else { "" };
    let head = format!("{who}group {group}: {taken} taken, {of} (ConfigMap {config_map})");
    let of_holder = |entry: &Entry| {
        let Holder { node, boot_id, renewal, .. } = &entry.holder;
        let by = entry.passed_over_by.join(", ");
        let slot = if by.is_empty() { entry.slot.to_owned() } else { format!("{} by {by}", entry.slot) };
        [node.clone(), slot, short(boot_id), renewal.to_string(), entry.now.clone()]
    };
    let bare = |node: &str, slot: &str, now: &str| {
        [node.to_owned(), slot.to_owned(), "-".to_owned(), "-".to_owned(), now.to_owned()]
    };
    let of_damaged =
        |damaged: &Damaged| bare(&one_line(&damaged.node, MOST_BYTES), "unreadable", &damaged.now);
    let rows = holders.iter().map(of_holder).chain(unreadable.iter().map(of_damaged));
    let rows = rows.chain(down.iter().map(|node| bare(&node.node, "down", &node.now)));
    let rows: Vec<_> =
        rows.chain(cordoned.iter().map(|node| bare(&node.node, "cordoned", &node.now))).collect();
    let table = if rows.is_empty() { Vec::new() } else { table(&HEAD, &rows) };
    std::iter::once(head).chain(table).collect()
}

/// The beginning of a boot id without special characters: other writers of the ConfigMap may have written any text.
fn short(boot_id: &str) -> String {
    let plain = boot_id.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-');
    let short: String = plain.take(SHORT_BOOT).collect();
    if short.is_empty() { "-".to_owned() } else { short }
}

#[cfg(test)]
mod tests;
