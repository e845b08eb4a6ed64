//! Fresh reads of the nodes: all of them, or only ours.

use cluster::identity::{Identity, IdentityProblem, identify};
use cluster::nodes::{NodeFacts, get_node, list_nodes, sample_nodes};
use schemas::EdgeNodeInfo;
use session::Event;
use session::event::{NoNode, NodeList, NodeSample};
use tokio::sync::mpsc;

use crate::link::{Link, call_error, tell};

/// Lists all nodes and finds ours among them; answers with [`Event::NodesListed`].
pub(crate) fn list(link: Link, identity: Identity, serial: u32, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        let result = all_nodes(&link).await.map(|(nodes, cluster)| NodeList {
            cluster,
            own: identify(&nodes, &identity).map(|found| found.node).map_err(|problem| NoNode {
                may_join: matches!(problem, IdentityProblem::NoNode { .. }),
                why: problem.to_string(),
            }),
            nodes: nodes.into_iter().map(|facts| facts.view).collect(),
        });
        let result = result.map_err(|failure| call_error(&failure));
        tell(&events, Event::NodesListed { serial, result }).await;
    });
}

/// Lists the first nodes; answers with [`Event::NodesSampled`].
pub(crate) fn sample(link: Link, serial: u32, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        let result = first_nodes(&link).await.map_err(|failure| call_error(&failure));
        tell(&events, Event::NodesSampled { serial, result }).await;
    });
}

/// Reads our node; answers with [`Event::Probed`].
pub(crate) fn probe(link: Link, node: String, serial: u32, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        let result = one_node(&link, &node).await.map_err(|failure| call_error(&failure));
        tell(&events, Event::Probed { serial, result }).await;
    });
}

/// The names and IDs of this machine, by which its own Node is found.
pub fn identity(
    node_name: Option<String>,
    machine_id: Option<String>,
    boot_id: Option<String>,
    info: Option<&EdgeNodeInfo>,
) -> Identity {
    let host_name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    Identity {
        node_name,
        device_id: info.map(|info| info.device_id.clone()),
        device_name: info.map(|info| info.device_name.clone()),
        host_name,
        machine_id,
        boot_id,
    }
}

/// The nodes of the cluster to which the kubeconfig leads, whichever it is, and its UID.
async fn all_nodes(link: &Link) -> Result<(Vec<NodeFacts>, Option<String>), cluster::ApiFailure> {
    let (cluster, uid) = link.any_cluster().await?;
    Ok((list_nodes(&cluster).await?, uid))
}

async fn first_nodes(link: &Link) -> Result<NodeSample, cluster::ApiFailure> {
    let (cluster, uid) = link.any_cluster().await?;
    let (nodes, total) = sample_nodes(&cluster).await?;
    Ok(NodeSample { nodes: nodes.into_iter().map(|facts| facts.view).collect(), total, cluster: uid })
}

async fn one_node(link: &Link, node: &str) -> Result<Option<drain::view::NodeView>, cluster::ApiFailure> {
    let (cluster, _) = link.cluster().await?;
    get_node(&cluster, node).await
}
