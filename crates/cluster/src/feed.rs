//! The picture of one node, fed by watches.

mod gather;
mod refusals;
mod storage;
mod watching;

use std::sync::Arc;

use drain::Picture;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::clock::{Clock, boot_time};
use crate::failure::ApiFailure;
use crate::wire::Cluster;

use gather::{Gather, Health};

/// The picture of one node. Dropping it ends its watches.
///
/// Three watches: the Node, the pods bound to it, and all PodDisruptionBudgets; six calls until the first picture. What
/// other nodes' pods do costs nothing.
///
/// As soon as one of the pods has a claim, five more watches begin and stay, ten calls: PersistentVolumeClaims,
/// PersistentVolumes, VolumeAttachments, CSIDrivers, and all Nodes. Until each of the first three has listed once, or the
/// server has refused it for 30 s on end, no picture is shown: a pod with volumes must not look like one without. What has
/// been listed once stays known, whatever the server refuses later.
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
        Self::start_by(cluster, node, boot_time)
    }

    /// With another clock.
    pub(crate) fn start_by(cluster: &Cluster, node: &str, clock: Clock) -> Self {
        let (pictures, receive_pictures) = watch::channel(None);
        let (health, receive_health) = watch::channel(Health::default());
        let gather = Gather::new(cluster.clone(), clock, node, pictures, health);
        let task = tokio::spawn(gather.run()).abort_handle();
        Self { pictures: receive_pictures, health: receive_health, task }
    }

    /// Waits for a picture that was not returned before. Pictures in between are skipped; nothing comes until all
    /// watches have listed once. May be dropped and called again at any time.
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
    /// ask the server ([`crate::get_node`]) to know. Refusals that the picture itself tells of, or does without
    /// (VolumeAttachments, CSIDrivers, other Nodes), are only in the log.
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
    /// Waits until it is clear that there will be no picture: the server does not let us watch the node, its pods or the
    /// budgets, and that has lasted for [`drain::policy::REFUSAL_LASTS`]. Ask only while there is no picture: from then on
    /// it is answered at once, again and again. May be dropped and called again at any time.
    pub async fn refused(&mut self) -> ApiFailure {
        let refused = self.0.wait_for(|health| !health.refused.is_empty()).await;
        match refused.ok().and_then(|health| health.refused.values().next().cloned()) {
            Some(refusal) => refusal,
            // The runtime is going down.
            None => std::future::pending().await,
        }
    }

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

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
