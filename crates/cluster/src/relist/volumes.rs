//! Reads the storage objects of pods directly from the server: claims and volumes by name, attachments by a list.
//!
//! Only objects that the pods name are read, so the size of the cluster costs nothing. VolumeAttachments alone have no
//! selector by node; their list is trimmed page by page.

use std::collections::{BTreeMap, BTreeSet};

use drain::PodView;
use drain::storage::{AttachmentView, Attachments, ClaimView, Storage, VolumeView};
use futures::{StreamExt, TryStreamExt, stream};
use kube::core::Request;
use kube::core::params::GetParams;
use serde::de::DeserializeOwned;

use crate::failure::{ApiFailure, is_hidden};
use crate::list::Selection;
use crate::node_facts::takes_pods;
use crate::nodes;
use crate::objects::Node;
use crate::operation::{Operation, is_name};
use crate::storage::{
    Attachment, Claim, Driver, Volume, attachment_view, claim_view, named_claims, never_attaches, volume_view,
};
use crate::store::Key;
use crate::wire::Cluster;

/// Most objects that are read by name at a time.
const AT_A_TIME: usize = 8;

/// Lists the VolumeAttachments to this node and, to any node, of these volumes: one call for each 500 of the cluster. A
/// refusal is an answer, and so is a server without VolumeAttachments if its own list of kinds confirms it; any other
/// error is a failure.
pub(super) async fn attachments(
    cluster: &Cluster,
    node: &str,
    volumes: &BTreeSet<String>,
) -> Result<Attachments, ApiFailure> {
    let operation = Operation::on_cluster("list", "volumeattachments", "");
    let path = "/apis/storage.k8s.io/v1/volumeattachments";
    let is_wanted = |view: &AttachmentView| {
        view.node == node || view.volume.as_ref().is_some_and(|volume| volumes.contains(volume))
    };
    let trim = |attachment: &Attachment| Some(attachment_view(attachment)).filter(is_wanted);
    match cluster.list(&operation, path, &Selection::All, trim).await {
        Ok(all) => Ok(Attachments::Listed(all.into_iter().flatten().collect())),
        Err(ApiFailure::Denied { text }) => Ok(Attachments::Unreadable(text)),
        Err(ApiFailure::NotFound { text }) => {
            if cluster.is_without_attachments().await? {
                return Ok(Attachments::NotServed);
            }
            Err(ApiFailure::other(format!("{text}; but the API server does not say that it has none")))
        }
        Err(failure) => Err(failure),
    }
}

/// Reads the volumes to which the claims of these pods are bound: at most two calls for each claim that `known` does
/// not show as bound, and one for each CSI driver. Attachments are not read.
pub(crate) async fn of_pods(
    cluster: &Cluster,
    pods: &[PodView],
    known: &Storage,
) -> Result<Storage, ApiFailure> {
    let (claims, claims_unreadable) = match claims(cluster, pods, known).await {
        Ok(claims) => (claims, None),
        Err(ApiFailure::Denied { text }) => {
            tracing::warn!("{text}");
            (Vec::new(), Some(text))
        }
        Err(failure) => return Err(failure),
    };
    let bound = claims.iter().map(|claim| claim.volume.clone()).filter(|volume| !volume.is_empty());
    let volumes = volumes(cluster, bound.collect(), known).await?;
    let drivers_without_attach = drivers_without_attach(cluster, &volumes, known).await;
    let peer_takes_pods = known.peer_takes_pods;
    Ok(Storage {
        claims,
        claims_unreadable,
        volumes,
        drivers_without_attach,
        attachments: Attachments::NotAsked,
        missing_volumes: Vec::new(),
        peer_takes_pods,
    })
}

/// The PersistentVolumes of attachments to this node that do not exist, among those that are not known: one call for each.
/// Only the API server's own word counts: a kubelet's credentials hide the volumes that no pod of its node needs.
pub(super) async fn missing(cluster: &Cluster, node: &str, known: &Storage) -> Vec<String> {
    let Attachments::Listed(attachments) = &known.attachments else { return Vec::new() };
    let here = attachments.iter().filter(|attachment| attachment.node == node);
    let unknown = here
        .filter_map(|attachment| attachment.volume.as_ref())
        .filter(|name| is_name(name) && !known.volumes.iter().any(|volume| volume.name == **name));
    let names: BTreeSet<&String> = unknown.collect();
    let one = async |name: &String| {
        let operation = Operation::on_cluster("get", "persistentvolumes", name);
        let request = Request::new("/api/v1/persistentvolumes").get(name, &GetParams::default());
        match cluster.fetch::<Volume>(&operation, request).await {
            Err(failure @ ApiFailure::NotFound { .. }) if !is_hidden(failure.text()) => Some(name.clone()),
            Ok(_) | Err(_) => None,
        }
    };
    stream::iter(names).map(one).buffered(AT_A_TIME).filter_map(std::future::ready).collect().await
}

