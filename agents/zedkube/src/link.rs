//! The connection to the cluster: made, kept, and made again when the kubeconfig or a file that it names changes.

use std::sync::Arc;
use std::time::Duration;

use cluster::kubeconfig::Search;
use cluster::{ApiFailure, Cluster, Connection, Pace, TokenFile, connect};
use drain::Moment;
use pubsub::Root;
use runtime::Settings;
use session::Event;
use session::event::CallError;
use tokio::sync::{Mutex, mpsc};

use crate::kubelet::{ADMINISTRATOR_KUBECONFIGS, KUBELET_KUBECONFIGS};

/// After a failed connect, callers get the same failure for this long. Otherwise each of them would wait for a hanging
/// credential plugin in turn.
const SAME_FAILURE: Duration = Duration::from_secs(2);

/// The connection, shared by all callers of the API server.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    search: Search,
    /// All connections together are paced by it.
    pace: Pace,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    connection: Option<Connection>,
    /// Number of the present connection; zero before the first.
    generation: u64,
    /// Why there is no connection, and when connecting is tried again.
    failed: Option<(ApiFailure, Moment)>,
}

impl Link {
    /// Creates it; nothing is read or sent yet.
    pub(crate) fn new(root: &Root, settings: &Settings) -> Self {
        // A server of k3s has both: the kubelet's come first, because they cannot change other nodes.
        let candidates = KUBELET_KUBECONFIGS.iter().chain(&ADMINISTRATOR_KUBECONFIGS);
        let candidates = candidates.map(|path| root.join(path)).collect();
        let search = Search::with_environment(settings.cluster.kubeconfig.clone(), candidates).distrusting();
        Self { search, pace: Pace::of_an_agent(), kept: Arc::default() }
    }

    /// True if there is a kubeconfig, valid or not.
    pub(crate) fn has_kubeconfig(&self) -> bool {
        self.search.find().is_some()
    }

    /// Gives the cluster, and a number that changes with each new connection. Connects if there is no connection yet or
    /// it is outdated.
    pub(crate) async fn cluster(&self) -> Result<(Cluster, u64), ApiFailure> {
        let mut kept = self.kept.lock().await;
        if let Some(connection) = &kept.connection
            && !connection.is_outdated(&self.search)
        {
            return Ok((connection.cluster.clone(), kept.generation));
        }
        kept.connection = None;
        if let Some((failure, until)) = &kept.failed
            && now() < *until
        {
            return Err(failure.clone());
        }
        match connect(&self.search, "zedkube").await {
            Ok(mut connection) => {
                let cluster = connection.cluster.with_pace(self.pace.clone());
                connection.cluster = cluster.clone();
                let generation = kept.generation + 1;
                *kept = Kept { connection: Some(connection), generation, failed: None };
                Ok((cluster, generation))
            }
            Err(failure) => {
                kept.failed = Some((failure.clone(), now() + SAME_FAILURE));
                Err(failure)
            }
        }
    }

    /// The file of our token, if the present connection uses one, and the cluster that renews it.
    pub(crate) fn token_file(&self) -> Option<(Cluster, TokenFile)> {
        let kept = self.kept.try_lock().ok()?;
        let connection = kept.connection.as_ref()?;
        Some((connection.cluster.clone(), connection.token_file.clone()?))
    }

    /// The present connection, if there is one; never connects and never waits.
    pub(crate) fn standing(&self) -> Option<(Cluster, u64)> {
        let kept = self.kept.try_lock().ok()?;
        kept.connection.as_ref().map(|connection| (connection.cluster.clone(), kept.generation))
    }
}

fn now() -> Moment {
    Moment(runtime::clock::boot_millis())
}

/// The session's form of a failed call.
pub(crate) fn call_error(failure: &ApiFailure) -> CallError {
    let text = failure.text().to_owned();
    match failure {
        ApiFailure::Unreachable { .. } => CallError::Unreachable(text),
        ApiFailure::Denied { .. } => CallError::Denied(text),
        ApiFailure::NotFound { .. } | ApiFailure::Conflict { .. } | ApiFailure::Other { .. } => {
            CallError::Other(text)
        }
    }
}

/// Sends an event to the loop. If the loop has ended, the event is dropped.
pub(crate) async fn tell(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("an answer of the API server came after zedkube had stopped; it is dropped");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Keys and certificates are replaced while zedkube runs, and zedkube is not restarted for that.
    #[tokio::test]
    async fn a_kubeconfig_that_changes_is_a_new_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let describe = |port: u16| {
            let text = format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
                 clusters: [{{name: a, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\n\
                 users: [{{name: u, user: {{}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: a, user: u}}}}]\n"
            );
            #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
            fs::write(&path, text).unwrap();
        };
        describe(1);
        let mut settings = Settings::default();
        settings.cluster.kubeconfig = Some(path.clone());
        let link = Link::new(&Root::new(folder.path()), &settings);
        let generation = async || link.cluster().await.map(|(_, generation)| generation);
        assert_eq!((generation().await, generation().await), (Ok(1), Ok(1)), "one for all");
        describe(10);
        assert_eq!(generation().await, Ok(2));
        fs::remove_file(&path).unwrap();
        assert!(generation().await.is_err_and(|failure| failure.is_unreachable()));
        assert!(link.standing().is_none(), "the old connection is not used any more");
    }
}
