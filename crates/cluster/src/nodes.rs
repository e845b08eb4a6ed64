//! Reads the Nodes of the cluster.

mod watching;

use drain::view::NodeView;
use kube::core::Request;
use kube::core::params::GetParams;
use serde::de::DeserializeOwned;

use crate::failure::ApiFailure;
use crate::list::Selection;
use crate::objects::Node;
use crate::operation::{Operation, is_name};
use crate::wire::Cluster;

pub use crate::node_facts::NodeFacts;
pub use watching::NodeWatch;

pub(crate) const PATH: &str = "/api/v1/nodes";

/// All Nodes, as one consistent list from the server.
pub async fn list_nodes(cluster: &Cluster) -> Result<Vec<NodeFacts>, ApiFailure> {
    list(cluster, &Selection::All).await
}

/// The Nodes with these labels (`--selector` of kubectl: `role=edge,zone!=b`), selected by the server; an empty selector
/// selects all. A selector that the server does not understand is a failure with the server's message.
pub async fn list_nodes_selected(
    cluster: &Cluster,
    label_selector: &str,
) -> Result<Vec<NodeFacts>, ApiFailure> {
    list(cluster, &Selection::Labels(label_selector.to_owned())).await
}

/// The first two Nodes, and how many there are in all, if the server says so: one small answer, however many nodes the
/// cluster has. It shows whether nodes have come or gone, and usually one that can take pods.
pub async fn sample_nodes(cluster: &Cluster) -> Result<(Vec<NodeFacts>, Option<usize>), ApiFailure> {
    let operation = Operation::on_cluster("list", "nodes", "");
    let (nodes, total) = cluster.first(&operation, PATH, 2, NodeFacts::of).await?;
    let now = cluster.server_time();
    Ok((nodes.into_iter().map(|node| node.seen_at(now)).collect(), total))
}

async fn list(cluster: &Cluster, selection: &Selection) -> Result<Vec<NodeFacts>, ApiFailure> {
    let operation = Operation::on_cluster("list", "nodes", "");
    let nodes = cluster.list(&operation, PATH, selection, NodeFacts::of).await?;
    let now = cluster.server_time();
    Ok(nodes.into_iter().map(|node| node.seen_at(now)).collect())
}

/// One Node, read consistently; `None` if the server answers that it does not exist, with a Status that names this
/// Node. Any other 404 is a failure.
pub async fn get_node(cluster: &Cluster, name: &str) -> Result<Option<NodeView>, ApiFailure> {
    Ok(get_node_facts(cluster, name).await?.map(|node| node.view))
}

/// As [`get_node`], with the commands on the Node and the fields that identify its machine.
pub async fn get_node_facts(cluster: &Cluster, name: &str) -> Result<Option<NodeFacts>, ApiFailure> {
    let found = find_node::<Node>(cluster, name).await?;
    Ok(found.map(|node| NodeFacts::of(&node).seen_at(cluster.server_time())))
}

/// One Node; `None` only if the API server itself answers, by name, that it does not exist.
pub(crate) async fn find_node<T: DeserializeOwned>(
    cluster: &Cluster,
    name: &str,
) -> Result<Option<T>, ApiFailure> {
    let operation = Operation::on_cluster("get", "nodes", name);
    check_name(&operation)?;
    cluster.find(&operation, Request::new(PATH).get(name, &GetParams::default())).await
}

/// Refuses a name that no Node can have, before it becomes part of a URL.
pub(crate) fn check_name(operation: &Operation<'_>) -> Result<(), ApiFailure> {
    if is_name(operation.name) {
        return Ok(());
    }
    Err(ApiFailure::other(format!("cannot {operation}: no Node can have this name")))
}

#[cfg(test)]
mod tests;
