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
    /// Budgets whose pods are to be looked at, at most [`MOST_BUDGETS`].
    pub budgets: Vec<BudgetQuery>,
    /// Virtual machines behind blocked pods, at most [`MOST_MACHINES`].
    pub machines: Vec<MachineQuery>,
    /// Namespace of a blocked instance manager of Longhorn.
    pub longhorn: Option<String>,
    /// Whether kube-controller-manager works: a refused eviction may be its silence.
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

/// The virtual machine that the pod runs: KubeVirt's launcher pods are controlled by it.
pub(crate) fn machine(pod: &PodView) -> Option<MachineQuery> {
    let owner = pod.controller.as_ref()?;
    let is_machine = owner.kind == "VirtualMachineInstance" && owner.api_version.starts_with("kubevirt.io/");
    is_machine.then(|| MachineQuery {
        pod: pod.id.uid.clone(),
        namespace: pod.id.namespace.clone(),
        name: owner.name.clone(),
    })
}

/// The pod serves this node's Longhorn volumes.
pub(crate) fn is_instance_manager(pod: &PodView) -> bool {
    let (label, value) = LONGHORN_COMPONENT;
    pod.labels.get(label).is_some_and(|found| found == value)
}

/// Limit of budgets per inquiry: each costs a list of pods.
pub const MOST_BUDGETS: usize = 5;

/// Limit of virtual machines per inquiry.
pub const MOST_MACHINES: usize = 5;

/// The question which pods of this budget are not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetQuery {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its selector.
    pub selector: Selector,
}

/// The question how far the migration of this KubeVirt VirtualMachineInstance is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineQuery {
    /// UID of the pod that runs it.
    pub pod: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Findings about blocked pods. A question that was not answered has its reason in `trouble`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// Limit of unhealthy pods that are named for one budget.
pub const MOST_UNHEALTHY: usize = 5;

/// A pod that is not Ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
pub enum Migration {
    /// No migration has been begun.
    #[default]
    None,
    /// The machine is being migrated to the node with this name.
    Running(String),
    /// The last migration failed, for this reason.
    Failed(String),
    /// The last migration succeeded.
    Completed,
}

/// Longhorn, as far as it holds up the drain of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LonghornView {
    /// Value of its setting `node-drain-policy`.
    pub drain_policy: String,
    /// Longhorn is moving replicas away from this node (`status.autoEvicting`).
    pub evicting: bool,
}

/// The lease of a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// The holder's identity.
    pub holder: String,
    /// For how long the lease has not been renewed, by the API server's clock.
    pub silent: Duration,
}
