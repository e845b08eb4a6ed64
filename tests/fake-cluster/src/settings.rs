//! The settings of a fake cluster: what it does by itself, and how fast.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;

/// Settings of a fake cluster. [`Default`] is close to a small real cluster, [`Settings::quick`] is for tests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How far the cluster's wall clock is ahead of the machine's; negative if it is behind.
    pub clock_ahead: SignedDuration,
    /// The controllers that run. Each can also be paused later.
    pub controllers: BTreeSet<Controller>,
    /// Number of changes that are kept for watches and old snapshots; an older version is answered with 410.
    pub watch_history: usize,
    /// Greatest number of objects of all kinds together; further ones are refused as by a full etcd.
    pub max_objects: usize,
    /// Interval between two bookmarks of a quiet watch.
    pub bookmark_every: Duration,
    /// Pause of a controller before it handles a change, so that several changes are handled together.
    pub reaction: Duration,
    /// Time from binding to Ready. A pod's annotation [`READY_AFTER`](crate::READY_AFTER) overrides it.
    pub pod_ready_after: Duration,
    /// Time from a pod's deletion to its end, unless its grace is shorter. A pod's annotation
    /// [`GONE_AFTER`](crate::GONE_AFTER) overrides it.
    pub pod_gone_after: Duration,
    /// Time from a namespace's deletion to the deletion of its content. Kubernetes: 5 s.
    pub namespace_empties_after: Duration,
    /// Time from the creation of a `VolumeAttachment` to `attached: true`.
    pub volume_attach_after: Duration,
    /// Time from a `VolumeAttachment`'s deletion to its end.
    pub volume_detach_after: Duration,
}

/// A part of the cluster that acts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Runs bound pods, ends deleted ones, reports nodes as Ready.
    Kubelet,
    /// Binds pending pods to nodes.
    Scheduler,
    /// Creates and deletes the pods of a `ReplicaSet`.
    ReplicaSet,
    /// Creates and deletes the `ReplicaSet` of a `Deployment`.
    Deployment,
    /// Creates the pods and claims of a `StatefulSet`.
    StatefulSet,
    /// Creates one pod of a `DaemonSet` per fitting node.
    DaemonSet,
    /// Computes the numbers of `PodDisruptionBudget`s.
    Disruption,
    /// Taints nodes that are unschedulable or lost.
    NodeLifecycle,
    /// Deletes the content of terminating namespaces.
    Namespace,
    /// Deletes objects whose owners are gone.
    GarbageCollector,
    /// Creates a `PersistentVolume` for a pending claim.
    VolumeBinder,
    /// Attaches the volumes of bound pods to their nodes, and detaches them when the pods are gone.
    AttachDetach,
}

impl Controller {
    /// All controllers.
    pub const ALL: [Self; 12] = [
        Self::Kubelet,
        Self::Scheduler,
        Self::ReplicaSet,
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Disruption,
        Self::NodeLifecycle,
        Self::Namespace,
        Self::GarbageCollector,
        Self::VolumeBinder,
        Self::AttachDetach,
    ];

    /// The controllers that stop together with kube-controller-manager.
    pub const MANAGER: [Self; 10] = [
        Self::ReplicaSet,
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Disruption,
        Self::NodeLifecycle,
        Self::Namespace,
        Self::GarbageCollector,
        Self::VolumeBinder,
        Self::AttachDetach,
    ];
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock_ahead: SignedDuration::ZERO,
            controllers: BTreeSet::from(Controller::ALL),
            watch_history: 4096,
            max_objects: 200_000,
            bookmark_every: Duration::from_mins(1),
            reaction: Duration::from_millis(5),
            pod_ready_after: Duration::from_millis(200),
            pod_gone_after: Duration::from_secs(1),
            namespace_empties_after: Duration::from_secs(5),
            volume_attach_after: Duration::from_millis(100),
            volume_detach_after: Duration::from_secs(2),
        }
    }
}

impl Settings {
    /// Everything happens at once: for tests that wait for events, not for time.
    pub fn quick() -> Self {
        Self {
            reaction: Duration::from_millis(1),
            pod_ready_after: Duration::ZERO,
            pod_gone_after: Duration::ZERO,
            namespace_empties_after: Duration::ZERO,
            volume_attach_after: Duration::ZERO,
            volume_detach_after: Duration::ZERO,
            ..Self::default()
        }
    }

    /// Nothing happens by itself: only the API answers.
    pub fn passive() -> Self {
        Self { controllers: BTreeSet::new(), ..Self::quick() }
    }
}
