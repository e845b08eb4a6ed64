//! The watch of the ConfigMap.

use std::pin::pin;

use futures::StreamExt;
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{CONFIGMAPS, ConfigMap, SlotMap, check_names};
use crate::shelf::Shelf;
use crate::watches::{Trouble, follow, trimmed};
use crate::wire::Cluster;

/// Says when the ConfigMap may be another one than before. Dropping it ends the watch.
///
/// One list and one watch of the one ConfigMap. After a failure it goes on by itself, at most 30 s after the server.
/// It keeps nothing but the ConfigMap's version, however often it changes.
#[derive(Debug)]
pub struct SlotWatch {
    changes: watch::Receiver<()>,
    /// `None`: there can be no such ConfigMap.
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
    /// Begins to watch. Must be called in a tokio runtime.
    pub fn start(cluster: &Cluster, map: &SlotMap) -> Self {
        let (changes, receive) = watch::channel(());
        let task = match check_names(&map.operation("watch", CONFIGMAPS, &map.name())) {
            Ok(()) => Some(tokio::spawn(run(cluster.clone(), map.clone(), changes)).abort_handle()),
            Err(failure) => {
                tracing::warn!("{failure}");
                None
            }
        };
        Self { changes: receive, task }
    }

    /// Waits for a change that was not told before, made, replaced or deleted by anybody, also by ourselves; several
    /// are told as one. The first list counts as one, so that nothing before it is missed. Only says "look again".
    /// May be dropped and called again at any time.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // Nothing is watched, or the runtime is going down.
            std::future::pending::<()>().await;
        }
    }
}

async fn run(cluster: Cluster, map: SlotMap, changes: watch::Sender<()>) {
    let api = Api::<ConfigMap>::namespaced(cluster.client().clone(), &map.namespace);
    let only = Config::default().fields(&format!("metadata.name={}", map.name()));
    let mut events = pin!(follow(api, only, CONFIGMAPS, cluster.wish().clone()));
    let entry = |found: &ConfigMap| ((String::new(), found.name_any()), found.resource_version());
    let mut versions = Shelf::default();
    let mut is_told = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if versions.apply(trimmed(event, entry)) {
                    changes.send_replace(());
                }
            }
            Err(trouble) => tell(&trouble, &mut is_told),
        }
    }
}

/// A refusal stands until a person changes it, so it is worth a warning, once.
fn tell(trouble: &Trouble, is_told: &mut bool) {
    let Trouble { failure, is_refusal } = trouble;
    if *is_refusal && !std::mem::replace(is_told, true) {
        tracing::warn!("free slots are noticed late: {failure}");
    } else {
        tracing::debug!("{failure}");
    }
}

#[cfg(test)]
#[path = "watching_tests.rs"]
mod tests;
