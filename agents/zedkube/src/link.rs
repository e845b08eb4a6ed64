//! The way to the cluster: found, kept, and found anew when the kubeconfig changes.

use std::sync::Arc;

use cluster::kubeconfig::Search;
use cluster::{ApiFailure, Cluster, Connection, connect};
use pubsub::Root;
use runtime::Settings;
use session::Event;
use session::event::Trouble;
use tokio::sync::{Mutex, mpsc};

/// Where k3s puts its kubeconfig: EVE's place, then k3s' own.
const CANDIDATES: [&str; 2] = ["/run/.kube/k3s/k3s.yaml", "/etc/rancher/k3s/k3s.yaml"];

/// Shared by all who call the API server.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    search: Search,
    connection: Arc<Mutex<Option<Connected>>>,
}

#[derive(Debug)]
struct Connected {
    connection: Connection,
    generation: u64,
}

impl Link {
    /// Nothing is read or sent yet.
    pub(crate) fn new(root: &Root, settings: &Settings) -> Self {
        let candidates = CANDIDATES.iter().map(|path| root.join(path)).collect();
        let search = Search::with_environment(settings.cluster.kubeconfig.clone(), candidates);
        Self { search, connection: Arc::default() }
    }

    /// There is a kubeconfig, good or broken.
    pub(crate) fn has_kubeconfig(&self) -> bool {
        self.search.find().is_some()
    }

    /// The cluster, and a number that changes with every new connection. Connects if there is no connection yet or
    /// the kubeconfig has changed.
    pub(crate) async fn cluster(&self) -> Result<(Cluster, u64), ApiFailure> {
        let mut kept = self.connection.lock().await;
        let generation = kept.as_ref().map_or(0, |kept| kept.generation);
        if kept.as_ref().is_none_or(|kept| kept.connection.is_outdated(&self.search)) {
            *kept = None;
            let connection = connect(&self.search, "zedkube").await?;
            let cluster = connection.cluster.clone();
            *kept = Some(Connected { connection, generation: generation + 1 });
            return Ok((cluster, generation + 1));
        }
        let kept = kept.as_ref().map(|kept| (kept.connection.cluster.clone(), kept.generation));
        kept.ok_or_else(|| ApiFailure::Other { text: "no connection".to_owned() })
    }

    /// The connection that stands now, without making or waiting for one.
    pub(crate) fn standing(&self) -> Option<(Cluster, u64)> {
        let kept = self.connection.try_lock().ok()?;
        kept.as_ref().map(|kept| (kept.connection.cluster.clone(), kept.generation))
    }
}

/// A failed call as the session sees it.
pub(crate) fn trouble(failure: &ApiFailure) -> Trouble {
    let text = failure.text().to_owned();
    match failure {
        ApiFailure::Unreachable { .. } => Trouble::Unreachable(text),
        ApiFailure::Denied { .. } => Trouble::Denied(text),
        ApiFailure::NotFound { .. } | ApiFailure::Conflict { .. } | ApiFailure::Other { .. } => {
            Trouble::Other(text)
        }
    }
}

/// The loop may have ended meanwhile; then nobody wants the answer.
pub(crate) async fn tell(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("an answer came after the end");
    }
}
