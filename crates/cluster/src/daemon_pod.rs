//! Looks whether a DaemonSet has a pod on a node.

use crate::failure::ApiFailure;
use crate::list::Selection;
use crate::nodes::get_node;
use crate::objects::Pod;
use crate::operation::{Operation, is_name};
use crate::views::PodFacts;
use crate::wire::Cluster;

/// True if a pod of any DaemonSet in this namespace is bound to the node, in whatever state it is. A kubelet's own
/// credentials are enough. An empty list counts only if the same server has the Node: a proxy may answer with nothing.
///
/// # Errors
/// The API server does not answer, refuses, or has no pod and no such Node either.
pub async fn has_daemon_pod(cluster: &Cluster, namespace: &str, node: &str) -> Result<bool, ApiFailure> {
    let operation = Operation { verb: "list", resource: "pods", namespace, name: "" };
    if !is_name(namespace) || !is_name(node) {
        return Err(ApiFailure::other(format!(
            "cannot {operation}: no namespace or node can have this name"
        )));
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let bound = Selection::Fields(format!("spec.nodeName={node}"));
    let pods = cluster.list(&operation, &path, &bound, |pod: &Pod| PodFacts::of(pod)).await?;
    let now = cluster.server_time();
    let is_daemon =
        |pod: &PodFacts| pod.at(now).controller.is_some_and(|controller| controller.is_daemon_set());
    let is_there = pods.iter().any(is_daemon);
    if !is_there && get_node(cluster, node).await?.is_none() {
        return Err(ApiFailure::other(format!("cannot {operation}: there is no Node {node}")));
    }
    Ok(is_there)
}

#[cfg(test)]
mod tests {
    use fake_cluster::{Effect, Fault, objects};
    use serde_json::json;

    use super::*;
    use crate::testing::still_cluster;

    #[tokio::test]
    async fn only_an_answer_of_the_nodes_own_server_says_that_no_pod_is_there() {
        let (fake, cluster) = still_cluster();
        let is_there = async |namespace, node| has_daemon_pod(&cluster, namespace, node).await.ok();
        fake.pod("web", "edge-a").unwrap();
        assert_eq!(is_there("default", "edge-a").await, Some(false), "a pod of no DaemonSet");
        let mut pod = objects::pod("ebb", "edge-a");
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ebb", "uid": "u", "controller": true}]);
        fake.apply(pod).unwrap();
        assert_eq!(is_there("default", "edge-a").await, Some(true));
        assert_eq!(is_there("ebb-system", "edge-a").await, Some(false));
        for (namespace, node) in [("default", "edge-z"), ("default", "a,b"), ("../x", "edge-a")] {
            assert_eq!(is_there(namespace, node).await, None, "{namespace} {node}");
        }
        fake.faults().add(Fault::on("list", "pods", Effect::ResetBefore).always());
        assert_eq!(is_there("ebb-system", "edge-a").await, None);
    }
}
