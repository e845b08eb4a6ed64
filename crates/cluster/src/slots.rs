//! The slot table: the nodes that may be down for a drain. It has one entry per node, in one ConfigMap that all nodes
//! share.
//!
//! ConfigMap `ebb-slots-<group>` has a key for each node that has a slot; the value is its entry ([`Holder`]). A node
//! writes its own key only, always as a change of the version of the whole object that was read; so if two nodes want
//! the last slot, one gets it (`docs/operations/slots.md`). An admission policy can confine a node to its key
//! (`packaging/kubernetes`). This module makes no decision: `session` decides which node gets a slot, which has to
//! wait, and which entry is abandoned.
//!
//! zedkube needs the rights to `get`, `patch`, `list` and `watch` the ConfigMap, which can be confined to it by
//! `resourceNames`; and `create`, which cannot, only if the ConfigMap does not exist.

mod entries;
mod release;
mod watching;

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::failure::ApiFailure;
use crate::objects::{resource, version};
use crate::operation::{Operation, is_name};
use crate::wire::Cluster;

pub use entries::{LONGEST, MOST};
pub use release::{give_back_slot, take_slots_away};
pub use watching::SlotWatch;

/// The ConfigMap of a group.
#[derive(Clone, Debug)]
pub struct SlotMap {
    /// Namespace of the ConfigMap, setting `slots.namespace`.
    pub namespace: String,
    /// The group of nodes that share it, setting `slots.group`.
    pub group: String,
}

/// The entry of a node that has a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
pub struct Holder {
    /// Name of the Node, which is the key of the entry.
    #[serde(rename = "Node")]
    pub node: String,
    /// UID of the Node; never empty.
    #[serde(rename = "NodeUID")]
    pub node_uid: String,
    /// The boot in which the node wrote this, `/proc/sys/kernel/random/boot_id`.
    #[serde(rename = "BootID")]
    pub boot_id: String,
    /// A number that the holder increases while a request exists: a sign of life without a clock.
    #[serde(rename = "Renewal")]
    pub renewal: u64,
    /// The entries of other nodes that were judged abandoned when this slot was taken.
    #[serde(rename = "PassedOver", default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOver>,
}

/// An entry as it was when another node judged it abandoned. An entry with a greater Renewal was written later and is
/// not passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
pub struct PassedOver {
    /// Name of its Node.
    #[serde(rename = "Node")]
    pub node: String,
    /// UID of its Node.
    #[serde(rename = "NodeUID")]
    pub node_uid: String,
    /// The entry's Renewal at that time.
    #[serde(rename = "Renewal")]
    pub renewal: u64,
}

/// The content of the slot table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Slots {
    /// `resourceVersion` of the ConfigMap; `None` if there is no ConfigMap yet.
    pub version: Option<String>,
    /// UID of the ConfigMap; empty if there is none.
    pub uid: String,
    /// The entries that could be read, in the order of their keys.
    pub holders: Vec<Holder>,
    /// The keys whose values could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// A key whose value is not an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The key: the name of a Node.
    pub node: String,
    /// Error in its value, as the end of a sentence about it. It quotes no part of the value.
    pub why: String,
}

/// Reason for which the slot table could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotFailure {
    /// The ConfigMap does not have the version that the change was based on, or does not exist any more: read it again.
    #[error("cannot change the slots: another client changed the ConfigMap in between")]
    Conflict,
    /// There is no ConfigMap, and our credentials may not create it.
    #[error("{text}")]
    Missing {
        /// The ConfigMap, and what to do.
        text: String,
    },
    /// A call failed.
    #[error(transparent)]
    Api(#[from] ApiFailure),
}

impl SlotMap {
    /// The ConfigMap of a group in a namespace.
    pub fn new(namespace: impl Into<String>, group: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), group: group.into() }
    }

    /// Name of the ConfigMap, `ebb-slots-<group>`.
    pub fn name(&self) -> String {
        format!("ebb-slots-{}", self.group)
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    fn operation<'a>(&'a self, verb: &'static str, resource: &'static str, name: &'a str) -> Operation<'a> {
        Operation { verb, resource, namespace: &self.namespace, name }
    }
}

/// Reads the slot table consistently: one call. Without a ConfigMap there are no holders.
///
/// Unknown fields of an entry are ignored.
pub async fn read_slots(cluster: &Cluster, map: &SlotMap) -> Result<Slots, SlotFailure> {
    let name = map.name();
    let operation = map.operation("get", CONFIGMAPS, &name);
    match get::<ConfigMap>(cluster, &operation, &map.path()).await {
        Ok(found) => Ok(slots_of(&operation, found)?),
        Err(ApiFailure::NotFound { .. }) => Ok(Slots::default()),
        Err(failure) => Err(failure.into()),
    }
}

