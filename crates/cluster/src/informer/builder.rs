//! Builds snapshots from the updates of the watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drain::storage::Storage;
use drain::{BudgetView, PodView, Snapshot};
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::refusals::Refusals;
use super::shared::{SharedWatch, SharedWatches};
use super::storage::StorageStores;
use super::watching::{Source, Update, Updates, WatchEvent, of_node};
use crate::clock::Clock;
use crate::daemon_sets::DaemonSetRef;
use crate::failure::ApiFailure;
use crate::node_facts::NodeFacts;
use crate::relist::volumes;
use crate::store::Store;
use crate::views::PodFacts;
use crate::watches::WatchError;
use crate::wire::Cluster;

/// Interval of checks for unanswered questions about DaemonSets, and for lasting refusals.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Most updates that are applied before a snapshot is made of them.
const AT_ONCE: usize = 1_000;

/// The health of the watches.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    /// The last failure of any watch.
    pub(super) last: Option<ApiFailure>,
    /// The last failure of each watch from which nothing has come since.
    pub(super) failing: BTreeMap<Source, ApiFailure>,
    /// Lasting refusals of watches that every drain needs.
    pub(super) refused: BTreeMap<Source, ApiFailure>,
}

/// Objects that the watches have shown, and the receivers of snapshots.
pub(super) struct SnapshotBuilder {
    cluster: Cluster,
    shared: SharedWatches,
    clock: Clock,
    name: String,
    refusals: Refusals,
    node: Store<NodeFacts>,
    pods: Store<PodFacts>,
    budgets: Arc<SharedWatch<BudgetView>>,
    /// Set as soon as a pod has had a claim.
    storage: Option<StorageStores>,
    /// True if the node, a pod or the owner of one has changed since the last snapshot.
    has_changed: bool,
    /// DaemonSets that are being asked for, by UID.
    asking: BTreeSet<String>,
    questions: JoinSet<String>,
    /// The read of claims and volumes by name that is in flight.
    reads: JoinSet<Result<Storage, ApiFailure>>,
    snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    health: watch::Sender<Health>,
}

impl SnapshotBuilder {
    pub(super) fn new(
        (cluster, shared): (Cluster, SharedWatches),
        clock: Clock,
        node: &str,
        snapshots: watch::Sender<Option<Arc<Snapshot>>>,
        health: watch::Sender<Health>,
    ) -> Self {
        Self {
            budgets: shared.budgets(&cluster),
            cluster,
            shared,
            clock,
            name: node.to_owned(),
            refusals: Refusals::default(),
            node: Store::default(),
            pods: Store::default(),
            storage: None,
            has_changed: false,
            asking: BTreeSet::new(),
            questions: JoinSet::new(),
            reads: JoinSet::new(),
            snapshots,
            health,
        }
    }

    pub(super) async fn run(mut self) {
        let mut updates = of_node(&self.cluster, &self.name);
        updates.push(self.budgets.updates(Source::Budgets));
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        loop {
            let changed = tokio::select! {
                Some(update) = updates.next() => self.apply_all(update, &mut updates),
                Some(answered) = self.questions.join_next() => {
                    self.asking.remove(&answered.unwrap_or_default());
                    self.has_changed = true;
                    true
                }
                Some(Ok(read)) = self.reads.join_next() => self.learn(read),
                _ = checks.tick() => self.count_refusals(),
            };
            self.ask_for_owners();
            self.ask_for_storage(&mut updates);
            if changed {
                self.publish();
            }
        }
    }

    /// Applies this update and all that have already come, so that a burst of updates becomes one snapshot.
    fn apply_all(&mut self, first: Update, updates: &mut Updates) -> bool {
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
        let Update { source, is_sign_of_life, change } = update;
        let change = match change {
            Ok(change) => change,
            Err(watch_error) => return self.note(source, watch_error),
        };
        if is_sign_of_life {
            self.note_answer(source);
        }
        let Some(change) = change else { return false };
        let changed = match change {
            WatchEvent::Node(event) => self.node.apply(event),
            WatchEvent::Pods(event) => self.pods.apply(event),
            WatchEvent::Shared => {
                if let Some(storage) = &mut self.storage {
                    storage.note_change(source);
                }
                return true;
            }
        };
        self.has_changed |= changed;
        changed
    }

    /// Ends the failures of this source.
    fn note_answer(&mut self, source: Source) {
        self.refusals.clear(source);
        // No receiver waits for this change.
        self.health.send_if_modified(|health| {
            health.failing.remove(&source);
            health.refused.remove(&source);
            false
        });
    }

