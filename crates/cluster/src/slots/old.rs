//! The Lease of the same name, in which older versions kept the slots. It is read until it is gone, and written only by
//! a person's order.

use std::sync::atomic::Ordering;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::json;

use super::{Holder, SlotFailure, SlotMap, conflict, entries, get, patch};
use crate::failure::ApiFailure;
use crate::objects::version;
use crate::views::annotation;
use crate::wire::Cluster;

/// Annotation of the Lease: a JSON list of [`Holder`]s.
pub const OLD_HOLDERS: &str = "ebb.dev/holders";

const LEASES: &str = "leases";

/// The content of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSlots {
    /// `resourceVersion` of the Lease.
    pub version: String,
    /// The entries.
    pub holders: Vec<Holder>,
}

/// The needed part of a Lease.
#[derive(Clone, Debug, Default, Deserialize)]
struct Lease {
    #[serde(default)]
    metadata: ObjectMeta,
}

fn path(map: &SlotMap) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", map.namespace)
}

/// Reads the Lease. If it does not exist it is not asked for again, because no version creates one any more.
async fn find(cluster: &Cluster, map: &SlotMap) -> Result<Option<Lease>, ApiFailure> {
    if map.has_no_lease.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let name = map.name();
    match get(cluster, &map.operation("get", LEASES, &name), &path(map)).await {
        Ok(found) => Ok(Some(found)),
        Err(ApiFailure::NotFound { .. }) => {
            map.has_no_lease.store(true, Ordering::Relaxed);
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

fn version_of(map: &SlotMap, found: &Lease) -> Result<String, ApiFailure> {
    version(&map.operation("get", LEASES, &map.name()), &found.metadata).map(str::to_owned)
}

pub(super) async fn read(cluster: &Cluster, map: &SlotMap) -> Result<Option<OldSlots>, SlotFailure> {
    let Some(found) = find(cluster, map).await? else { return Ok(None) };
    let holders = annotation(&found.metadata, OLD_HOLDERS);
    match holders.map_or(Ok(Vec::new()), |text| entries::read_old(text)) {
        Ok(holders) => Ok(Some(OldSlots { version: version_of(map, &found)?, holders })),
        Err(why) => Err(SlotFailure::Unreadable { text: unreadable(map, &why) }),
    }
}

/// Removes all entries, also those that cannot be read.
pub(super) async fn clear(cluster: &Cluster, map: &SlotMap) -> Result<(), SlotFailure> {
    match find(cluster, map).await? {
        Some(found) if annotation(&found.metadata, OLD_HOLDERS).is_some() => {
            replace(cluster, map, &version_of(map, &found)?, &[]).await
        }
        Some(_) | None => Ok(()),
    }
}

pub(super) async fn replace(
    cluster: &Cluster,
    map: &SlotMap,
    version: &str,
    holders: &[Holder],
) -> Result<(), SlotFailure> {
    let name = map.name();
    let operation = map.operation("patch", LEASES, &name);
    let text = serde_json::to_string(holders).map_err(|_| {
        ApiFailure::other(format!("cannot {operation}: its holders cannot be written as JSON"))
    })?;
    let body = json!({"metadata": {"resourceVersion": version, "annotations": {OLD_HOLDERS: text}}});
    patch::<Lease>(cluster, &operation, &path(map), body, false).await.map(drop).map_err(conflict)
}

fn unreadable(map: &SlotMap, why: &str) -> String {
    format!(
        "cannot tell who has a slot: annotation `{OLD_HOLDERS}` of lease {}/{}, where versions before kept the slots, \
         {why}; make sure that no node is down, then free all slots with `ebb slots release --all`",
        map.namespace,
        map.name()
    )
}
