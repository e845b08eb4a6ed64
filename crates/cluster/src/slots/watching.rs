//! Watches the slot table's ConfigMap.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{CONFIGMAPS, ConfigMap, SlotMap, check_names};
use crate::failure::ApiFailure;
use crate::store::Store;
use crate::watches::{Told, WatchError, follow, trimmed};
use crate::wire::Cluster;

/// Reports that the ConfigMap may have changed. Dropping it ends the watch.
///
/// The watch costs one list and one watch of the one ConfigMap. After a failure it goes on by itself, at most 30 s
/// after the server is back. It keeps only the ConfigMap's version, however often that changes.
#[derive(Debug)]
pub struct SlotWatch {
    changes: watch::Receiver<()>,
    failed: watch::Receiver<Option<ApiFailure>>,
    /// `None` if no ConfigMap can have this name.
    task: Option<AbortHandle>,
}

impl Drop for SlotWatch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl SlotWatch {
    /// Begins to watch. Has to be called in a tokio runtime.
    ///
    /// `is_told` is true while a refusal was logged and nothing was heard since. Whoever starts one watch after another
    /// keeps it, so that a refusal that lasts is logged once.
    pub fn start(cluster: &Cluster, map: &SlotMap, is_told: &Arc<AtomicBool>) -> Self {
        let (changes, receive) = watch::channel(());
        let (fail, failed) = watch::channel(None);
        let task = match check_names(&map.operation("watch", CONFIGMAPS, &map.name())) {
            Ok(()) => {
                let run = run(cluster.clone(), map.clone(), changes, fail, Arc::clone(is_told));
                Some(tokio::spawn(run).abort_handle())
            }
            Err(failure) => {
                tracing::warn!("{failure}");
                None
            }
        };
        Self { changes: receive, failed, task }
    }

    /// Failure of the watch, if it has not gone on since.
    pub fn last_error(&self) -> Option<ApiFailure> {
        self.failed.borrow().clone()
    }

    /// Waits for a change that was not reported before, by any client including this one; several changes are reported
    /// as one. The first list counts as a change, so that no earlier one is missed. It only means "read the ConfigMap
    /// again". Cancel-safe.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // There is no watch, or the runtime is going down.
            std::future::pending::<()>().await;
        }
    }
}

async fn run(
    cluster: Cluster,
    map: SlotMap,
    changes: watch::Sender<()>,
    failed: watch::Sender<Option<ApiFailure>>,
    is_told: Arc<AtomicBool>,
) {
    let api = |client| Api::<ConfigMap>::namespaced(client, &map.namespace);
    let only = Config::default().fields(&format!("metadata.name={}", map.name()));
    let mut events = pin!(follow(&cluster, api, only, CONFIGMAPS));
    let entry = |found: &ConfigMap| ((String::new(), found.name_any()), found.resource_version());
    let mut versions = Store::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(Told::Lives) => {
                failed.send_replace(None);
            }
            Ok(Told::Event(event)) => {
                if versions.apply(trimmed(event, entry)) {
                    is_told.store(false, Ordering::Relaxed);
                    changes.send_replace(());
                }
            }
            Err(trouble) => {
                log_failure(&trouble, &is_told);
                failed.send_replace(Some(trouble.failure));
            }
        }
    }
}

/// Logs a failure. A refusal lasts until a person changes it, so it is worth one warning.
fn log_failure(trouble: &WatchError, is_told: &AtomicBool) {
    let WatchError { failure, is_refusal } = trouble;
    if *is_refusal && !is_told.swap(true, Ordering::Relaxed) {
        tracing::warn!("the slot table cannot be watched, so a free slot is noticed late: {failure}");
    } else {
        tracing::debug!("{failure}");
    }
}

#[cfg(test)]
mod tests;
