//! The picture of one node, fed by watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drain::view::NodeView;
use drain::{BudgetView, Moment, Picture};
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::clock::boot_time;
use crate::daemon_sets::DaemonSetRef;
use crate::failure::{ApiFailure, classify};
use crate::objects::{Budget, Node, Pod};
use crate::operation::{Operation, is_name};
use crate::shelf::{Key, Shelf};
use crate::views::{NodeFacts, PodFacts, budget_view};
use crate::wire::Cluster;

/// How often questions about DaemonSets that could not be answered are looked through.
const OWNERS: Duration = Duration::from_secs(10);

/// Changes that are taken in before a picture is made of them, at most.
const AT_ONCE: usize = 1_000;

/// The picture of one node. Dropping it ends its watches.
///
/// Three watches: the Node, the pods bound to it, and all PodDisruptionBudgets; six calls until the first picture. What
/// other nodes' pods do costs nothing.
#[derive(Debug)]
pub struct Feed {
    pictures: watch::Receiver<Option<Arc<Picture>>>,
    health: watch::Receiver<Health>,
    task: AbortHandle,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Feed {
    /// Begins to watch. Must be called in a tokio runtime.
    pub fn start(cluster: &Cluster, node: &str) -> Self {
        let (pictures, receive_pictures) = watch::channel(None);
        let (health, receive_health) = watch::channel(Health::default());
        let gather = Gather {
            cluster: cluster.clone(),
            node: Shelf::default(),
            pods: Shelf::default(),
            budgets: Shelf::default(),
            asking: BTreeSet::new(),
            questions: JoinSet::new(),
            pictures,
            health,
        };
        let task = tokio::spawn(gather.run(updates(cluster, node))).abort_handle();
        Self { pictures: receive_pictures, health: receive_health, task }
    }

    /// Waits for a picture that was not returned before. Pictures in between are skipped; nothing comes until all
    /// three watches have listed once. May be dropped and called again at any time.
    pub async fn changed(&mut self) -> Arc<Picture> {
        loop {
            if self.pictures.changed().await.is_err() {
                // The task has ended, so the runtime is going down.
                return std::future::pending().await;
            }
            if let Some(picture) = self.pictures.borrow_and_update().clone() {
                return picture;
            }
        }
    }

    /// The last picture, if there is one yet.
    pub fn latest(&self) -> Option<Arc<Picture>> {
        self.pictures.borrow().clone()
    }

    /// The failure of a watch from which nothing was heard since: the picture may be old.
    ///
    /// A watch that goes on after a break says nothing until something changes, so a failure shown here may be over;
    /// ask the server ([`crate::get_node`]) to know.
    pub fn last_error(&self) -> Option<ApiFailure> {
        self.health.borrow().failing.values().next().cloned()
    }

    /// The failures of the watches from now on.
    pub fn failures(&self) -> Failures {
        Failures(self.health.clone())
    }
}

/// Failures of a [`Feed`]'s watches, to be waited for.
#[derive(Clone, Debug)]
pub struct Failures(watch::Receiver<Health>);

impl Failures {
    /// Waits for the next failure of a watch. May be dropped and called again at any time.
    pub async fn next(&mut self) -> ApiFailure {
        loop {
            if self.0.changed().await.is_err() {
                return std::future::pending().await;
            }
            if let Some(failure) = self.0.borrow_and_update().last.clone() {
                return failure;
            }
        }
    }
}

/// How the watches are.
#[derive(Clone, Debug, Default)]
struct Health {
    /// The last failure of any.
    last: Option<ApiFailure>,
    /// The last failure of each that was not heard from since, by resource.
    failing: BTreeMap<&'static str, ApiFailure>,
}

/// What one of the three watches says.
struct Update {
    resource: &'static str,
    says: Result<Says, ApiFailure>,
}

enum Says {
    Node(Event<(Key, NodeView)>),
    Pods(Event<(Key, PodFacts)>),
    Budgets(Event<(Key, BudgetView)>),
}

impl Says {
    /// Something came from the server. "A list begins" is said before the server is asked.
    fn is_sign_of_life(&self) -> bool {
        !matches!(self, Self::Node(Event::Init) | Self::Pods(Event::Init) | Self::Budgets(Event::Init))
    }
}

type Updates = SelectAll<BoxStream<'static, Update>>;

fn updates(cluster: &Cluster, node: &str) -> Updates {
    // A name that no Node can have selects nothing.
    let node = if is_name(node) { node } else { "-" };
    let client = || cluster.client().clone();
    let mut all = SelectAll::new();
    let config = Config::default().fields(&format!("metadata.name={node}"));
    let trim = |node: &Node| NodeFacts::of(node).view;
    all.push(watch(Api::<Node>::all(client()), config, "nodes", trim, Says::Node));
    let config = Config::default().fields(&format!("spec.nodeName={node}"));
    all.push(watch(Api::<Pod>::all(client()), config, "pods", PodFacts::of, Says::Pods));
    let config = Config::default();
    let api = Api::<Budget>::all(client());
    all.push(watch(api, config, "poddisruptionbudgets", budget_view, Says::Budgets));
    all
}

/// One watch: a list, then changes, for ever; after a failure it goes on by itself.
fn watch<K, V>(
    api: Api<K>,
    config: Config,
    resource: &'static str,
    trim: impl Fn(&K) -> V + Send + 'static,
    says: impl Fn(Event<(Key, V)>) -> Says + Send + 'static,
) -> BoxStream<'static, Update>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    V: 'static,
{
    let entry = move |object: &K| ((object.namespace().unwrap_or_default(), object.name_any()), trim(object));
    watcher(api, config)
        .backoff(Pauses::default())
        .map(move |event| {
            let says = event.map(|event| says(trimmed(event, &entry)));
            Update { resource, says: says.map_err(|error| failure(resource, &error)) }
        })
        .boxed()
}

fn trimmed<K, V>(event: Event<K>, entry: impl Fn(&K) -> (Key, V)) -> Event<(Key, V)> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(entry(&object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(entry(&object)),
        Event::Delete(object) => Event::Delete(entry(&object)),
    }
}

fn failure(resource: &'static str, error: &watcher::Error) -> ApiFailure {
    let operation = |verb| Operation::on_cluster(verb, resource, "");
    match error {
        watcher::Error::InitialListFailed(error) => classify(&operation("list"), error),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            classify(&operation("watch"), error)
        }
        watcher::Error::WatchError(status) => {
            classify(&operation("watch"), &kube::Error::Api(status.clone()))
        }
        watcher::Error::NoResourceVersion => {
            ApiFailure::other(format!("cannot watch {resource}: the server sent no resourceVersion"))
        }
    }
}

