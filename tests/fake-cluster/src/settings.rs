//! What a fake cluster does by itself, and how fast.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;

use crate::clock::Time;

/// How a fake cluster behaves. [`Default`] is near a small real one, [`Settings::quick`] is for tests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How time passes.
    pub time: Time,
    /// How far the cluster's wall clock is ahead of the machine's; negative = behind it.
    pub clock_ahead: SignedDuration,
    /// The controllers that run. Each can be paused later as well.
    pub controllers: BTreeSet<Controller>,
    /// Changes that are kept for watches and old snapshots; an older version is answered with 410.
    pub watch_history: usize,
    /// Objects of all kinds together; one more is refused as by a full etcd.
    pub max_objects: usize,
    /// Connections at one time; more wait.
    pub max_connections: usize,
    /// How long a watch lasts at most. Real servers choose 30 to 60 minutes.
    pub watch_timeout: Duration,
    /// The rest between two bookmarks of a quiet watch.
    pub bookmark_every: Duration,
    /// The rest of a controller before it looks at a change, so that changes gather.
    pub reaction: Duration,
    /// From binding to Ready. A pod's annotation [`READY_AFTER`](crate::READY_AFTER) overrides it.
    pub pod_ready_after: Duration,
    /// From the deletion to the pod's end, if its grace is not shorter. A pod's annotation
    /// [`GONE_AFTER`](crate::GONE_AFTER) overrides it.
    pub pod_gone_after: Duration,
    /// How long a node without its kubelet still counts as Ready. Kubernetes: 40 s.
    pub node_monitor_grace: Duration,
    /// How long a disruption that came to nothing holds its place in a budget. Kubernetes: 2 min.
    pub disruption_timeout: Duration,
    /// From a namespace's deletion to that of its content. Kubernetes: 5 s.
    pub namespace_empties_after: Duration,
    /// From a `VolumeAttachment` to `attached: true`.
    pub volume_attach_after: Duration,
    /// From a `VolumeAttachment`'s deletion to its end.
    pub volume_detach_after: Duration,
}

/// A part of the cluster that acts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Runs bound pods, ends deleted ones, reports nodes as Ready.
    Kubelet,
    /// Binds pending pods to nodes.
    Scheduler,
    /// Keeps the pods of a `ReplicaSet`.
    ReplicaSet,
    /// Keeps the `ReplicaSet` of a `Deployment`.
    Deployment,
    /// Keeps the pods and claims of a `StatefulSet`.
    StatefulSet,
    /// Keeps one pod of a `DaemonSet` per fitting node.
    DaemonSet,
    /// Counts for the `PodDisruptionBudget`s.
    Disruption,
    /// Taints nodes that are unschedulable or lost.
    NodeLifecycle,
    /// Empties namespaces that end.
    Namespace,
    /// Deletes what has lost its owner.
    GarbageCollector,
    /// Makes a `PersistentVolume` for a pending claim.
    VolumeBinder,
    /// Attaches the volumes of bound pods to their nodes, and detaches them when the pods are gone.
    AttachDetach,
}

impl Controller {
    /// All of them.
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

    /// Those that a stopped kube-controller-manager takes with it.
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
            time: Time::Real,
            clock_ahead: SignedDuration::ZERO,
            controllers: BTreeSet::from(Controller::ALL),
            watch_history: 4096,
            max_objects: 200_000,
            max_connections: 1024,
            watch_timeout: Duration::from_mins(30),
            bookmark_every: Duration::from_mins(1),
            reaction: Duration::from_millis(5),
            pod_ready_after: Duration::from_millis(200),
            pod_gone_after: Duration::from_secs(1),
            node_monitor_grace: Duration::from_secs(40),
            disruption_timeout: Duration::from_mins(2),
            namespace_empties_after: Duration::from_secs(5),
            volume_attach_after: Duration::from_millis(100),
            volume_detach_after: Duration::from_secs(2),
        }
    }
}

impl Settings {
    /// Everything at once: for tests that wait for what happens, not for time.
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
