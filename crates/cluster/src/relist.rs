//! Snapshots of a node that are listed directly from the server: relists for drains, full snapshots for plans.

pub(crate) mod volumes;

use std::collections::BTreeSet;

use drain::Snapshot;
use drain::storage::{Attachments, Storage};
use drain::view::{BudgetView, PodView};

use crate::failure::ApiFailure;
use crate::list::Selection;
use crate::nodes::{check_name, get_node};
use crate::operation::Operation;
use crate::views::{PodFacts, budget_view};
use crate::wire::Cluster;

/// Lists the node and its pods from the server: two calls, no cache.
///
/// With `volumes` also the attachments to the node (one call for each 500 VolumeAttachments of the cluster), and the
/// volumes to which the claims of its pods are bound: at most two calls for each claim that the last snapshot does not
/// contain, one for each of their CSI drivers, and one for each attachment to
/// the node of a volume that none of them uses. So a pod that stays keeps its volumes, and no other volume is mistaken
/// for detached.
///
/// Budgets are not needed to confirm a drain, so those of the caller's last snapshot are taken over; without one they
/// are listed too. Without `volumes` all known storage objects are taken over too. A DaemonSet whose answer is not
/// known or too old costs one more call, and a list of more than 500 objects one for each 500.
///
/// # Errors
/// The first call that fails: a part of a snapshot is no result. Attachments that the server does not have, or refuses
/// to list, are no failure; the snapshot contains the reason.
pub async fn relist(
    cluster: &Cluster,
    node: &str,
    last: Option<&Snapshot>,
    volumes: bool,
) -> Result<Snapshot, ApiFailure> {
    check_name(&Operation::on_cluster("get", "nodes", node))?;
    cluster.pace().wait().await;
    let budgets = async {
        match last {
            Some(snapshot) => Ok(snapshot.budgets.clone()),
            None => list_budgets(cluster).await,
        }
    };
    let known = last.map(|snapshot| snapshot.storage.clone()).unwrap_or_default();
    let wanted: BTreeSet<String> = known.volumes.iter().map(|volume| volume.name.clone()).collect();
    let attachments = async {
        if volumes { volumes::attachments(cluster, node, &wanted).await.map(Some) } else { Ok(None) }
    };
    let (found, mut pods, budgets, attachments) =
        tokio::try_join!(get_node(cluster, node), list_pods(cluster, node), budgets, attachments)?;
    cluster.fill_in_owners(&mut pods).await;
    let storage = match attachments {
        Some(attachments) => {
            let storage = Box::pin(volumes::of_pods(cluster, &pods, &known)).await?;
            with_attachments(cluster, node, attachments, storage).await
        }
        None => known,
    };
    Ok(Snapshot { node: found, pods, budgets, storage })
}

/// Lists all facts about a node, without watches: for dry runs and plans.
///
/// It is a [`relist`] with volumes, whether or not a pod has a claim, because a drain waits for every volume that is
/// attached to the node; and, if one has a claim, one more call, to see whether another node takes pods.
///
/// # Errors
/// The first call that fails, as in [`relist`]. Objects that the server refuses to show count as unknown.
pub async fn full_snapshot(cluster: &Cluster, node: &str) -> Result<Snapshot, ApiFailure> {
    let snapshot = relist(cluster, node, None, false).await?;
    let has_claims = snapshot.pods.iter().any(|pod| !pod.claims.is_empty());
    let storage = Box::pin(volumes::of_pods(cluster, &snapshot.pods, &Storage::default())).await?;
    let wanted = storage.volumes.iter().map(|volume| volume.name.clone()).collect();
    let (attachments, peer_takes_pods) =
        tokio::try_join!(volumes::attachments(cluster, node, &wanted), async {
            if has_claims { volumes::peer_takes_pods(cluster, node).await } else { Ok(None) }
        })?;
    let storage = with_attachments(cluster, node, attachments, storage).await;
    Ok(Snapshot { storage: Storage { peer_takes_pods, ..storage }, ..snapshot })
}

async fn with_attachments(
    cluster: &Cluster,
    node: &str,
    attachments: Attachments,
    storage: Storage,
) -> Storage {
    let storage = Storage { attachments, ..storage };
    let missing_volumes = volumes::missing(cluster, node, &storage).await;
    Storage { missing_volumes, ..storage }
}

async fn list_pods(cluster: &Cluster, node: &str) -> Result<Vec<PodView>, ApiFailure> {
    let selection = Selection::Fields(format!("spec.nodeName={node}"));
    let operation = Operation::on_cluster("list", "pods", "");
    let pods = cluster.list(&operation, "/api/v1/pods", &selection, PodFacts::of).await?;
    let now = cluster.server_time();
    let mut views: Vec<_> = pods.iter().map(|pod| pod.at(now)).collect();
    views.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(views)
}

async fn list_budgets(cluster: &Cluster) -> Result<Vec<BudgetView>, ApiFailure> {
    let operation = Operation::on_cluster("list", "poddisruptionbudgets", "");
    let path = "/apis/policy/v1/poddisruptionbudgets";
    cluster.list(&operation, path, &Selection::All, budget_view).await
}

#[cfg(test)]
mod tests;