/// Writes or removes the key of one node, as a change of version `based_on`; creates the ConfigMap if `based_on` is
/// `None`. One call, which gives the new content with its new version. All other keys of the ConfigMap stay as they are.
///
/// # Errors
/// [`SlotFailure::Conflict`] if the ConfigMap does not have that version, is gone, or, with `None`, exists already. An
/// entry that [`read_slots`] could not read again is not sent.
pub async fn write_slots(
    cluster: &Cluster,
    map: &SlotMap,
    based_on: Option<&str>,
    node: &str,
    entry: Option<&Holder>,
) -> Result<Slots, SlotFailure> {
    let written = write(cluster, map, based_on, node, entry, false).await?;
    let name = map.name();
    Ok(slots_of(&map.operation(verb_of(based_on), CONFIGMAPS, &name), written)?)
}

/// If the ConfigMap is so long that this may be why it cannot be changed: whose entry is the longest, as the end of a
/// sentence. An API server takes 1 MiB.
async fn largest_entry(cluster: &Cluster, map: &SlotMap) -> Option<String> {
    const LONG: usize = 1024 * 1024 - LONGEST;
    let name = map.name();
    let operation = map.operation("get", CONFIGMAPS, &name);
    let data = get::<ConfigMap>(cluster, &operation, &map.path()).await.ok()?.data?;
    let all: usize = data.iter().map(|(node, text)| node.len() + text.len()).sum();
    let (node, text) = data.iter().max_by_key(|(_, text)| text.len()).filter(|_| all >= LONG)?;
    let long = text.len();
    Some(format!(
        "; the longest entry is that of {node}, {long} of {all} bytes: `ebb slots release {node} --force` removes it"
    ))
}

/// Tries with `dryRun=All` whether our key could be written, and, if another node is given, whether its key could. True
/// if the other key could be written. Up to four calls; nothing is changed.
pub(crate) async fn try_slots(
    cluster: &Cluster,
    map: &SlotMap,
    own: &str,
    other: Option<&str>,
) -> Result<bool, SlotFailure> {
    let slots = read_slots(cluster, map).await?;
    let based_on = slots.version.as_deref();
    let entry =
        |node: &str| Holder { node: node.to_owned(), node_uid: "preflight".to_owned(), ..Holder::default() };
    write(cluster, map, based_on, own, Some(&entry(own)), true).await?;
    let Some(other) = other else { return Ok(false) };
    Ok(write(cluster, map, based_on, other, Some(&entry(other)), true).await.is_ok())
}

async fn write(
    cluster: &Cluster,
    map: &SlotMap,
    based_on: Option<&str>,
    node: &str,
    entry: Option<&Holder>,
    dry_run: bool,
) -> Result<ConfigMap, SlotFailure> {
    let name = map.name();
    let operation = map.operation(verb_of(based_on), CONFIGMAPS, &name);
    let text = entry.map(|entry| entries::write(node, entry)).transpose();
    let text = text.map_err(|why| ApiFailure::other(format!("cannot {operation}: key `{node}` {why}")))?;
    if matches!(based_on, Some("" | "0")) {
        // The API server would take these for any version.
        return Err(ApiFailure::other(format!("cannot {operation}: it is not based on a version")).into());
    }
    let data = Map::from_iter([(node.to_owned(), json!(text))]);
    if let Some(version) = based_on {
        let body = json!({"metadata": {"resourceVersion": version}, "data": data});
        return match patch(cluster, &operation, &map.path(), body, dry_run).await {
            Err(ApiFailure::Other { text }) => {
                let why = largest_entry(cluster, map).await.unwrap_or_default();
                Err(ApiFailure::Other { text: format!("{text}{why}") }.into())
            }
            written => written.map_err(conflict),
        };
    }
    match create(cluster, map, &operation, data, dry_run).await {
        Ok(written) => Ok(written),
        Err(ApiFailure::Conflict { .. }) => Err(SlotFailure::Conflict),
        Err(ApiFailure::Denied { .. }) => Err(missing(map)),
        Err(failure) => Err(failure.into()),
    }
}

/// The verb for a write: without a ConfigMap it is created.
const fn verb_of(based_on: Option<&str>) -> &'static str {
    if based_on.is_some() { "patch" } else { "create" }
}

