//! The connection to the cluster: made, kept, and made again when the kubeconfig or a file that it names changes.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use cluster::kubeconfig::{ADMINISTRATORS, KUBELETS, Search};
use cluster::{ApiFailure, Cluster, Connection, Pace, TokenFile, cluster_uid, connect};
use drain::Moment;
use pubsub::Root;
use runtime::Settings;
use session::Event;
use session::elsewhere::refusal;
use session::event::CallError;
use tokio::sync::{Mutex, mpsc, watch};

/// After a failed connect, callers get the same failure for this long. Otherwise each of them would wait for a hanging
/// credential plugin in turn.
const SAME_FAILURE: Duration = Duration::from_secs(2);

/// Pause before the UID of namespace `kube-system` is asked for again, if zedkube's user may not read it.
const WHICH_AGAIN: Duration = Duration::from_mins(1);

/// The connection, shared by all callers of the API server.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    search: Search,
    /// All connections together are paced by it.
    pace: Pace,
    kept: Arc<Mutex<Kept>>,
    /// Number of the present connection; counts on when a connection is given up.
    generation: watch::Sender<u64>,
    /// The cluster in which zedkube drains, by the UID of its namespace `kube-system`; `None` if it is not known.
    pinned: Arc<std::sync::Mutex<Option<String>>>,
}

#[derive(Debug, Default)]
struct Kept {
    connection: Option<Connection>,
    which: Which,
    /// Why there is no connection, or why its cluster has not said which one it is, and when that is tried again.
    failed: Option<(ApiFailure, Moment)>,
}

/// The cluster to which the present connection leads.
#[derive(Debug, Default)]
enum Which {
    /// It has not answered yet.
    #[default]
    NotAsked,
    /// zedkube's user may not know it; it is asked again at this time.
    Hidden(Moment),
    /// The UID of its namespace `kube-system`.
    Known(String),
}

impl Which {
    fn uid(&self) -> Option<&str> {
        match self {
            Self::NotAsked | Self::Hidden(_) => None,
            Self::Known(uid) => Some(uid),
        }
    }
}

/// Where zedkube looks for a kubeconfig below the root. A server of k3s has both kinds: the kubelet's come first, because
/// they cannot change other nodes.
pub fn kubeconfigs(root: &Root) -> Vec<PathBuf> {
    KUBELETS.iter().chain(&ADMINISTRATORS).map(|path| root.join(path)).collect()
}

impl Link {
    /// Creates it; nothing is read or sent yet.
    pub(crate) fn new(root: &Root, settings: &Settings) -> Self {
        let search = Search::with_environment(settings.cluster.kubeconfig.clone(), kubeconfigs(root));
        let search = search.distrusting();
        Self {
            search,
            pace: Pace::of_an_agent(),
            kept: Arc::default(),
            generation: watch::Sender::new(1),
            pinned: Arc::default(),
        }
    }

    /// True if there is a kubeconfig, valid or not.
    pub(crate) fn has_kubeconfig(&self) -> bool {
        self.search.find().is_some()
    }

    /// The places in which a kubeconfig is searched for, in words.
    pub(crate) fn places(&self) -> String {
        self.search.places()
    }

    /// Sets the cluster in which zedkube drains from now on ([`session::State::cluster`]).
    pub(crate) fn pin(&self, uid: Option<&String>) {
        *self.pinned.lock().unwrap_or_else(PoisonError::into_inner) = uid.cloned();
    }

    /// What limits the requests of all connections.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Gives the cluster in which zedkube drains, and a number that changes with each new connection. Connects if there
    /// is no connection yet or it is outdated.
    ///
    /// # Errors
    /// No connection; or the kubeconfig leads to another cluster.
    pub(crate) async fn cluster(&self) -> Result<(Cluster, u64), ApiFailure> {
        let mut kept = self.kept.lock().await;
        let cluster = self.connected(&mut kept).await?;
        match self.refusal(&kept.which) {
            Some(text) => Err(ApiFailure::Denied { text }),
            None => Ok((cluster, self.generation())),
        }
    }

    /// Gives the cluster to which the kubeconfig leads, whichever it is, and the UID of its namespace `kube-system`, if
    /// that is known.
    pub(crate) async fn any_cluster(&self) -> Result<(Cluster, Option<String>), ApiFailure> {
        let mut kept = self.kept.lock().await;
        let cluster = self.connected(&mut kept).await?;
        Ok((cluster, kept.which.uid().map(str::to_owned)))
    }

    async fn connected(&self, kept: &mut Kept) -> Result<Cluster, ApiFailure> {
        if kept.connection.as_ref().is_some_and(|connection| connection.is_outdated(&self.search)) {
            (kept.connection, kept.which) = (None, Which::NotAsked);
            self.generation.send_modify(|generation| *generation += 1);
        }
        let has_to_ask = match &kept.which {
            Which::NotAsked => true,
            Which::Hidden(again) => *again <= now() || self.pinned().is_some(),
            Which::Known(_) => false,
        };
        if let Some(connection) = kept.connection.as_ref().filter(|_| !has_to_ask) {
            return Ok(connection.cluster.clone());
        }
        if let Some((failure, until)) = &kept.failed
            && now() < *until
        {
            return Err(failure.clone());
        }
        let connected = self.connect(kept).await;
        kept.failed = connected.as_ref().err().map(|failure| (failure.clone(), now() + SAME_FAILURE));
        connected
    }

