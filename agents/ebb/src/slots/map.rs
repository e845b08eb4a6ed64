//! The ConfigMap of the slots, and how entries are taken out of it.

use anyhow::bail;
use cluster::{Cluster, SlotFailure, SlotMap, Slots, read_slots, release_slots, write_slots};

use crate::device::Device;

/// So often a change is tried when others change the ConfigMap too.
const TRIES: usize = 10;

/// The ConfigMap of the device's group.
pub(crate) fn map_of(device: &Device) -> SlotMap {
    let slots = &device.settings.slots;
    SlotMap::new(slots.namespace.as_str(), slots.group.as_str())
}

/// An entry, as far as it can be read.
#[derive(Debug)]
pub(super) struct Place {
    /// The name of its node.
    pub(super) node: String,
    /// The UID of its node; `None` when the entry cannot be read.
    pub(super) node_uid: Option<String>,
}

/// All entries: those that can be read, those that cannot, and those in the Lease of before.
pub(super) fn places(slots: &Slots) -> Vec<Place> {
    let readable = slots.holders.iter().chain(slots.old.iter().flatten());
    let readable = readable.map(|holder| (&holder.node, Some(holder.node_uid.clone())));
    let unreadable = slots.unreadable.iter().map(|unreadable| (&unreadable.node, None));
    readable.chain(unreadable).map(|(node, node_uid)| Place { node: node.clone(), node_uid }).collect()
}

/// Takes out the entry of this device's own node. Whether there was one. What it has in the Lease of before stays: a node
/// may not write there, and in service it counts for five minutes at most.
///
/// # Errors
/// The ConfigMap cannot be read or changed.
pub(crate) async fn give_back(cluster: &Cluster, map: &SlotMap, node: &str) -> anyhow::Result<bool> {
    for _ in 0..TRIES {
        let slots = read_slots(cluster, map).await?;
        let unreadable = slots.unreadable.iter().map(|unreadable| &unreadable.node);
        if !slots.holders.iter().map(|holder| &holder.node).chain(unreadable).any(|name| name == node) {
            return Ok(false);
        }
        match write_slots(cluster, map, slots.version.as_deref(), node, None).await {
            Ok(_) => return Ok(true),
            Err(SlotFailure::Conflict) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    others_were_faster(map)
}

/// Takes out the entries of the nodes that are meant, after they were judged; gives those that it took out. Every try
/// reads and judges anew, so that only what was judged is taken out.
///
/// # Errors
/// The judgement; the slots cannot be read, or were changed by others each time.
pub(super) async fn remove(
    cluster: &Cluster,
    map: &SlotMap,
    is_meant: impl Fn(&str) -> bool,
    judge: impl AsyncFn(&[Place]) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Place>> {
    for _ in 0..TRIES {
        let slots = read_slots(cluster, map).await?;
        let mut meant = places(&slots);
        meant.retain(|place| is_meant(&place.node));
        if meant.is_empty() {
            return Ok(meant);
        }
        judge(&meant).await?;
        let nodes: Vec<String> = meant.iter().map(|place| place.node.clone()).collect();
        match release_slots(cluster, map, &slots, &nodes).await {
            Ok(()) => return Ok(meant),
            Err(SlotFailure::Conflict) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    others_were_faster(map)
}

fn others_were_faster<T>(map: &SlotMap) -> anyhow::Result<T> {
    bail!(
        "cannot free slots: others changed configmap {}/{} each of {TRIES} times; try again",
        map.namespace,
        map.name()
    )
}
