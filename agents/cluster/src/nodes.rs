//! The Nodes of the cluster.

use drain::view::NodeView;
use kube::core::Request;
use kube::core::params::GetParams;

use crate::failure::ApiFailure;
use crate::list::Selection;
use crate::objects::Node;
use crate::operation::{Operation, is_name};
use crate::wire::Cluster;

pub use crate::views::NodeFacts;

pub(crate) const PATH: &str = "/api/v1/nodes";

/// All Nodes, as one consistent list from the server.
pub async fn list_nodes(cluster: &Cluster) -> Result<Vec<NodeFacts>, ApiFailure> {
    cluster.list(&Operation::on_cluster("list", "nodes", ""), PATH, &Selection::All, NodeFacts::of).await
}

/// One Node, consistent from the server; `None` when the server says that there is none.
pub async fn get_node(cluster: &Cluster, name: &str) -> Result<Option<NodeView>, ApiFailure> {
    match read_node(cluster, name).await {
        Ok(node) => Ok(Some(NodeFacts::of(&node).view)),
        Err(ApiFailure::NotFound { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// One Node as the server has it.
pub(crate) async fn read_node(cluster: &Cluster, name: &str) -> Result<Node, ApiFailure> {
    let operation = Operation::on_cluster("get", "nodes", name);
    check_name(&operation)?;
    cluster.fetch(&operation, Request::new(PATH).get(name, &GetParams::default())).await
}

/// Refuses a name that no Node can have, before it becomes a part of a URL.
pub(crate) fn check_name(operation: &Operation<'_>) -> Result<(), ApiFailure> {
    if is_name(operation.name) {
        return Ok(());
    }
    Err(ApiFailure::other(format!("cannot {operation}: no Node can have this name")))
}
