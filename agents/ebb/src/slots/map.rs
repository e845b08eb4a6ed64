//! How entries are taken out of the slots.

use anyhow::bail;
use cluster::{Cluster, SlotFailure, SlotMap, Slots, read_slots, release_slots};

/// So often a change is tried when others change the ConfigMap too.
const TRIES: usize = 10;

/// The nodes that have an entry: one that can be read, one that cannot, or one in the Lease of before. Sorted, each once.
pub(super) fn names(slots: &Slots) -> Vec<String> {
    let old = slots.old.iter().flat_map(|old| &old.holders);
    let readable = slots.holders.iter().chain(old).map(|holder| &holder.node);
    let all = readable.chain(slots.unreadable.iter().map(|unreadable| &unreadable.node));
    let mut names: Vec<String> = all.cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// Takes out the entry of this device's own node. Whether there was one. What it has in the Lease of before stays: a node
/// may not write there, and in service it counts for five minutes at most.
///
/// # Errors
/// The ConfigMap cannot be read or changed.
pub(crate) async fn give_back(cluster: &Cluster, map: &SlotMap, node: &str) -> anyhow::Result<bool> {
    let read = async || read_slots(cluster, map).await.map(|slots| Slots { old: None, ..slots });
    let removed = change(cluster, map, read, |name| name == node, async |_| Ok(())).await?;
    Ok(!removed.is_empty())
}

/// Takes out the entries of the nodes that are meant, after they were judged; gives their names. Every try reads and
/// judges anew, so that only what was judged is taken out.
///
/// # Errors
/// The judgement; the slots cannot be read, or were changed by others each time.
pub(super) async fn remove(
    cluster: &Cluster,
    map: &SlotMap,
    is_meant: impl Fn(&str) -> bool,
    judge: impl AsyncFn(&[String]) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<String>> {
    change(cluster, map, async || read_slots(cluster, map).await, is_meant, judge).await
}

async fn change(
    cluster: &Cluster,
    map: &SlotMap,
    read: impl AsyncFn() -> Result<Slots, SlotFailure>,
    is_meant: impl Fn(&str) -> bool,
    judge: impl AsyncFn(&[String]) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<String>> {
    for _ in 0..TRIES {
        let slots = read().await?;
        let mut meant = names(&slots);
        meant.retain(|name| is_meant(name));
        if meant.is_empty() {
            return Ok(meant);
        }
        judge(&meant).await?;
        match release_slots(cluster, map, &slots, &meant).await {
            Ok(()) => return Ok(meant),
            Err(SlotFailure::Conflict) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    bail!(
        "cannot free slots: others changed configmap {}/{} each of {TRIES} times; try again",
        map.namespace,
        map.name()
    )
}
