//! Who may be down for a drain: the holders of slots, in one Lease that all nodes share.
//!
//! Lease `ebb-slots-<group>` says in its annotation `ebb.dev/holders` who has a slot. It is changed only as a change of
//! the version that was read, so of two who want the last slot one gets it (`agents.md` 2, "Slots"). Nothing is decided
//! here: who is let in, who has to wait and whose slot is freed, `session` says.
//!
//! It needs the rights to `get`, `create`, `patch`, `list` and `watch` Leases in the namespace. All but `create` can be
//! confined to the one Lease by `resourceNames`.

mod holders;
mod watching;

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::json;

use crate::failure::ApiFailure;
use crate::objects::{resource, version};
use crate::operation::{Operation, TRIES, is_name};
use crate::views::annotation;
use crate::wire::Cluster;

pub use holders::{LONGEST, MOST};
pub use watching::SlotWatch;

/// Annotation of the Lease that says who has a slot: a JSON list of [`Holder`]s.
pub const HOLDERS: &str = "ebb.dev/holders";

/// Which Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotLease {
    /// Its namespace, setting `slots.namespace`.
    pub namespace: String,
    /// Which nodes share it, setting `slots.group`.
    pub group: String,
}

/// Who has a slot.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, Deserialize)]
pub struct Holder {
    /// The name of its Node.
    #[serde(rename = "Node")]
    pub node: String,
    /// The UID of its Node; never empty.
    #[serde(rename = "NodeUID")]
    pub node_uid: String,
    /// The boot in which it wrote this, `/proc/sys/kernel/random/boot_id`.
    #[serde(rename = "BootID")]
    pub boot_id: String,
    /// Counted up by the holder while a request stands: a sign of life without a clock.
    #[serde(rename = "Renewal")]
    pub renewal: u64,
}

/// What the Lease says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Slots {
    /// Its `resourceVersion`; `None`: there is no Lease yet.
    pub version: Option<String>,
    /// In the order of the annotation, also a node that is in it twice.
    pub holders: Vec<Holder>,
}

/// Why the slots could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotFailure {
    /// The Lease is not of the version that the change was based on, or not there any more: read again.
    #[error("cannot change the holders of slots: somebody else changed the Lease in between")]
    Conflict,
    /// The annotation is not what we write. Nobody may guess who has a slot.
    #[error("{text}")]
    Unreadable {
        /// Which Lease and annotation, what is wrong with it, and what to do.
        text: String,
    },
    /// A call failed.
    #[error(transparent)]
    Api(#[from] ApiFailure),
}

impl SlotLease {
    /// The Lease's name, `ebb-slots-<group>`.
    pub fn name(&self) -> String {
        format!("ebb-slots-{}", self.group)
    }

    fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }
}

/// Who has a slot, consistent from the server: one call. No Lease, or one without the annotation, has no holders.
///
/// Fields of a holder that we do not know are ignored, and lost with the next write.
pub async fn read_slots(cluster: &Cluster, lease: &SlotLease) -> Result<Slots, SlotFailure> {
    let name = lease.name();
    match get(cluster, lease, &name).await {
        Ok(found) => slots_of("get", lease, &name, &found),
        Err(ApiFailure::NotFound { .. }) => Ok(Slots::default()),
        Err(failure) => Err(failure.into()),
    }
}

/// Replaces the holders of the version in `based_on`; creates the Lease when that is `None`. One call, which gives what
/// stands now, with its new version. The rest of the Lease stays as it is.
///
/// # Errors
/// [`SlotFailure::Conflict`] when the Lease is not of that version, is gone, or, with `None`, is there already. What
/// [`read_slots`] would not read again is not sent.
pub async fn write_slots(
    cluster: &Cluster,
    lease: &SlotLease,
    based_on: Option<&str>,
    holders: &[Holder],
) -> Result<Slots, SlotFailure> {
    let written = write(cluster, lease, based_on, holders, false).await?;
    slots_of(verb_of(based_on), lease, &lease.name(), &written)
}

/// Tries whether the slots could be read and written: what stands now is written again with `dryRun=All`. Two calls, and
/// nothing is changed.
pub(crate) async fn try_slots(cluster: &Cluster, lease: &SlotLease) -> Result<(), SlotFailure> {
    let slots = read_slots(cluster, lease).await?;
    write(cluster, lease, slots.version.as_deref(), &slots.holders, true).await.map(drop)
}

