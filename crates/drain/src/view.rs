//! Trimmed views of Kubernetes objects, with only the fields that decisions need.
//!
//! `cluster` makes them. A field that is missing in an object gets a documented default here, so that decisions do not
//! have to handle an `Option`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use selector::Selector;

use crate::storage::Storage;

/// Identifies one pod by its UID: a StatefulSet's pod returns under the same name, but with another UID.
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
    /// Missing, or a value that we do not know.
    #[default]
    Unknown,
}

/// Whether the owner of a pod exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    /// The API server has it.
    Present,
    /// The API server answered 404.
    Missing,
    /// Not looked up, or not readable (no rights, no answer). Treated as present: leaving a DaemonSet's pod is safe,
    /// since its controller would create it again at once.
    #[default]
    Unknown,
}

/// Owner reference with `controller: true`.
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
    /// Whether the owner exists; looked up for DaemonSets only.
    pub existence: Existence,
}

impl Controller {
    /// True for Kubernetes' own DaemonSet. A kind of the same name in another API group is an ordinary owner.
    pub fn is_daemon_set(&self) -> bool {
        self.kind == "DaemonSet" && self.api_version == "apps/v1"
    }

    /// True for a DaemonSet of another API group: for kubectl, and so for the plan, an ordinary owner, which all the same
    /// creates its pod again on each node.
    pub fn is_foreign_daemon_set(&self) -> bool {
        self.kind == "DaemonSet" && !self.is_daemon_set()
    }

    /// True for an owner of Kubernetes' own that a person can scale.
    pub fn has_scale(&self) -> bool {
        match self.kind.as_str() {
            "Deployment" | "ReplicaSet" | "StatefulSet" => self.api_version == "apps/v1",
            "ReplicationController" => self.api_version == "v1",
            _ => false,
        }
    }
}

impl fmt::Display for Controller {
    /// `Kind/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// A PersistentVolumeClaim that a pod uses as a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodClaim {
    /// Name of the claim in the pod's namespace; `<pod>-<volume>` for a generic ephemeral volume.
    pub name: String,
    /// True for a generic ephemeral volume: then the claim counts only if the pod owns it.
    pub ephemeral: bool,
}

/// Deletion state of a pod whose `metadata.deletionTimestamp` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminating {
    /// `deletionGracePeriodSeconds`.
    pub grace: Duration,
    /// Time since `deletionTimestamp` (request time + grace) by the API server's clock when the view was made; zero
    /// before that time.
    pub overdue: Duration,
    /// Time until `deletionTimestamp` by the API server's clock when the view was made; zero after that time, or if
    /// that clock is not known.
    pub left: Duration,
}

/// A pod, trimmed to the fields that decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the object, and any of them goes with any other"
)]
pub struct PodView {
    /// Namespace, name and UID.
    pub id: PodId,
    /// `status.phase`.
    pub phase: Phase,
    /// True if condition `Ready` is True.
    pub ready: bool,
    /// True if the pod was bound to its node without a scheduler (no condition `PodScheduled`), because its creator has
    /// written `spec.nodeName`. Known only until the kubelet writes the pod's status, which sets that condition too.
    pub names_node: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// True if annotation `kubernetes.io/config.mirror` exists, with any value: a static pod of the kubelet.
    pub mirror: bool,
    /// Owner reference with `controller: true`, if any.
    pub controller: Option<Controller>,
    /// True if it has an `emptyDir` volume, on disk or in memory.
    pub empty_dir: bool,
    /// `spec.terminationGracePeriodSeconds`; Kubernetes' default is 30 s.
    pub grace: Duration,
    /// Deletion state; `None` for a pod that is not being deleted.
    pub terminating: Option<Terminating>,
    /// True if the kubelet reports a running container. A pod that failed may still have one.
    pub runs: bool,
    /// Finalizers of the object.
    pub finalizers: Vec<String>,
    /// `spec.priority`, as the admission plugin has filled it in; 0 if missing.
    pub priority: i32,
    /// True if it tolerates the taint of a cordoned node: the scheduler may bind such a pod to the node again.
    pub tolerates_cordon: bool,
    /// Claims of its volumes, generic ephemeral volumes included.
    pub claims: Vec<PodClaim>,
}

impl PodView {
    /// True if the pod has finished, successfully or not.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// True if whoever creates this pod again puts it on this node, cordoned or not: no scheduler chooses another one.
    pub fn is_placed_here(&self) -> bool {
        self.names_node || self.controller.as_ref().is_some_and(Controller::is_foreign_daemon_set)
    }

    /// `Kind/name` of the controller; empty without one.
    pub fn owner(&self) -> String {
        self.controller.as_ref().map(Controller::to_string).unwrap_or_default()
    }
}

/// A number of pods in the spec of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many pods.
    Count(i32),
    /// So many in a hundred of the pods that their controllers want.
    Percent(i32),
}

