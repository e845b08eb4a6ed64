//! Trimmed views of Kubernetes objects: just what decisions need.
//!
//! `cluster` makes them. Whatever is missing in an object has a named default here, so that no decision
//! meets an `Option` it has to guess about.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use selector::Selector;

use crate::storage::Storage;

/// Identifies one pod for ever, by its UID: a StatefulSet's pod returns under the same name with another UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, as the API server gave it.
    pub uid: String,
}

impl fmt::Display for PodId {
    /// `namespace/name`, the form that every message uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod's `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not yet started.
    Pending,
    /// Started.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Missing or not known to us.
    #[default]
    Unknown,
}

/// Whether an owner that a pod names is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    /// The API server has it.
    Present,
    /// The API server answered 404.
    Missing,
    /// It was not asked for, or cannot be read (no rights, no answer). Treated as present: leaving a DaemonSet's
    /// pod is safe, since its controller would put it back at once.
    #[default]
    Unknown,
}

/// The owner reference with `controller: true`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// `apiVersion`, such as `apps/v1`.
    pub api_version: String,
    /// Kind, such as `ReplicaSet`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Whether it is still there; looked up for DaemonSets only.
    pub existence: Existence,
}

impl Controller {
    /// Kubernetes' own DaemonSet. A third party's kind of the same name is an ordinary owner.
    pub fn is_daemon_set(&self) -> bool {
        self.kind == "DaemonSet" && self.api_version == "apps/v1"
    }
}

/// A volume of a pod that a PersistentVolumeClaim provides.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodClaim {
    /// Name of the claim in the pod's namespace; `<pod>-<volume>` for a generic ephemeral volume.
    pub name: String,
    /// A generic ephemeral volume: the claim counts only if the pod owns it.
    pub ephemeral: bool,
}

/// A pod that is on its way out (`metadata.deletionTimestamp` is set).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminating {
    /// `deletionGracePeriodSeconds`.
    pub grace: Duration,
    /// How far the API server's clock was past `deletionTimestamp` (request time + grace) when the view was made;
    /// zero before that.
    pub overdue: Duration,
    /// How far the API server's clock was before `deletionTimestamp` when the view was made; zero after that, and when that
    /// clock is not known.
    pub left: Duration,
}

/// A pod, trimmed to what decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the object, and any of them goes with any other"
)]
pub struct PodView {
    /// Which pod.
    pub id: PodId,
    /// `status.phase`.
    pub phase: Phase,
    /// Condition `Ready` is True.
    pub ready: bool,
    /// Bound to its node without a scheduler (no condition `PodScheduled`): its creator has written `spec.nodeName`. Known only until the kubelet writes the pod's status, which sets that condition as well.
    pub names_node: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotation `kubernetes.io/config.mirror` is there, with any value: the kubelet's own static pod.
    pub mirror: bool,
    /// The controlling owner, if any.
    pub controller: Option<Controller>,
    /// Has an `emptyDir` volume, also one in memory.
    pub empty_dir: bool,
    /// `spec.terminationGracePeriodSeconds`; Kubernetes' default is 30 s.
    pub grace: Duration,
    /// On its way out.
    pub terminating: Option<Terminating>,
    /// Finalizers that hold the object.
    pub finalizers: Vec<String>,
    /// `spec.priority`, as the admission plugin filled it in; 0 where there is none.
    pub priority: i32,
    /// Tolerates the taint of a cordoned node: the scheduler may put such a pod back.
    pub tolerates_cordon: bool,
    /// The claims that its volumes name, generic ephemeral volumes included.
    pub claims: Vec<PodClaim>,
}

impl PodView {
    /// The pod has finished, well or badly.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// `Kind/name` of the controlling owner, empty without one.
    pub fn owner(&self) -> String {
        self.controller.as_ref().map(|c| format!("{}/{}", c.kind, c.name)).unwrap_or_default()
    }
}

/// A PodDisruptionBudget, trimmed to what decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.resourceVersion`: changes with every write, so that no change of the status is missed.
    pub version: String,
    /// Which pods it guards. `None` guards nothing, an empty selector guards all pods of the namespace
    /// (`policy/v1`).
    pub selector: Option<Selector>,
    /// The spec's generation is newer than the one that the status speaks of, so the server refuses all evictions
    /// for now.
    pub status_lags: bool,
    /// `status.expectedPods`.
    pub expected_pods: i32,
    /// `status.currentHealthy`.
    pub current_healthy: i32,
    /// `status.desiredHealthy`.
    pub desired_healthy: i32,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// No controller has ever written a status.
    pub never_observed: bool,
    /// The spec uses `maxUnavailable`, for which the disruption controller needs the pods' controllers.
    pub max_unavailable: bool,
    /// Why the disruption controller could not work the budget out (condition `DisruptionAllowed`, reason
    /// `SyncFailed`); empty if it could.
    pub sync_failure: String,
    /// Pods whose eviction was accepted and not yet seen by the disruption controller.
    pub disrupted_pods: Vec<String>,
}

/// A node, trimmed to what decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// `spec.unschedulable` is set, or the taint that the node controller makes of it.
    pub cordoned: bool,
    /// Annotation `ebb.dev/cordoned-by`.
    pub cordoned_by: Option<String>,
    /// Condition Ready is True.
    pub ready: bool,
    /// Label `tie-breaker-node=true`: a node that only votes and never takes pods (EVE).
    pub tie_breaker: bool,
    /// `status.nodeInfo.bootID`, empty when the kubelet has not said.
    pub boot_id: String,
    /// The condition that makes the node unhealthy (not Ready, or a read-only file system), and for how long.
    pub unhealthy: Option<Unhealthy>,
    /// Names in `status.volumesAttached`. Emptied before a detach has even begun (M6).
    pub volumes_attached: Vec<String>,
    /// Names in `status.volumesInUse`: the kubelet has them mounted still.
    pub volumes_in_use: Vec<String>,
}

impl NodeView {
    /// The node is cordoned, and this owner says that the cordon is its own.
    pub fn is_cordoned_by(&self, owner: &str) -> bool {
        self.cordoned && self.cordoned_by.as_deref() == Some(owner)
    }
}

/// A condition of the node in which its containers cannot be stopped properly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unhealthy {
    /// `NotReady` or `ReadonlyFilesystem`.
    pub condition: String,
    /// For how long, by the API server's clock, when the view was made.
    pub lasting: Duration,
}

/// A snapshot: all that is known of one node at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The node; `None` when the API server has no such node.
    pub node: Option<NodeView>,
    /// The pods bound to it.
    pub pods: Vec<PodView>,
    /// All PodDisruptionBudgets of the cluster.
    pub budgets: Vec<BudgetView>,
    /// The known facts about volumes; none as long as no pod of the node has a claim.
    pub storage: Storage,
}