async fn write(
    cluster: &Cluster,
    lease: &SlotLease,
    based_on: Option<&str>,
    holders: &[Holder],
    dry_run: bool,
) -> Result<Lease, SlotFailure> {
    let name = lease.name();
    let verb = verb_of(based_on);
    let text = holders::write(holders)
        .map_err(|why| ApiFailure::other(format!("cannot {}: {why}", operation(verb, lease, &name))))?;
    let written = match based_on {
        Some(version) => replace(cluster, lease, &name, version, &text, dry_run).await,
        None => create(cluster, lease, &name, &text, dry_run).await,
    };
    match written {
        Ok(written) => Ok(written),
        Err(ApiFailure::Conflict { .. }) => Err(SlotFailure::Conflict),
        Err(ApiFailure::NotFound { .. }) if based_on.is_some() => Err(SlotFailure::Conflict),
        Err(failure) => Err(failure.into()),
    }
}

/// Without a Lease it is created.
const fn verb_of(based_on: Option<&str>) -> &'static str {
    if based_on.is_some() { "patch" } else { "create" }
}

/// For a person: frees all slots, whatever the annotation holds, also what does not parse. Two calls, or one if there is
/// no Lease. A conflict reads again at once.
pub async fn clear_slots(cluster: &Cluster, lease: &SlotLease) -> Result<(), SlotFailure> {
    let name = lease.name();
    for _ in 0..TRIES {
        let found = match get(cluster, lease, &name).await {
            Ok(found) => found,
            Err(ApiFailure::NotFound { .. }) => return Ok(()),
            Err(failure) => return Err(failure.into()),
        };
        let version = version(&operation("patch", lease, &name), &found.metadata)?;
        match replace(cluster, lease, &name, version, "[]", false).await {
            Ok(_) | Err(ApiFailure::NotFound { .. }) => return Ok(()),
            Err(ApiFailure::Conflict { .. }) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Err(SlotFailure::Conflict)
}

/// The needed part of a Lease.
#[derive(Clone, Debug, Default, Deserialize)]
struct Lease {
    #[serde(default)]
    metadata: ObjectMeta,
}

resource!(Lease, NamespaceResourceScope, "Lease", "coordination.k8s.io", "v1", "leases");

fn operation<'a>(verb: &'static str, lease: &'a SlotLease, name: &'a str) -> Operation<'a> {
    Operation { verb, resource: "leases", namespace: &lease.namespace, name }
}

/// Refuses names that no Lease can have, before they become a part of a URL.
fn check_names(operation: &Operation<'_>) -> Result<(), ApiFailure> {
    if is_name(operation.namespace) && is_name(operation.name) {
        return Ok(());
    }
    Err(ApiFailure::other(format!("cannot {operation}: no Lease can have this name")))
}

async fn get(cluster: &Cluster, lease: &SlotLease, name: &str) -> Result<Lease, ApiFailure> {
    let operation = operation("get", lease, name);
    check_names(&operation)?;
    cluster.fetch(&operation, Request::new(lease.path()).get(name, &GetParams::default())).await
}

async fn create(
    cluster: &Cluster,
    lease: &SlotLease,
    name: &str,
    text: &str,
    dry_run: bool,
) -> Result<Lease, ApiFailure> {
    let operation = operation("create", lease, name);
    check_names(&operation)?;
    let body = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": lease.namespace, "annotations": {HOLDERS: text}},
        "spec": {},
    });
    let body = body.to_string().into_bytes();
    let params = PostParams { dry_run, ..PostParams::default() };
    cluster.fetch(&operation, Request::new(lease.path()).create(&params, body)).await
}

async fn replace(
    cluster: &Cluster,
    lease: &SlotLease,
    name: &str,
    version: &str,
    text: &str,
    dry_run: bool,
) -> Result<Lease, ApiFailure> {
    let operation = operation("patch", lease, name);
    check_names(&operation)?;
    let body = json!({"metadata": {"resourceVersion": version, "annotations": {HOLDERS: text}}});
    let params = PatchParams { dry_run, ..PatchParams::default() };
    cluster.fetch(&operation, Request::new(lease.path()).patch(name, &params, &Patch::Merge(body))).await
}

fn slots_of(verb: &'static str, lease: &SlotLease, name: &str, found: &Lease) -> Result<Slots, SlotFailure> {
    let version = version(&operation(verb, lease, name), &found.metadata)?.to_owned();
    let holders = annotation(&found.metadata, HOLDERS).map_or(Ok(Vec::new()), |text| holders::read(text));
    match holders {
        Ok(holders) => Ok(Slots { version: Some(version), holders }),
        Err(why) => Err(SlotFailure::Unreadable { text: unreadable(lease, name, &why) }),
    }
}

fn unreadable(lease: &SlotLease, name: &str, why: &str) -> String {
    format!(
        "cannot tell who has a slot: annotation `{HOLDERS}` of lease {}/{name} {why}; make sure that no node is down, \
         then free all slots with `ebb slots release --all`",
        lease.namespace
    )
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
