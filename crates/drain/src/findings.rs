//! Questions and findings about pods that do not leave, for people to read. No decision depends on them.

use std::time::Duration;

use selector::Selector;

use crate::budget::guarding;
use crate::view::{BudgetView, PodView};

/// Label by which Longhorn marks the pods that serve a node's volumes.
pub(crate) const LONGHORN_COMPONENT: (&str, &str) = ("longhorn.io/component", "instance-manager");

/// Questions about pods that have been blocked for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// Budgets whose pods are to be checked, at most [`MOST_BUDGETS`].
    pub budgets: Vec<BudgetQuery>,
    /// Virtual machines in blocked pods, at most [`MOST_MACHINES`].
    pub machines: Vec<MachineQuery>,
    /// Namespace of a blocked instance manager of Longhorn.
    pub longhorn: Option<String>,
    /// True to check whether kube-controller-manager works: without it, budgets allow no eviction.
    pub controller_manager: bool,
}

impl Inquiry {
    /// The questions about these pods, which are refused.
    pub(crate) fn about<'a>(pods: impl Iterator<Item = &'a PodView>, budgets: &[BudgetView]) -> Self {
        let mut inquiry = Self::default();
        pods.for_each(|pod| inquiry.add(pod, budgets));
        inquiry
    }

    fn add(&mut self, pod: &PodView, budgets: &[BudgetView]) {
        for budget in guarding(pod, budgets) {
            self.controller_manager = true;
            let known =
                |query: &BudgetQuery| query.namespace == budget.namespace && query.name == budget.name;
            if let Some(selector) = &budget.selector
                && self.budgets.len() < MOST_BUDGETS
                && !self.budgets.iter().any(known)
            {
                self.budgets.push(BudgetQuery {
                    namespace: budget.namespace.clone(),
                    name: budget.name.clone(),
                    selector: selector.clone(),
                });
            }
        }
        if let Some(machine) = machine(pod)
            && self.machines.len() < MOST_MACHINES
        {
            self.machines.push(machine);
        }
        if is_instance_manager(pod) {
            self.longhorn = Some(pod.id.namespace.clone());
        }
    }
}

/// The virtual machine in this pod: it is the controller of KubeVirt's launcher pods.
pub(crate) fn machine(pod: &PodView) -> Option<MachineQuery> {
    let owner = pod.controller.as_ref()?;
    let is_machine = owner.kind == "VirtualMachineInstance" && owner.api_version.starts_with("kubevirt.io/");
    is_machine.then(|| MachineQuery {
        pod: pod.id.uid.clone(),
        namespace: pod.id.namespace.clone(),
        name: owner.name.clone(),
    })
}

/// True if the pod serves this node's Longhorn volumes.
pub(crate) fn is_instance_manager(pod: &PodView) -> bool {
    let (label, value) = LONGHORN_COMPONENT;
    pod.labels.get(label).is_some_and(|found| found == value)
}

/// Limit of budgets per inquiry: each costs a list of pods.
pub const MOST_BUDGETS: usize = 5;

/// Limit of virtual machines per inquiry.
pub const MOST_MACHINES: usize = 5;

/// Question: which pods of this budget are not healthy?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetQuery {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Selector of the budget.
    pub selector: Selector,
}

/// Question: in which state is the migration of this KubeVirt VirtualMachineInstance?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineQuery {
    /// UID of the pod in which it runs.
    pub pod: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Findings about blocked pods. For a question without an answer `trouble` has the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Unhealthy pods of the budgets.
    pub budgets: Vec<BudgetPods>,
    /// Virtual machines.
    pub machines: Vec<MachineView>,
    /// Longhorn on this node.
    pub longhorn: Option<LonghornView>,
    /// Leader of kube-controller-manager, if it has a lease.
    pub controller_manager: Option<LeaseView>,
    /// Reasons for questions without an answer.
    pub trouble: Vec<String>,
}

/// Pods of one budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetPods {
    /// Namespace of the budget.
    pub namespace: String,
    /// Name of the budget.
    pub name: String,
    /// Pods that are not Ready, at most [`MOST_UNHEALTHY`].
    pub unhealthy: Vec<UnhealthyPod>,
    /// Number of further pods that are not Ready.
    pub more: usize,
}

/// Limit of unhealthy pods that are named for one budget.
pub const MOST_UNHEALTHY: usize = 5;

/// A pod that is not Ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnhealthyPod {
    /// Name; the namespace is the budget's.
    pub name: String,
    /// Name of its node; empty if it is not bound.
    pub node: String,
    /// Reason in a few words: `CrashLoopBackOff`, `0/3 nodes are available: …`.
    pub why: String,
}

/// A KubeVirt VirtualMachineInstance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineView {
    /// UID of the pod in which it runs.
    pub pod: String,
    /// `namespace/name`.
    pub name: String,
    /// True if `status.evacuationNodeName` names this node: KubeVirt has been asked to move it away.
    pub evacuating: bool,
    /// State of its migration.
    pub migration: Migration,
    /// Reason why it cannot be migrated (condition `LiveMigratable` is False); empty if it can.
    pub not_migratable: String,
}

/// A live migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Migration {
    /// No migration has begun.
    #[default]
    None,
    /// The machine is being migrated to the node with this name.
    Running(String),
    /// The last migration failed, for this reason.
    Failed(String),
    /// The last migration succeeded.
    Completed,
}

/// State of Longhorn that holds up the drain of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LonghornView {
    /// Value of its setting `node-drain-policy`.
    pub drain_policy: String,
    /// True if Longhorn is moving replicas away from this node (`status.autoEvicting`).
    pub evicting: bool,
}

/// The lease of a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// The holder's identity.
    pub holder: String,
    /// Time since the last renewal of the lease, by the API server's clock.
    pub silent: Duration,
}
