//! Watches the slot table's ConfigMap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Api;

use super::{CONFIGMAPS, ConfigMap, SlotMap, Slots, check_names, slots_of};
use crate::failure::ApiFailure;
use crate::object_watch::ObjectWatch;
use crate::watches::WatchError;
use crate::wire::Cluster;

/// Shows the slot table as it changes. Dropping it ends the watch.
///
/// The watch costs one list and one watch of the one ConfigMap. After a failure it goes on by itself, at most 30 s
/// after the server is back.
#[derive(Debug)]
pub struct SlotWatch {
    /// `None` if no ConfigMap can have this name.
    watch: Option<ObjectWatch<Result<Slots, ApiFailure>>>,
}

impl SlotWatch {
    /// Begins to watch. Has to be called in a tokio runtime.
    ///
    /// `is_told` is true while a refusal was logged and nothing was heard since. Whoever starts one watch after another
    /// keeps it, so that a refusal that lasts is logged once.
    pub fn start(cluster: &Cluster, map: &SlotMap, is_told: &Arc<AtomicBool>) -> Self {
        let name = map.name();
        if let Err(failure) = check_names(&map.operation("watch", CONFIGMAPS, &name)) {
            tracing::warn!("{failure}");
            return Self { watch: None };
        }
        let (of, is_told) = (map.clone(), Arc::clone(is_told));
        let trim =
            move |found: &ConfigMap| slots_of(&of.operation("watch", CONFIGMAPS, &of.name()), found.clone());
        let note = move |trouble: Option<&WatchError>| match trouble {
            Some(trouble) => log_failure(trouble, &is_told),
            None => is_told.store(false, Ordering::Relaxed),
        };
        let namespace = map.namespace.clone();
        let api = move |client| Api::namespaced(client, &namespace);
        Self { watch: Some(ObjectWatch::start(cluster, (api, CONFIGMAPS, &name), trim, note)) }
    }

    /// Failure of the watch, if nothing has come from the server since.
    pub fn last_error(&self) -> Option<ApiFailure> {
        self.watch.as_ref()?.last_error()
    }

    /// Waits until the table was changed, by any client including this one, the watch has failed, or goes on after a
    /// failure; several changes are told as one. The first list counts as a change. Cancel-safe.
    ///
    /// # Returns
    /// The table as it is now; without a ConfigMap there are no holders.
    ///
    /// # Errors
    /// The watch has failed: the table may change unseen until the next call returns.
    pub async fn changed(&mut self) -> Result<Slots, ApiFailure> {
        match &mut self.watch {
            Some(watch) => watch.changed().await?.unwrap_or_else(|| Ok(Slots::default())),
            None => std::future::pending().await,
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
