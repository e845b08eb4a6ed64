//! Entries taken out of the slots for a person, or by a node for itself, while others change them too.

use super::{SlotFailure, SlotMap, Slots, read_slots, release_slots};
use crate::failure::ApiFailure;
use crate::wire::Cluster;

/// So often a change is tried when others change the ConfigMap too.
const TRIES: usize = 10;

impl Slots {
    /// The nodes that have an entry: one that can be read, one that cannot, or one in the Lease of before. Sorted, each
    /// once.
    fn names(&self) -> Vec<String> {
        let old = self.old.iter().flat_map(|old| &old.holders);
        let readable = self.holders.iter().chain(old).map(|holder| &holder.node);
        let all = readable.chain(self.unreadable.iter().map(|unreadable| &unreadable.node));
        let mut names: Vec<String> = all.cloned().collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Takes out the entry of this device's own node. Whether there was one. What it has in the Lease of before stays: a node
/// may not write there, and in service it counts for five minutes at most.
///
/// # Errors
/// The ConfigMap cannot be read or changed.
pub async fn give_back_slot(cluster: &Cluster, map: &SlotMap, node: &str) -> Result<bool, SlotFailure> {
    let read = async || read_slots(cluster, map).await.map(|slots| Slots { old: None, ..slots });
    let removed = change::<SlotFailure>(cluster, map, read, |name| name == node, async |_| Ok(())).await?;
    Ok(!removed.is_empty())
}

/// Takes out the entries of the nodes that are meant, after they were judged; gives their names. Every try reads and
/// judges anew, so that only what was judged is taken out.
///
/// # Errors
/// The judgement; the slots cannot be read, or were changed by others each time.
pub async fn take_slots_away<E: From<SlotFailure>>(
    cluster: &Cluster,
    map: &SlotMap,
    is_meant: impl Fn(&str) -> bool,
    judge: impl AsyncFn(&[String]) -> Result<(), E>,
) -> Result<Vec<String>, E> {
    change(cluster, map, async || read_slots(cluster, map).await, is_meant, judge).await
}

async fn change<E: From<SlotFailure>>(
    cluster: &Cluster,
    map: &SlotMap,
    read: impl AsyncFn() -> Result<Slots, SlotFailure>,
    is_meant: impl Fn(&str) -> bool,
    judge: impl AsyncFn(&[String]) -> Result<(), E>,
) -> Result<Vec<String>, E> {
    for _ in 0..TRIES {
        let slots = read().await?;
        let mut meant = slots.names();
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
    let text = format!(
        "cannot free slots: others changed configmap {}/{} each of {TRIES} times; try again",
        map.namespace,
        map.name()
    );
    Err(SlotFailure::Api(ApiFailure::other(text)).into())
}