/// Makes pictures out of updates.
struct Gather {
    cluster: Cluster,
    node: Shelf<NodeView>,
    pods: Shelf<PodFacts>,
    budgets: Shelf<BudgetView>,
    /// DaemonSets that are being asked for, by UID.
    asking: BTreeSet<String>,
    questions: JoinSet<String>,
    pictures: watch::Sender<Option<Arc<Picture>>>,
    health: watch::Sender<Health>,
}

impl Gather {
    async fn run(mut self, mut updates: impl Stream<Item = Update> + Unpin) {
        let mut owners = tokio::time::interval(OWNERS);
        loop {
            let changed = tokio::select! {
                Some(update) = updates.next() => self.apply_all(update, &mut updates),
                Some(answered) = self.questions.join_next() => {
                    self.asking.remove(&answered.unwrap_or_default());
                    true
                }
                _ = owners.tick() => false,
            };
            self.ask_for_owners();
            if changed {
                self.publish();
            }
        }
    }

    /// Takes in this update and all that are there already, so that a burst becomes one picture.
    fn apply_all(&mut self, first: Update, updates: &mut (impl Stream<Item = Update> + Unpin)) -> bool {
        let mut changed = self.apply(first);
        for _ in 0..AT_ONCE {
            let Some(Some(update)) = updates.next().now_or_never() else {
                break;
            };
            changed |= self.apply(update);
        }
        changed
    }

    fn apply(&mut self, update: Update) -> bool {
        let says = match update.says {
            Ok(says) => says,
            Err(failure) => {
                self.note_failure(update.resource, failure);
                return false;
            }
        };
        if says.is_sign_of_life() {
            // Nobody waits for this.
            self.health.send_if_modified(|health| {
                health.failing.remove(update.resource);
                false
            });
        }
        match says {
            Says::Node(event) => self.node.apply(event),
            Says::Pods(event) => self.pods.apply(event),
            Says::Budgets(event) => self.budgets.apply(event),
        }
    }

    fn note_failure(&self, resource: &'static str, failure: ApiFailure) {
        tracing::debug!("{failure}");
        self.health.send_modify(|health| {
            health.last = Some(failure.clone());
            health.failing.insert(resource, failure);
        });
    }

    fn ask_for_owners(&mut self) {
        let owners = self.pods.objects().filter_map(|pod| DaemonSetRef::of(pod.view()));
        for owner in owners {
            if self.cluster.daemon_sets().is_due(&owner) && self.asking.insert(owner.uid.clone()) {
                let cluster = self.cluster.clone();
                self.questions.spawn(async move {
                    let uid = owner.uid.clone();
                    cluster.look_up(owner).await;
                    uid
                });
            }
        }
    }

    /// The first picture waits for what is being asked: a pod must not look like one that stays until it is known.
    fn publish(&self) {
        let synced = self.node.is_synced() && self.pods.is_synced() && self.budgets.is_synced();
        let first = self.pictures.borrow().is_none();
        if !synced || (first && !self.questions.is_empty()) {
            return;
        }
        self.pictures.send_replace(Some(Arc::new(self.picture())));
    }

    fn picture(&self) -> Picture {
        let now = self.cluster.server_time();
        let mut pods: Vec<_> = self.pods.objects().map(|pod| pod.at(now)).collect();
        for pod in &mut pods {
            self.cluster.daemon_sets().fill_in(pod);
        }
        Picture {
            node: self.node.objects().next().cloned(),
            pods,
            budgets: self.budgets.objects().cloned().collect(),
            ..Picture::default()
        }
    }
}

/// Pauses after failures in a row: 0.25 s, doubling up to 3 s, so that a watch is back 3 s after the server.
///
/// kube-runtime resets a backoff at every sign that is not a failure, and "a list begins" is one; so this one takes
/// only time for an answer.
#[derive(Debug, Default)]
struct Pauses {
    next: Duration,
    last: Moment,
}

impl Pauses {
    const SHORTEST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(3);
    const FORGOTTEN: Duration = Duration::from_secs(30);
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = boot_time();
        if now.since(self.last) >= Self::FORGOTTEN {
            self.next = Self::SHORTEST;
        }
        self.last = now;
        let pause = self.next;
        self.next = self.next.saturating_mul(2).min(Self::LONGEST);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
