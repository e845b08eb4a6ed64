//! The Lease, and how entries are taken out of it.

use anyhow::bail;
use cluster::{Cluster, Holder, SlotFailure, SlotLease, read_slots, write_slots};

use crate::device::Device;

/// So often a change is tried when others change the Lease too.
const TRIES: usize = 10;

/// The Lease of the device's group.
pub(crate) fn lease_of(device: &Device) -> SlotLease {
    let slots = &device.settings.slots;
    SlotLease { namespace: slots.namespace.as_str().to_owned(), group: slots.group.as_str().to_owned() }
}

/// Takes out the entry of the node with this UID. Whether there was one.
///
/// # Errors
/// The Lease cannot be read or changed.
pub(crate) async fn give_back(cluster: &Cluster, lease: &SlotLease, node_uid: &str) -> anyhow::Result<bool> {
    let removed = remove(cluster, lease, |holder| holder.node_uid == node_uid, async |_| Ok(())).await?;
    Ok(!removed.is_empty())
}

/// Takes out the entries that are meant, after they were judged; gives those that it took out. Every try reads and
/// judges anew, so that only what was judged is taken out.
///
/// # Errors
/// The judgement; the Lease cannot be read, or was changed by others each time.
pub(super) async fn remove(
    cluster: &Cluster,
    lease: &SlotLease,
    is_meant: impl Fn(&Holder) -> bool,
    judge: impl AsyncFn(&[Holder]) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Holder>> {
    for _ in 0..TRIES {
        let slots = read_slots(cluster, lease).await?;
        let (removed, kept): (Vec<Holder>, Vec<Holder>) =
            slots.holders.into_iter().partition(|holder| is_meant(holder));
        if removed.is_empty() {
            return Ok(removed);
        }
        judge(&removed).await?;
        match write_slots(cluster, lease, slots.version.as_deref(), &kept).await {
            Ok(_) => return Ok(removed),
            Err(SlotFailure::Conflict) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    bail!(
        "cannot free slots: others changed lease {}/{} each of {TRIES} times; try again",
        lease.namespace,
        lease.name()
    )
}