    /// Connects, if there is no connection, and asks the cluster which one it is.
    async fn connect(&self, kept: &mut Kept) -> Result<Cluster, ApiFailure> {
        let cluster = if let Some(connection) = &kept.connection {
            connection.cluster.clone()
        } else {
            let mut connection = connect(&self.search, "zedkube").await?;
            let cluster = connection.cluster.with_pace(self.pace.clone());
            connection.cluster = cluster.clone();
            kept.connection = Some(connection);
            cluster
        };
        kept.which = match cluster_uid(&cluster).await? {
            Some(uid) => Which::Known(uid),
            None => Which::Hidden(now() + WHICH_AGAIN),
        };
        Ok(cluster)
    }

    fn pinned(&self) -> Option<String> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the present connection is not used; `None` if it leads to the cluster in which zedkube drains, or if that is
    /// not known.
    fn refusal(&self, which: &Which) -> Option<String> {
        let pinned = self.pinned()?;
        (which.uid() != Some(&pinned)).then(|| refusal(&pinned, which.uid()))
    }

    /// True if the present connection is not used for the next call: its kubeconfig, or a file that it names, has changed,
    /// or its credentials have come to their end.
    pub(crate) fn is_outdated(&self) -> bool {
        let Ok(kept) = self.kept.try_lock() else { return false };
        kept.connection.as_ref().is_some_and(|connection| connection.is_outdated(&self.search))
    }

    /// The file of our token, if the present connection uses one, and the cluster that renews it.
    pub(crate) fn token_file(&self) -> Option<(Cluster, TokenFile)> {
        let kept = self.kept.try_lock().ok()?;
        let connection = kept.connection.as_ref()?;
        Some((connection.cluster.clone(), connection.token_file.clone()?))
    }

    /// The present connection to the cluster in which zedkube drains, if there is one; never connects and never waits.
    pub(crate) fn kept(&self) -> Option<(Cluster, u64)> {
        let kept = self.kept.try_lock().ok()?;
        let connection = kept.connection.as_ref().filter(|_| self.refusal(&kept.which).is_none())?;
        Some((connection.cluster.clone(), self.generation()))
    }

    /// The number of the present connection.
    pub(crate) fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    /// Waits until the connection with this number is not used any more.
    pub(crate) async fn superseded(&self, generation: u64) {
        let mut present = self.generation.subscribe();
        if present.wait_for(|present| *present != generation).await.is_err() {
            std::future::pending::<()>().await;
        }
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
        ApiFailure::Busy { .. } => CallError::Busy(text),
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

    use fake_cluster::{Effect, FakeCluster, Fault, Reply, Settings as FakeSettings};

    use super::*;

    /// A link to the cluster of `config`, and what writes another kubeconfig there.
    fn link(folder: &tempfile::TempDir) -> (Link, impl Fn(&FakeCluster)) {
        let path = folder.path().join("config");
        let mut settings = Settings::default();
        settings.cluster.kubeconfig = Some(path.clone());
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        let write = move |fake: &FakeCluster| fs::write(&path, fake.kubeconfig()).unwrap();
        (Link::new(&Root::new(folder.path()), &settings), write)
    }

    fn fake() -> FakeCluster {
        FakeCluster::start_with(FakeSettings::passive()).unwrap()
    }

    /// Keys and certificates are replaced while zedkube runs, and zedkube is not restarted for that.
    #[tokio::test]
    async fn a_kubeconfig_that_changes_is_a_new_connection() {
        let folder = tempfile::tempdir().unwrap();
        let (link, write) = link(&folder);
        let (first, second) = (fake(), fake());
        write(&first);
        let generation = async || link.cluster().await.map(|(_, generation)| generation);
        assert_eq!((generation().await, generation().await), (Ok(1), Ok(1)), "one for all");
        write(&second);
        assert_eq!(generation().await, Ok(2));
        assert!(tokio::time::timeout(Duration::ZERO, link.superseded(2)).await.is_err(), "it is in use");
        fs::remove_file(folder.path().join("config")).unwrap();
        assert!(generation().await.is_err_and(|failure| failure.is_unreachable()));
        assert!(link.kept().is_none(), "the old connection is not used any more");
        link.superseded(2).await;
    }

    #[tokio::test]
    async fn only_the_pinned_cluster_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let (link, write) = link(&folder);
        let (first, second) = (fake(), fake());
        let refused = Reply::forbidden("zedkube", "get", "namespaces", "", "kube-system");
        write(&first);
        let (_, uid) = link.any_cluster().await.unwrap();
        link.pin(uid.as_ref());
        assert!(uid.is_some() && link.cluster().await.is_ok() && link.kept().is_some());
        second.faults().add(Fault::on("get", "namespaces", Effect::Answer(refused)));
        write(&second);
        for (which, why) in [("hidden", "may not get namespaces"), ("known", "leads to another cluster")] {
            let failure = link.cluster().await.err();
            assert!(
                matches!(&failure, Some(ApiFailure::Denied { text }) if text.contains(why)),
                "{which}: {failure:?}"
            );
            assert!(link.kept().is_none(), "{which}");
        }
        let (_, other) = link.any_cluster().await.unwrap();
        assert!(other.is_some() && other != uid);
        link.pin(other.as_ref());
        assert!(link.cluster().await.is_ok() && link.kept().is_some());
        // Without the right, and without a drain that has begun in a known cluster, any cluster will do.
        link.pin(None);
        write(&first);
        assert!(link.cluster().await.is_ok());
        // Credentials that have expired are told as such.
        first.faults().add(Fault::on("get", "namespaces", Effect::Answer(Reply::text(401, "Unauthorized"))));
        write(&first);
        let failure = link.cluster().await.err();
        let text = failure.as_ref().map(ApiFailure::text).unwrap_or_default();
        assert!(text.contains("does not accept our credentials"), "{failure:?}");
    }
}
