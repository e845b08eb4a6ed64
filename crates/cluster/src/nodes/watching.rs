//! Watches one Node.

use kube::Api;

use crate::failure::ApiFailure;
use crate::node_facts::NodeFacts;
use crate::object_watch::ObjectWatch;
use crate::objects::Node;
use crate::operation::is_name;
use crate::wire::Cluster;

/// Watches one Node, by its name. Dropping it ends the watch.
///
/// It costs one list and one watch of the one Node. After a failure it goes on by itself, at most 30 s after the server
/// is back.
#[derive(Debug)]
pub struct NodeWatch {
    cluster: Cluster,
    watch: ObjectWatch<NodeFacts>,
}

impl NodeWatch {
    /// Begins to watch. Has to be called in a tokio runtime.
    pub fn start(cluster: &Cluster, node: &str) -> Self {
        // A name that no Node can have selects nothing.
        let name = if is_name(node) { node } else { "-" };
        let note = |trouble: Option<&crate::watches::WatchError>| {
            if let Some(trouble) = trouble {
                tracing::debug!("{}", trouble.failure);
            }
        };
        let watch = ObjectWatch::start(cluster, (Api::<Node>::all, "nodes", name), NodeFacts::of, note);
        Self { cluster: cluster.clone(), watch }
    }

    /// Waits until the Node has changed, the watch has failed, or goes on after a failure. Cancel-safe.
    ///
    /// # Returns
    /// The Node as it is now; `None` if there is none of this name.
    ///
    /// # Errors
    /// The watch has failed: the Node may change unseen until the next call returns.
    pub async fn changed(&mut self) -> Result<Option<NodeFacts>, ApiFailure> {
        let seen = self.watch.changed().await?;
        Ok(seen.map(|node| node.seen_at(self.cluster.server_time())))
    }
}