impl fmt::Display for Amount {
    /// As the spec has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What the spec of a budget demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// At least this many pods stay available.
    MinAvailable(Amount),
    /// At most this many pods are unavailable.
    MaxUnavailable(Amount),
}

impl fmt::Display for Demand {
    /// As the spec has it: `minAvailable: 50%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MinAvailable(amount) => write!(f, "minAvailable: {amount}"),
            Self::MaxUnavailable(amount) => write!(f, "maxUnavailable: {amount}"),
        }
    }
}

/// A PodDisruptionBudget, trimmed to the fields that decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.resourceVersion`. It changes with every write, so no change of the status is missed.
    pub version: String,
    /// Selector of the pods. `None` selects no pod, an empty selector selects all pods of the namespace (`policy/v1`).
    pub selector: Option<Selector>,
    /// True if the status is for an older generation of the spec: the server then refuses all evictions.
    pub status_lags: bool,
    /// `status.expectedPods`.
    pub expected_pods: i32,
    /// `status.currentHealthy`.
    pub current_healthy: i32,
    /// `status.desiredHealthy`.
    pub desired_healthy: i32,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// True if no controller has ever written a status.
    pub never_observed: bool,
    /// `minAvailable` or `maxUnavailable` of the spec; `None` if neither can be read.
    pub demand: Option<Demand>,
    /// True with `unhealthyPodEvictionPolicy: AlwaysAllow`: pods that are not Ready may always be evicted.
    pub lets_unready_go: bool,
    /// Error of the disruption controller when it computed the budget (condition `DisruptionAllowed`, reason
    /// `SyncFailed`); empty if there is none.
    pub sync_failure: String,
    /// Pods whose eviction was accepted and which the disruption controller has not handled yet.
    pub disrupted_pods: Vec<String>,
    /// The object that made this budget and keeps it as it wants; `None` if a person or a tool did.
    pub keeper: Option<Controller>,
}

/// A node, trimmed to the fields that decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the object, and any of them goes with any other"
)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// True if `spec.unschedulable` is set, or the taint that the node controller derives from it.
    pub cordoned: bool,
    /// Annotation `ebb.dev/cordoned-by`.
    pub cordoned_by: Option<String>,
    /// Annotation `ebb.dev/slots-group`; `None` is `kube-system/default`.
    pub slots_group: Option<String>,
    /// Annotation `ebb.dev/drain` commands that the node is drained, and kept drained.
    pub is_drain_commanded: bool,
    /// True if condition Ready is True.
    pub ready: bool,
    /// True with label `tie-breaker-node=true`: a node that only votes and never gets pods (EVE).
    pub tie_breaker: bool,
    /// `status.nodeInfo.bootID`; empty if the kubelet has not reported it.
    pub boot_id: String,
    /// Condition that makes the node unhealthy (not Ready, or a read-only file system), with its duration.
    pub unhealthy: Option<Unhealthy>,
    /// For how long the API server has heard nothing of the node's kubelet (condition Ready is Unknown), by its own clock;
    /// `None` if it does hear of it.
    pub silent: Option<Duration>,
    /// Conditions in which something may be wrong, for people; at most 16. No decision depends on them.
    pub conditions: Vec<NodeCondition>,
    /// Names in `status.volumesAttached`. The list is emptied even before a detach has begun (M6).
    pub volumes_attached: Vec<String>,
    /// Names in `status.volumesInUse`: volumes that the kubelet still has mounted.
    pub volumes_in_use: Vec<String>,
}

impl NodeView {
    /// True if the node is cordoned with an annotation that names this owner.
    pub fn is_cordoned_by(&self, owner: &str) -> bool {
        self.cordoned && self.cordoned_by.as_deref() == Some(owner)
    }
}

/// A condition of a node that may mean trouble: `Ready` that is not True, or any other one that is True. Which of those are
/// trouble, a setting says (`node.conditions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCondition {
    /// Type of the condition.
    pub kind: String,
    /// Start of it by the API server's clock, as in RFC 3339; empty if it is not known.
    pub since: String,
    /// The text of whoever set it, or its reason, as one line.
    pub message: String,
}

/// A condition of the node in which its containers may not be stopped properly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unhealthy {
    /// `NotReady` or `ReadonlyFilesystem`.
    pub condition: String,
    /// Duration of the condition by the API server's clock, when the view was made.
    pub lasting: Duration,
}

/// A snapshot: the state of one node and its pods at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The node; `None` if it does not exist.
    pub node: Option<NodeView>,
    /// Pods that are bound to the node.
    pub pods: Vec<PodView>,
    /// All PodDisruptionBudgets of the cluster.
    pub budgets: Vec<BudgetView>,
    /// Known volumes; empty as long as no pod of the node has a claim.
    pub storage: Storage,
}
