//! The snapshot of one node, kept up to date by watches.

mod builder;
mod refusals;
mod shared;
mod storage;
mod watching;

use std::sync::Arc;

use drain::Snapshot;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::clock::{Clock, boot_time};
use crate::failure::ApiFailure;
use crate::wire::Cluster;

use builder::{Health, SnapshotBuilder};

pub(crate) use shared::SharedWatches;

/// The snapshot of one node. Dropping it ends its watches.
///
/// An informer has three watches: the Node, the pods bound to it, and all PodDisruptionBudgets; six calls until the
/// first snapshot. Changes of pods on other nodes cost nothing.
///
/// As soon as one of the pods has a claim, two more watches begin and stay, four calls: VolumeAttachments and all Nodes;
/// and each claim of the pods, its volume and the volume's CSI driver are read once, by name. No snapshot is published
/// until the claims are read and the attachments listed, or refused by the server for 30 s without a break, because a pod
/// with volumes must not look like one without. What is known once stays known, whatever the server refuses later.
///
/// The informers of one [`crate::Drainer`] share all watches but those of the Node and its pods.
#[derive(Debug)]
pub struct Informer {
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    health: watch::Receiver<Health>,
    task: AbortHandle,
}

impl Drop for Informer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Informer {
    /// Begins to watch. Has to be called in a tokio runtime.
    pub fn start(cluster: &Cluster, node: &str) -> Self {
        Self::sharing(&SharedWatches::default(), cluster, node, boot_time)
    }

    /// Shares watches with other informers of this cluster, and uses this clock.
    pub(crate) fn sharing(shared: &SharedWatches, cluster: &Cluster, node: &str, clock: Clock) -> Self {
        let (snapshots, receive_snapshots) = watch::channel(None);
        let (health, receive_health) = watch::channel(Health::default());
        let builder = SnapshotBuilder::new((cluster.clone(), shared.clone()), clock, node, snapshots, health);
        let task = tokio::spawn(builder.run()).abort_handle();
        Self { snapshots: receive_snapshots, health: receive_health, task }
    }

    /// Waits for a snapshot that was not returned before. Older ones are skipped; the first one comes when all watches
    /// have listed once. Cancel-safe.
    pub async fn changed(&mut self) -> Arc<Snapshot> {
        loop {
            if self.snapshots.changed().await.is_err() {
                // The task has ended, so the runtime is going down.
                return std::future::pending().await;
            }
            if let Some(snapshot) = self.snapshots.borrow_and_update().clone() {
                return snapshot;
            }
        }
    }

    /// The newest snapshot, if there is one yet.
    pub fn latest(&self) -> Option<Arc<Snapshot>> {
        self.snapshots.borrow().clone()
    }

    /// Failure of a watch, if no event has come from that watch since: the snapshot may be out of date.
    ///
    /// A watch that is answered again counts as working after a second, so this failure may just be over; to be sure, ask the
    /// server ([`crate::get_node`]). Some refusals are only in the log: those that the snapshot itself contains, and
    /// those that it does not need (VolumeAttachments, CSIDrivers, other Nodes).
    pub fn last_error(&self) -> Option<ApiFailure> {
        self.health.borrow().failing.values().next().cloned()
    }

    /// The failures of the watches from now on.
    pub fn failures(&self) -> Failures {
        Failures(self.health.clone())
    }
}

/// Failures of an [`Informer`]'s watches, to wait for.
#[derive(Clone, Debug)]
pub struct Failures(watch::Receiver<Health>);

impl Failures {
    /// Waits until it is certain that there will be no snapshot: the server has refused to let us watch the node, its
    /// pods or the budgets for [`drain::policy::REFUSAL_LASTS`]. Call it only while there is no snapshot: once the
    /// refusal counts, each call returns at once. Cancel-safe.
    pub async fn refused(&mut self) -> ApiFailure {
        let refused = self.0.wait_for(|health| !health.refused.is_empty()).await;
        match refused.ok().and_then(|health| health.refused.values().next().cloned()) {
            Some(refusal) => refusal,
            // The runtime is going down.
            None => std::future::pending().await,
        }
    }

    /// Waits for the next failure of a watch. Cancel-safe.
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
mod tests;