fn missing(map: &SlotMap) -> SlotFailure {
    let text = format!(
        "there is no configmap {}/{}, in which nodes say who has a slot, and our credentials may not make it: an \
         administrator makes it with `kubectl apply -f` of a manifest from /usr/share/ebb/kubernetes, or with `kubectl -n {} \
         create configmap {}`",
        map.namespace,
        map.name(),
        map.namespace,
        map.name()
    );
    SlotFailure::Missing { text }
}

/// For an order of a person: removes the entries of these nodes that are in `slots`. One call, and none if there are
/// no such entries.
///
/// # Errors
/// [`SlotFailure::Conflict`] if the ConfigMap was changed since it was read.
pub async fn release_slots(
    cluster: &Cluster,
    map: &SlotMap,
    slots: &Slots,
    nodes: &[String],
) -> Result<(), SlotFailure> {
    let name = map.name();
    let readable = slots.holders.iter().map(|holder| &holder.node);
    let keys = readable.chain(slots.unreadable.iter().map(|unreadable| &unreadable.node));
    let data: Map<String, Value> =
        keys.filter(|node| nodes.contains(node)).map(|node| (node.clone(), Value::Null)).collect();
    if let Some(version) = slots.version.as_ref().filter(|_| !data.is_empty()) {
        let body = json!({"metadata": {"resourceVersion": version}, "data": data});
        let operation = map.operation("patch", CONFIGMAPS, &name);
        patch::<ConfigMap>(cluster, &operation, &map.path(), body, false).await.map_err(conflict)?;
    }
    Ok(())
}

fn conflict(failure: ApiFailure) -> SlotFailure {
    match failure {
        ApiFailure::Conflict { .. } | ApiFailure::NotFound { .. } => SlotFailure::Conflict,
        failure @ (ApiFailure::Unreachable { .. }
        | ApiFailure::Denied { .. }
        | ApiFailure::Busy { .. }
        | ApiFailure::Other { .. }) => failure.into(),
    }
}

const CONFIGMAPS: &str = "configmaps";

/// The fields of a ConfigMap that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
struct ConfigMap {
    #[serde(default)]
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, String>>,
}

resource!(ConfigMap, NamespaceResourceScope, "ConfigMap", "", "v1", "configmaps");

/// Refuses names that no object can have, before they become part of a URL.
fn check_names(operation: &Operation<'_>) -> Result<(), ApiFailure> {
    if is_name(operation.namespace) && is_name(operation.name) {
        return Ok(());
    }
    Err(ApiFailure::other(format!("cannot {operation}: no such object can have this name")))
}

async fn get<T: DeserializeOwned>(
    cluster: &Cluster,
    operation: &Operation<'_>,
    path: &str,
) -> Result<T, ApiFailure> {
    check_names(operation)?;
    cluster.fetch(operation, Request::new(path).get(operation.name, &GetParams::default())).await
}

async fn patch<T: DeserializeOwned>(
    cluster: &Cluster,
    operation: &Operation<'_>,
    path: &str,
    body: Value,
    dry_run: bool,
) -> Result<T, ApiFailure> {
    check_names(operation)?;
    let params = PatchParams { dry_run, ..PatchParams::default() };
    cluster.fetch(operation, Request::new(path).patch(operation.name, &params, &Patch::Merge(body))).await
}

async fn create(
    cluster: &Cluster,
    map: &SlotMap,
    operation: &Operation<'_>,
    mut data: Map<String, Value>,
    dry_run: bool,
) -> Result<ConfigMap, ApiFailure> {
    check_names(operation)?;
    data.retain(|_, text| !text.is_null());
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": operation.name, "namespace": map.namespace},
        "data": data,
    });
    let params = PostParams { dry_run, ..PostParams::default() };
    let body = body.to_string().into_bytes();
    cluster.fetch(operation, Request::new(map.path()).create(&params, body)).await
}

fn slots_of(operation: &Operation<'_>, found: ConfigMap) -> Result<Slots, ApiFailure> {
    let mut slots =
        Slots { version: Some(version(operation, &found.metadata)?.to_owned()), ..Slots::default() };
    slots.uid = found.metadata.uid.unwrap_or_default();
    for (node, text) in found.data.unwrap_or_default() {
        match entries::read(&node, &text) {
            Ok(holder) => slots.holders.push(holder),
            Err(why) => slots.unreadable.push(Unreadable { node, why }),
        }
    }
    Ok(slots)
}

#[cfg(test)]
mod tests;
