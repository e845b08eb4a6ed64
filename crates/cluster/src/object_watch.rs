//! Watches one object.

use std::pin::pin;

use futures::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::failure::ApiFailure;
use crate::store::Store;
use crate::watches::{Told, WatchError, follow, trimmed};
use crate::wire::Cluster;

/// Watches one object, trimmed, by its name. Dropping it ends the watch.
///
/// It costs one list and one watch of the one object. After a failure it goes on by itself, at most 30 s after the server
/// is back.
#[derive(Debug)]
pub(crate) struct ObjectWatch<V> {
    seen: watch::Receiver<Seen<V>>,
    task: AbortHandle,
}

/// What the watch shows.
#[derive(Debug)]
struct Seen<V> {
    object: Option<V>,
    /// The last failure, if nothing has come from the server since.
    failure: Option<ApiFailure>,
}

impl<V> Drop for ObjectWatch<V> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<V: Clone + PartialEq + Send + Sync + 'static> ObjectWatch<V> {
    /// Begins to watch; `resource` is the plural name, and `note` is called with each failure, and with each sign of life
    /// of the server. Has to be called in a tokio runtime.
    pub(crate) fn start<K, A>(
        cluster: &Cluster,
        (api, resource, name): (A, &'static str, &str),
        trim: impl Fn(&K) -> V + Send + Sync + 'static,
        note: impl Fn(Option<&WatchError>) + Send + 'static,
    ) -> Self
    where
        A: FnOnce(kube::Client) -> Api<K> + 'static,
        K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let (tell, seen) = watch::channel(Seen { object: None, failure: None });
        let only = Config::default().fields(&format!("metadata.name={name}"));
        let events = follow(cluster, api, only, resource);
        let task = tokio::spawn(async move {
            let mut events = pin!(events);
            let entry = |object: &K| ((String::new(), object.name_any()), trim(object));
            let mut store = Store::default();
            while let Some(told) = events.next().await {
                let has_changed = match told {
                    Ok(Told::Lives) => false,
                    // This one comes before the server is asked.
                    Ok(Told::Event(Event::Init)) => {
                        store.apply(trimmed(Event::Init, entry));
                        continue;
                    }
                    Ok(Told::Event(event)) => store.apply(trimmed(event, entry)),
                    Err(trouble) => {
                        note(Some(&trouble));
                        tell.send_modify(|seen| seen.failure = Some(trouble.failure));
                        continue;
                    }
                };
                note(None);
                tell.send_if_modified(|seen| {
                    let is_over = seen.failure.take().is_some();
                    if has_changed {
                        seen.object = store.objects().next().cloned();
                    }
                    has_changed || is_over
                });
            }
        });
        Self { seen, task: task.abort_handle() }
    }

    /// Waits until the object has changed, the watch has failed, or goes on after a failure; several changes are told as
    /// one. Cancel-safe.
    ///
    /// # Returns
    /// The object as it is now; `None` if there is none of this name.
    ///
    /// # Errors
    /// The watch has failed: the object may change unseen until the next call returns.
    pub(crate) async fn changed(&mut self) -> Result<Option<V>, ApiFailure> {
        if self.seen.changed().await.is_err() {
            // The runtime is going down.
            std::future::pending::<()>().await;
        }
        let seen = self.seen.borrow_and_update();
        seen.failure.clone().map_or_else(|| Ok(seen.object.clone()), Err)
    }

    /// The last failure, if nothing has come from the server since.
    pub(crate) fn last_error(&self) -> Option<ApiFailure> {
        self.seen.borrow().failure.clone()
    }
}

#[cfg(test)]
mod tests;