/// Reads each claim that these pods name; a claim that does not exist counts as not bound.
async fn claims(cluster: &Cluster, pods: &[PodView], known: &Storage) -> Result<Vec<ClaimView>, ApiFailure> {
    let bound = known.claims.iter().filter(|claim| !claim.volume.is_empty());
    let bound: BTreeMap<Key, &ClaimView> =
        bound.map(|claim| ((claim.namespace.clone(), claim.name.clone()), claim)).collect();
    let one = async |key: Key| {
        if let Some(&claim) = bound.get(&key) {
            return Ok(claim.clone());
        }
        let (namespace, name) = key;
        let operation =
            Operation { verb: "get", resource: "persistentvolumeclaims", namespace: &namespace, name: &name };
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        let found: Option<Claim> = by_name(cluster, &operation, path).await?;
        let missing =
            || ClaimView { namespace: namespace.clone(), name: name.clone(), ..ClaimView::default() };
        Ok(found.map_or_else(missing, |claim| claim_view(&claim)))
    };
    stream::iter(named_claims(pods)).map(one).buffered(AT_A_TIME).try_collect().await
}

/// Reads these volumes, except those that do not exist or that we may not read: only their attachments are known then.
async fn volumes(
    cluster: &Cluster,
    names: BTreeSet<String>,
    known: &Storage,
) -> Result<Vec<VolumeView>, ApiFailure> {
    let known: BTreeMap<&str, &VolumeView> =
        known.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect();
    let one = async |name: String| {
        if let Some(&volume) = known.get(name.as_str()) {
            return Ok(Some(volume.clone()));
        }
        let operation = Operation::on_cluster("get", "persistentvolumes", &name);
        match by_name::<Volume>(cluster, &operation, "/api/v1/persistentvolumes".to_owned()).await {
            Ok(found) => Ok(found.as_ref().map(volume_view)),
            Err(ApiFailure::Denied { text }) => {
                tracing::warn!("{text}");
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    };
    let found: Vec<Option<VolumeView>> =
        stream::iter(names).map(one).buffered(AT_A_TIME).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// The drivers of these volumes that never attach. A driver that cannot be read counts as one that attaches: then its
/// volumes are searched among the attachments, where none will be found.
async fn drivers_without_attach(cluster: &Cluster, volumes: &[VolumeView], known: &Storage) -> Vec<String> {
    let names: BTreeSet<&str> =
        volumes.iter().filter_map(|volume| Some(volume.csi.as_ref()?.driver.as_str())).collect();
    let never = async |name: &str| {
        if known.drivers_without_attach.iter().any(|known| known == name) {
            return Some(name.to_owned());
        }
        let operation = Operation::on_cluster("get", "csidrivers", name);
        let path = "/apis/storage.k8s.io/v1/csidrivers".to_owned();
        let found = by_name::<Driver>(cluster, &operation, path).await.unwrap_or_else(|failure| {
            tracing::debug!("{failure}");
            None
        });
        found.is_some_and(|driver| never_attaches(&driver)).then(|| name.to_owned())
    };
    stream::iter(names).map(never).buffered(AT_A_TIME).filter_map(std::future::ready).collect().await
}

async fn by_name<T: DeserializeOwned>(
    cluster: &Cluster,
    operation: &Operation<'_>,
    path: String,
) -> Result<Option<T>, ApiFailure> {
    if !is_name(operation.name) || !(operation.namespace.is_empty() || is_name(operation.namespace)) {
        return Ok(None);
    }
    cluster.find(operation, Request::new(path).get(operation.name, &GetParams::default())).await
}

/// Whether another node takes pods; `None` if we may not list the nodes.
pub(super) async fn peer_takes_pods(cluster: &Cluster, node: &str) -> Result<Option<bool>, ApiFailure> {
    let is_peer = |found: &Node| found.metadata.name.as_deref() != Some(node) && takes_pods(found);
    let operation = Operation::on_cluster("list", "nodes", "");
    match cluster.list(&operation, nodes::PATH, &Selection::All, is_peer).await {
        Ok(peers) => Ok(Some(peers.contains(&true))),
        Err(ApiFailure::NotFound { .. } | ApiFailure::Denied { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}
