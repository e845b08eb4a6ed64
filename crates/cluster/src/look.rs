//! A look at a node, straight from the server: fresh ones for proofs, full ones for plans.

mod volumes;

use std::collections::BTreeSet;

use drain::Picture;
use drain::storage::Storage;
use drain::view::{BudgetView, PodView};

use crate::failure::ApiFailure;
use crate::list::Selection;
use crate::nodes::{check_name, get_node};
use crate::operation::Operation;
use crate::views::{PodFacts, budget_view};
use crate::wire::Cluster;

/// The node and its pods as the server has them now: two calls, no cache.
///
/// With `volumes` also what is attached to the node (one call for each 500 VolumeAttachments of the cluster), and what the
/// claims of its pods are bound to: at most two calls for each claim that the last picture does not show, one for each of
/// their CSI drivers. So a pod that stays keeps its volumes, and nothing else is taken for detached.
///
/// Budgets prove nothing, so those of the caller's last picture are taken over; without one they are listed as well.
/// Without `volumes` so is all that is known of storage. A DaemonSet that nobody asked for lately costs one call more, and
/// a list of more than 500 objects one for each 500.
///
/// # Errors
/// Half a look is none: the first call that fails. Attachments that the server does not have, or does not show us, are
/// no failure but said so in the picture.
pub async fn fresh_look(
    cluster: &Cluster,
    node: &str,
    last: Option<&Picture>,
    volumes: bool,
) -> Result<Picture, ApiFailure> {
    check_name(&Operation::on_cluster("get", "nodes", node))?;
    cluster.pace().wait().await;
    let budgets = async {
        match last {
            Some(picture) => Ok(picture.budgets.clone()),
            None => list_budgets(cluster).await,
        }
    };
    let known = last.map(|picture| picture.storage.clone()).unwrap_or_default();
    let wanted: BTreeSet<String> = known.volumes.iter().map(|volume| volume.name.clone()).collect();
    let attachments = async {
        if volumes { volumes::attachments(cluster, node, &wanted).await.map(Some) } else { Ok(None) }
    };
    let (found, mut pods, budgets, attachments) =
        tokio::try_join!(get_node(cluster, node), list_pods(cluster, node), budgets, attachments)?;
    cluster.fill_in_owners(&mut pods).await;
    let storage = match attachments {
        Some(attachments) => {
            Storage { attachments, ..Box::pin(volumes::of_pods(cluster, &pods, &known)).await? }
        }
        None => known,
    };
    Ok(Picture { node: found, pods, budgets, storage })
}

/// All that is known of a node, without a feed: for dry runs and plans.
///
/// As a [`fresh_look`] with volumes if a pod has a claim, else without; and then one call more, to see whether another
/// node takes pods.
///
/// # Errors
/// The first call that fails, as in [`fresh_look`]. What the server does not show us counts as unknown.
pub async fn full_look(cluster: &Cluster, node: &str) -> Result<Picture, ApiFailure> {
    let picture = fresh_look(cluster, node, None, false).await?;
    if picture.pods.iter().all(|pod| pod.claims.is_empty()) {
        return Ok(picture);
    }
    let storage = Box::pin(volumes::of_pods(cluster, &picture.pods, &Storage::default())).await?;
    let wanted = storage.volumes.iter().map(|volume| volume.name.clone()).collect();
    let (attachments, peer_takes_pods) = tokio::try_join!(
        volumes::attachments(cluster, node, &wanted),
        volumes::peer_takes_pods(cluster, node)
    )?;
    Ok(Picture { storage: Storage { attachments, peer_takes_pods, ..storage }, ..picture })
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
#[path = "look_tests.rs"]
mod tests;
