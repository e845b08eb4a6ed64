//! What is asked and found out about pods that do not leave. Nothing is decided by it: people read it.

use std::time::Duration;

use selector::Selector;

/// Questions about pods that have been blocked for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// Budgets whose pods are to be looked at, at most [`MOST_BUDGETS`].
    pub budgets: Vec<BudgetQuery>,
    /// Virtual machines behind blocked pods, at most [`MOST_MACHINES`].
    pub machines: Vec<MachineQuery>,
    /// Namespace of a blocked instance manager of Longhorn.
    pub longhorn: Option<String>,
    /// Whether kube-controller-manager works: a refused eviction may be its silence.
    pub controller_manager: bool,
}

/// At most so many budgets are asked about at a time: each costs a list of pods.
pub const MOST_BUDGETS: usize = 5;

/// At most so many virtual machines are asked about at a time.
pub const MOST_MACHINES: usize = 5;

/// Which pods does this budget select that are not healthy?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetQuery {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its selector.
    pub selector: Selector,
}

/// How is the migration of this KubeVirt VirtualMachineInstance?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineQuery {
    /// UID of the pod that runs it.
    pub pod: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// What was found out. What could not be is missing, with the reason in `trouble`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub struct Findings {
    /// The unhealthy pods of the budgets asked for.
    pub budgets: Vec<BudgetPods>,
    /// The virtual machines asked for.
    pub machines: Vec<MachineView>,
    /// Longhorn on this node, if asked for.
    pub longhorn: Option<LonghornView>,
    /// The leader of kube-controller-manager, if it has a lease.
    pub controller_manager: Option<LeaseView>,
    /// Questions that were not answered, and why.
    pub trouble: Vec<String>,
}

/// The pods of one budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub struct BudgetPods {
    /// Namespace of the budget.
    pub namespace: String,
    /// Name of the budget.
    pub name: String,
    /// The pods that are not Ready, at most [`MOST_UNHEALTHY`].
    pub unhealthy: Vec<UnhealthyPod>,
    /// How many more are not Ready.
    pub more: usize,
}

/// At most so many unhealthy pods are named for one budget.
pub const MOST_UNHEALTHY: usize = 5;

/// A pod that is not Ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub struct UnhealthyPod {
    /// Name; the namespace is the budget's.
    pub name: String,
    /// Its node; empty while it is on none.
    pub node: String,
    /// Why, in a few words: `CrashLoopBackOff`, `0/3 nodes are available: …`.
    pub why: String,
}

/// A KubeVirt VirtualMachineInstance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub struct MachineView {
    /// UID of the pod that runs it.
    pub pod: String,
    /// `namespace/name`.
    pub name: String,
    /// `status.evacuationNodeName` names this node: KubeVirt has been asked to move it away.
    pub evacuating: bool,
    /// How its migration is.
    pub migration: Migration,
    /// Why it cannot be migrated (condition `LiveMigratable` is False); empty if it can.
    pub not_migratable: String,
}

/// A live migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub enum Migration {
    /// None has been begun.
    #[default]
    None,
    /// Under way to this node.
    Running(String),
    /// Failed, for this reason.
    Failed(String),
    /// Done.
    Completed,
}

/// Longhorn, as far as it holds up the drain of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub struct LonghornView {
    /// Value of its setting `node-drain-policy`.
    pub drain_policy: String,
    /// It is moving replicas away from this node (`status.autoEvicting`).
    pub evicting: bool,
}

/// The lease of a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub struct LeaseView {
    /// Who holds it.
    pub holder: String,
    /// For how long it has not been renewed, by the API server's clock.
    pub silent: Duration,
}
