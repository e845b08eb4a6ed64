//! Removes entries from the slot table, for a person or for a node itself, while other clients change the table too.

use super::{SlotFailure, SlotMap, Slots, read_slots, release_slots};
use crate::failure::ApiFailure;
use crate::wire::Cluster;

/// Number of tries of a change, if other clients change the ConfigMap too.
const TRIES: usize = 10;

impl Slots {
    /// Names of the nodes with an entry, readable or not. Sorted.
    fn names(&self) -> Vec<String> {
        let readable = self.holders.iter().map(|holder| &holder.node);
        let all = readable.chain(self.unreadable.iter().map(|unreadable| &unreadable.node));
        let mut names: Vec<String> = all.cloned().collect();
        names.sort();
        names
    }
}

/// Removes the entry of this device's own node; true if there was one.
///
/// # Errors
/// The ConfigMap cannot be read or changed.
pub async fn give_back_slot(cluster: &Cluster, map: &SlotMap, node: &str) -> Result<bool, SlotFailure> {
    let removed: Result<_, SlotFailure> =
        take_slots_away(cluster, map, |name| name == node, async |_| Ok(())).await;
    Ok(!removed?.is_empty())
}

/// Removes the entries of the nodes that `is_meant` selects, after `judge` has allowed it; returns their names. Every
/// try reads and judges again, so that only entries are removed that were judged.
///
/// # Errors
/// The error of `judge`; or the slots cannot be read, or were changed by other clients in every try.
pub async fn take_slots_away<E: From<SlotFailure>>(
    cluster: &Cluster,
    map: &SlotMap,
    is_meant: impl Fn(&str) -> bool,
    judge: impl AsyncFn(&[String]) -> Result<(), E>,
) -> Result<Vec<String>, E> {
    for _ in 0..TRIES {
        let slots = read_slots(cluster, map).await?;
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
