//! Watches of all objects of a resource, which the drains of one command share: however many nodes are drained, each
//! resource is listed and watched once, and its objects are kept once.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

use drain::BudgetView;
use drain::policy::REFUSAL_TIMES;
use drain::storage::AttachmentView;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use kube::runtime::watcher::Event;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::watching::{Source, Update, WatchEvent};
use crate::store::{Key, Store};
use crate::watches::{Told, WatchError};

/// What one watch tells, with trimmed objects.
pub(super) type WatchResult<V> = Result<Told<(Key, V)>, WatchError>;

/// The watches that drains share, all on one cluster. Each begins with its first user and ends with its last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedWatches(pub(super) Arc<Watches>);

/// One entry for each shared watch.
#[derive(Debug, Default)]
pub(super) struct Watches {
    pub(super) budgets: Entry<BudgetView>,
    pub(super) attachments: Entry<AttachmentView>,
    pub(super) peers: Entry<bool>,
}

/// A shared watch, if it has a user.
#[derive(Debug)]
pub(super) struct Entry<V>(Mutex<Weak<SharedWatch<V>>>);

impl<V> Default for Entry<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: PartialEq + Send + Sync + 'static> Entry<V> {
    /// The watch that runs, or a new one. Has to be called in a tokio runtime.
    pub(super) fn join<S>(&self, follow: impl FnOnce() -> S) -> Arc<SharedWatch<V>>
    where
        S: Stream<Item = WatchResult<V>> + Send + 'static,
    {
        let mut entry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = entry.upgrade().filter(|running| !running.is_late()) {
            return running;
        }
        let new = Arc::new(SharedWatch::begin(follow()));
        *entry = Arc::downgrade(&new);
        new
    }
}

/// A watch that several informers use. Dropping the last reference ends it.
#[derive(Debug)]
pub(super) struct SharedWatch<V> {
    content: Arc<Content<V>>,
    task: AbortHandle,
}

impl<V> Drop for SharedWatch<V> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a shared watch has shown.
#[derive(Debug)]
struct Content<V> {
    store: RwLock<Store<V>>,
    condition: watch::Sender<Condition>,
}

/// The condition of a shared watch. Each user compares it with the one that it has seen before.
#[derive(Clone, Debug, Default)]
struct Condition {
    /// Number of changes of the objects; the first whole list is the first one.
    changes: u64,
    /// How many times failures were over.
    recoveries: u64,
    /// Failures since then, with the last one.
    failures: u32,
    failure: Option<WatchError>,
}

impl<V: PartialEq + Send + Sync + 'static> SharedWatch<V> {
    pub(super) fn begin(results: impl Stream<Item = WatchResult<V>> + Send + 'static) -> Self {
        let (store, condition) = (RwLock::default(), watch::Sender::default());
        let content = Arc::new(Content { store, condition });
        let shown = Arc::clone(&content);
        let following = async move {
            let mut results = pin!(results);
            while let Some(told) = results.next().await {
                shown.see(told);
            }
        };
        Self { content, task: tokio::spawn(following).abort_handle() }
    }

    /// The objects, locked: whoever holds this must not lock the same watch again.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Store<V>> {
        self.content.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows an event, for tests, which tell the users themselves. True if the objects change.
    #[cfg(test)]
    pub(super) fn show(&self, event: Event<(Key, V)>) -> bool {
        self.content.store.write().unwrap_or_else(PoisonError::into_inner).apply(event)
    }

    /// True if its objects may be out of date: a list of its own shows a new user more.
    fn is_late(&self) -> bool {
        self.read().is_synced() && self.content.condition.borrow().failure.is_some()
    }

    /// The updates for one more user: first what a watch of its own would have told until now.
    pub(super) fn updates(&self, source: Source) -> BoxStream<'static, Update> {
        let mut conditions = self.content.condition.subscribe();
        conditions.mark_changed();
        let next = move |(mut conditions, seen): (watch::Receiver<Condition>, Condition)| async move {
            conditions.changed().await.ok()?;
            let present = conditions.borrow_and_update().clone();
            Some((stream::iter(present.since(&seen, source)), (conditions, present)))
        };
        let updates = stream::unfold((conditions, Condition::default()), next);
        updates.flatten().boxed()
    }
}

impl<V: PartialEq> Content<V> {
    fn see(&self, told: WatchResult<V>) {
        let (is_sign_of_life, has_changed) = match told {
            Ok(Told::Lives) => (true, false),
            Ok(Told::Event(event)) => {
                let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
                (!matches!(event, Event::Init), store.apply(event))
            }
            Err(failure) => {
                self.condition.send_modify(|condition| {
                    condition.failures = condition.failures.saturating_add(1);
                    condition.failure = Some(failure);
                });
                return;
            }
        };
        self.condition.send_if_modified(|condition| {
            let is_recovered = is_sign_of_life && condition.failure.take().is_some();
            if is_recovered {
                (condition.recoveries, condition.failures) = (condition.recoveries + 1, 0);
            }
            condition.changes += u64::from(has_changed);
            is_recovered || has_changed
        });
    }
}

impl Condition {
    /// What has happened since this earlier condition.
    fn since(&self, before: &Self, source: Source) -> Vec<Update> {
        let has_changed = self.changes != before.changes;
        let is_recovered = self.recoveries != before.recoveries;
        let told = if is_recovered { 0 } else { before.failures };
        let mut updates = Vec::new();
        if has_changed || is_recovered {
            let change = Ok(has_changed.then_some(WatchEvent::Shared));
            updates.push(Update { source, is_sign_of_life: true, change });
        }
        // A refusal counts after so many; more have no meaning.
        let new = self.failures.saturating_sub(told).min(REFUSAL_TIMES);
        for failure in self.failure.iter().cycle().take(usize::try_from(new).unwrap_or_default()) {
            updates.push(Update { source, is_sign_of_life: false, change: Err(failure.clone()) });
        }
        updates
    }
}

#[cfg(test)]
mod tests;