    /// Takes over what was read by name. True if it may change the snapshot.
    fn learn(&mut self, read: Result<Storage, ApiFailure>) -> bool {
        let Some(storage) = &mut self.storage else { return false };
        let now = (self.clock)();
        let (failure, is_refusal) = match read {
            Ok(Storage { claims_unreadable: Some(text), .. }) => (ApiFailure::Denied { text }, true),
            Ok(read) => {
                storage.learn(read, now);
                self.note_answer(Source::Claims);
                return true;
            }
            Err(failure) => (failure, false),
        };
        storage.note_failure();
        self.note(Source::Claims, WatchError { failure, is_refusal })
    }

    /// Notes a failure of a watch. True if it changes the snapshot.
    fn note(&mut self, source: Source, watch_error: WatchError) -> bool {
        let WatchError { failure, is_refusal } = watch_error;
        tracing::debug!("{failure}");
        if is_refusal {
            self.refusals.note(source, &failure, (self.clock)());
        } else {
            self.refusals.clear(source);
        }
        // The snapshot does not wait for it: unknown is the safe assumption, and a later list counts at once.
        let is_optional = is_refusal && source == Source::Peers;
        let storage = self.storage.as_mut().filter(|_| is_optional);
        let mut changed = storage.is_some_and(|storage| storage.refuse(source, &failure));
        changed |= self.count_refusals();
        if is_optional || (is_refusal && source == Source::Attachments) {
            return changed;
        }
        self.health.send_modify(|health| {
            health.last = Some(failure.clone());
            health.failing.insert(source, failure);
        });
        changed
    }

    /// Notes refusals that have lasted long enough. True if they change the snapshot.
    fn count_refusals(&mut self) -> bool {
        let mut changed = false;
        for (source, failure) in self.refusals.due((self.clock)()) {
            tracing::warn!("{failure}");
            let storage = self.storage.as_mut();
            changed |= storage.is_some_and(|storage| storage.refuse(source, &failure));
            if matches!(source, Source::Node | Source::Pods | Source::Budgets) {
                self.health.send_modify(|health| {
                    health.refused.insert(source, failure);
                });
            }
        }
        changed
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

    /// Starts the watches of storage with the first claim, and reads by name what is not known of the pods' claims.
    fn ask_for_storage(&mut self, updates: &mut Updates) {
        let with_claims = || self.pods.objects().map(PodFacts::view).filter(|pod| !pod.claims.is_empty());
        if self.storage.is_none() && with_claims().next().is_some() {
            let storage = StorageStores::begin(&self.name, &self.shared, &self.cluster);
            updates.extend(storage.updates());
            self.storage = Some(storage);
        }
        let Some(storage) = self.storage.as_ref().filter(|_| self.reads.is_empty()) else { return };
        if let Some((known, pause)) = storage.to_read(with_claims(), (self.clock)()) {
            let (cluster, pods) = (self.cluster.clone(), with_claims().cloned().collect::<Vec<PodView>>());
            self.reads.spawn(async move {
                tokio::time::sleep(pause).await;
                volumes::of_pods(&cluster, &pods, &known).await
            });
        }
    }

    /// Publishes a snapshot, if one can be made. The first one waits for the answers about DaemonSets, because until
    /// then a pod must not look like one that stays. Once a pod has a claim, each snapshot waits until the volumes are
    /// known.
    fn publish(&mut self) {
        let synced = self.node.is_synced() && self.pods.is_synced() && self.budgets.read().is_synced();
        let is_settled = self.storage.as_ref().is_none_or(StorageStores::is_settled);
        let is_first = self.snapshots.borrow().is_none();
        if !synced || !is_settled || (is_first && !self.questions.is_empty()) {
            return;
        }
        let snapshot = self.snapshot();
        let is_news = |last: &Option<Arc<Snapshot>>| {
            last.as_ref()
                .is_none_or(|last| last.storage != snapshot.storage || last.budgets != snapshot.budgets)
        };
        // Claims and attachments of other nodes change all the time and make no new snapshot.
        if self.has_changed || is_news(&self.snapshots.borrow()) {
            self.has_changed = false;
            self.snapshots.send_replace(Some(Arc::new(snapshot)));
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let now = self.cluster.server_time();
        let mut pods: Vec<_> = self.pods.objects().map(|pod| pod.at(now)).collect();
        for pod in &mut pods {
            self.cluster.daemon_sets().fill_in(pod);
        }
        Snapshot {
            node: self.node.objects().next().map(|node| node.at(now)),
            budgets: self.budgets.read().objects().cloned().collect(),
            storage: self.storage.as_mut().map(|storage| storage.view(&pods)).unwrap_or_default(),
            pods,
        }
    }
}

#[cfg(test)]
mod tests;
