//! A fresh look at a node: straight from the server, for proofs.

use drain::Picture;
use drain::view::{BudgetView, PodView};

use crate::failure::ApiFailure;
use crate::list::Selection;
use crate::nodes::{check_name, get_node};
use crate::operation::Operation;
use crate::views::{PodFacts, budget_view};
use crate::wire::Cluster;

/// The node and its pods as the server has them now: two calls, no cache (`drain.md` 1, "COMPLETE needs proof").
///
/// Budgets prove nothing, so those of the caller's last picture are taken over; without one they are listed as well.
/// A DaemonSet that nobody asked for lately costs one call more.
pub async fn fresh_look(
    cluster: &Cluster,
    node: &str,
    last: Option<&Picture>,
) -> Result<Picture, ApiFailure> {
    check_name(&Operation::on_cluster("get", "nodes", node))?;
    let (found, mut pods, budgets) =
        tokio::try_join!(get_node(cluster, node), list_pods(cluster, node), async {
            match last {
                Some(picture) => Ok(picture.budgets.clone()),
                None => list_budgets(cluster).await,
            }
        })?;
    cluster.fill_in_owners(&mut pods).await;
    Ok(Picture { node: found, pods, budgets, ..Picture::default() })
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
