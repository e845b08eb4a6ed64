//! What pods' volumes hang on, by lists.

use std::collections::BTreeSet;

use drain::PodView;
use drain::storage::{Attachments, ClaimView, Storage, VolumeView};
use serde::de::DeserializeOwned;

use crate::failure::ApiFailure;
use crate::list::Selection;
use crate::node_facts::takes_pods;
use crate::nodes;
use crate::objects::Node;
use crate::operation::Operation;
use crate::shelf::Key;
use crate::storage::{
    Claim, Driver, attachment_view, claim_view, named_claims, never_attaches, volume_view,
    without_attachments,
};
use crate::wire::Cluster;

/// All VolumeAttachments of the cluster: one call. Not being served or not being allowed is an answer; everything else
/// that goes wrong is a failure.
pub(super) async fn attachments(cluster: &Cluster) -> Result<Attachments, ApiFailure> {
    let path = "/apis/storage.k8s.io/v1/volumeattachments";
    match list(cluster, "volumeattachments", path, attachment_view).await {
        Ok(attachments) => Ok(Attachments::Listed(attachments)),
        Err(failure @ (ApiFailure::NotFound { .. } | ApiFailure::Denied { .. })) => {
            Ok(without_attachments(&failure))
        }
        Err(failure) => Err(failure),
    }
}

/// All that these pods' volumes hang on: five calls. What the server does not show us counts as unknown.
pub(super) async fn storage(cluster: &Cluster, node: &str, pods: &[PodView]) -> Result<Storage, ApiFailure> {
    let named = named_claims(pods);
    let (attachments, claims, volumes, drivers, peers) = tokio::try_join!(
        attachments(cluster),
        readable(claims(cluster, &named)),
        shown(list(cluster, "persistentvolumes", "/api/v1/persistentvolumes", volume_view)),
        shown(drivers_without_attach(cluster)),
        shown(peers(cluster, node)),
    )?;
    let (claims, claims_unreadable) = match claims {
        Ok(claims) => (claims, None),
        Err(text) => (Vec::new(), Some(text)),
    };
    let bound: BTreeSet<&str> = claims.iter().map(|claim| claim.volume.as_str()).collect();
    let is_bound = |volume: &VolumeView| bound.contains(volume.name.as_str());
    Ok(Storage {
        volumes: volumes.unwrap_or_default().into_iter().filter(is_bound).collect(),
        claims,
        claims_unreadable,
        drivers_without_attach: drivers.unwrap_or_default(),
        attachments,
        peer_takes_pods: peers,
    })
}

/// `None` for what the server does not have or does not show us.
async fn shown<T>(answer: impl Future<Output = Result<T, ApiFailure>>) -> Result<Option<T>, ApiFailure> {
    Ok(readable(answer).await?.ok())
}

/// What the server does not have or does not show us is an answer, too.
async fn readable<T>(
    answer: impl Future<Output = Result<T, ApiFailure>>,
) -> Result<Result<T, String>, ApiFailure> {
    match answer.await {
        Ok(found) => Ok(Ok(found)),
        Err(failure @ (ApiFailure::NotFound { .. } | ApiFailure::Denied { .. })) => {
            tracing::warn!("{failure}");
            Ok(Err(failure.text().to_owned()))
        }
        Err(failure) => Err(failure),
    }
}

async fn claims(cluster: &Cluster, named: &BTreeSet<Key>) -> Result<Vec<ClaimView>, ApiFailure> {
    let path = "/api/v1/persistentvolumeclaims";
    let pick = |claim: &Claim| {
        Some(claim_view(claim)).filter(|view| named.contains(&(view.namespace.clone(), view.name.clone())))
    };
    Ok(list(cluster, "persistentvolumeclaims", path, pick).await?.into_iter().flatten().collect())
}

async fn drivers_without_attach(cluster: &Cluster) -> Result<Vec<String>, ApiFailure> {
    let path = "/apis/storage.k8s.io/v1/csidrivers";
    let pick = |driver: &Driver| driver.metadata.name.clone().filter(|_| never_attaches(driver));
    Ok(list(cluster, "csidrivers", path, pick).await?.into_iter().flatten().collect())
}

/// Another node takes pods.
async fn peers(cluster: &Cluster, node: &str) -> Result<bool, ApiFailure> {
    let is_peer = |found: &Node| found.metadata.name.as_deref() != Some(node) && takes_pods(found);
    Ok(list(cluster, "nodes", nodes::PATH, is_peer).await?.contains(&true))
}

async fn list<T: DeserializeOwned, V>(
    cluster: &Cluster,
    resource: &'static str,
    path: &str,
    trim: impl Fn(&T) -> V,
) -> Result<Vec<V>, ApiFailure> {
    cluster.list(&Operation::on_cluster("list", resource, ""), path, &Selection::All, trim).await
}
