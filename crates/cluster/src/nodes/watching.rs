//! Watches one Node.

use std::pin::pin;

use drain::view::NodeView;
use futures::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::failure::ApiFailure;
use crate::node_facts::NodeFacts;
use crate::objects::Node;
use crate::operation::is_name;
use crate::store::Store;
use crate::watches::{Told, follow, trimmed};
use crate::wire::Cluster;

/// Watches one Node, by its name. Dropping it ends the watch.
///
/// It costs one list and one watch of the one Node. After a failure it goes on by itself, at most 30 s after the server
/// is back.
#[derive(Debug)]
pub struct NodeWatch {
    cluster: Cluster,
    seen: watch::Receiver<Seen>,
    task: AbortHandle,
}

/// What the watch shows.
#[derive(Debug, Default)]
struct Seen {
    node: Option<NodeFacts>,
    /// The last failure, if nothing has come from the server since.
    failure: Option<ApiFailure>,
}

impl Drop for NodeWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl NodeWatch {
    /// Begins to watch. Has to be called in a tokio runtime.
    pub fn start(cluster: &Cluster, node: &str) -> Self {
        let (tell, seen) = watch::channel(Seen::default());
        let task = tokio::spawn(run(cluster.clone(), node.to_owned(), tell)).abort_handle();
        Self { cluster: cluster.clone(), seen, task }
    }

    /// Waits until the Node has changed, the watch has failed, or goes on after a failure. Cancel-safe.
    ///
    /// # Returns
    /// The Node as it is now; `None` if there is none of this name.
    ///
    /// # Errors
    /// The watch has failed: the Node may change unseen until the next call returns.
    pub async fn changed(&mut self) -> Result<Option<NodeView>, ApiFailure> {
        if self.seen.changed().await.is_err() {
            // The runtime is going down.
            std::future::pending::<()>().await;
        }
        let seen = self.seen.borrow_and_update();
        let node = || seen.node.as_ref().map(|node| node.at(self.cluster.server_time()));
        seen.failure.clone().map_or_else(|| Ok(node()), Err)
    }
}

async fn run(cluster: Cluster, node: String, tell: watch::Sender<Seen>) {
    // A name that no Node can have selects nothing.
    let name = if is_name(&node) { &node } else { "-" };
    let only = Config::default().fields(&format!("metadata.name={name}"));
    let mut events = pin!(follow(&cluster, Api::<Node>::all, only, "nodes"));
    let entry = |node: &Node| ((String::new(), node.name_any()), NodeFacts::of(node));
    let mut nodes = Store::default();
    while let Some(told) = events.next().await {
        let has_changed = match told {
            Ok(Told::Event(event)) => {
                // This one comes before the server is asked.
                let is_heard = !matches!(event, Event::Init);
                let has_changed = nodes.apply(trimmed(event, entry));
                if !is_heard {
                    continue;
                }
                has_changed
            }
            Ok(Told::Lives) => false,
            Err(trouble) => {
                tracing::debug!("{}", trouble.failure);
                tell.send_modify(|seen| seen.failure = Some(trouble.failure));
                continue;
            }
        };
        tell.send_if_modified(|seen| {
            let is_over = seen.failure.take().is_some();
            if has_changed {
                seen.node = nodes.objects().next().cloned();
            }
            has_changed || is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use fake_cluster::{Effect, Fault, Reply};
    use serde_json::json;

    use super::*;
    use crate::testing::{last, soon, still_cluster};

    #[tokio::test]
    async fn changes_failures_and_their_end_are_told() {
        let (fake, cluster) = still_cluster();
        fake.node("edge-b").unwrap();
        let denied = Reply::forbidden("edge", "list", "nodes", "", "");
        fake.faults().add(Fault::on("list", "nodes", Effect::Answer(denied)).times(1));
        let mut watch = NodeWatch::start(&cluster, "edge-a");
        assert!(matches!(soon(watch.changed()).await, Err(ApiFailure::Denied { .. })));
        assert_eq!(soon(watch.changed()).await.unwrap().unwrap().name, "edge-a");
        assert!(last(&fake, "list", "nodes").query.contains("fieldSelector=metadata.name%3Dedge-a"));
        fake.edit("nodes", "", "edge-a", |node| node["spec"]["unschedulable"] = json!(true)).unwrap();
        assert!(soon(watch.changed()).await.unwrap().unwrap().cordoned);
        // Nothing has changed meanwhile, and the failure is over all the same.
        fake.faults().add(Fault::on("watch", "nodes", Effect::Answer(Reply::text(500, "no"))).times(1));
        fake.faults().break_watches(Some("nodes"));
        assert!(soon(watch.changed()).await.is_err());
        assert!(soon(watch.changed()).await.unwrap().unwrap().cordoned);
        fake.delete("nodes", "", "edge-a");
        assert_eq!(soon(watch.changed()).await, Ok(None));
    }
}
