//! zedkube's report: everything about a drain that EVE's status of two fields cannot say. Why, since when, which pods,
//! what to do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DrainRequester, DrainStatus, GoTime, Topic};

/// Version of our own topics. It is raised when a field changes its meaning, not for new fields.
pub const SCHEMA_VERSION: u32 = 1;

/// Whether this device is part of a cluster, as far as zedkube knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Member {
    /// The device is part of a cluster: drains are needed.
    Yes,
    /// The device is in no cluster: there is nothing to drain.
    No,
    /// Not known yet; treated as a member.
    #[default]
    Unknown,
}

/// Outcome of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// A fresh list from the API server proved that no pod has to leave any more.
    Drained,
    /// The API server did not answer for too long, and the policy lets the device go down.
    ApiUnreachable,
    /// No other node could take the pods; the policy lets the device go down.
    NoSchedulablePeer,
    /// An operator forced the answer.
    Forced,
    /// The node could not be cordoned.
    CordonFailed,
    /// All attempts failed.
    DrainFailed,
    /// All requests were withdrawn.
    Cancelled,
    /// The Node object that this drain worked on is gone.
    NodeGone,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 8] = [
        Self::Drained,
        Self::ApiUnreachable,
        Self::NoSchedulablePeer,
        Self::Forced,
        Self::CordonFailed,
        Self::DrainFailed,
        Self::Cancelled,
        Self::NodeGone,
    ];

    /// True if the node may go down: it is drained, or a policy or an operator allows it undrained.
    pub const fn may_go_down(self) -> bool {
        match self {
            Self::Drained
            | Self::ApiUnreachable
            | Self::NoSchedulablePeer
            | Self::Forced
            | Self::NodeGone => true,
            Self::CordonFailed | Self::DrainFailed | Self::Cancelled => false,
        }
    }
}

/// What keeps a drain from going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HeldBy {
    /// The API server does not answer.
    ApiServer,
    /// zedkube has no kubeconfig, and this machine runs a kubelet.
    Kubeconfig,
    /// The API server does not let zedkube read the nodes.
    Rights,
    /// No Node of the cluster could be told to be this machine's.
    Identity,
    /// The kubeconfig leads to another cluster than the one in which the drain began.
    OtherCluster,
    /// The site's health command does not pass.
    Health,
    /// Other nodes have all slots.
    Slot,
    /// The table of the slots cannot be read or written.
    SlotTable,
    /// No other node can take the pods.
    Peers,
    /// The Node cannot be changed: it is not cordoned, or not uncordoned.
    Cordon,
    /// Pods do not leave: `Blockers` says why.
    Pods,
    /// All pods have left, and a volume has stayed attached for more than a minute.
    Volumes,
    /// zedkube cannot write its record.
    Record,
    /// A call of zedkube does not end.
    Call,
}

impl HeldBy {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ApiServer,
        Self::Kubeconfig,
        Self::Rights,
        Self::Identity,
        Self::OtherCluster,
        Self::Health,
        Self::Slot,
        Self::SlotTable,
        Self::Peers,
        Self::Cordon,
        Self::Pods,
        Self::Volumes,
        Self::Record,
        Self::Call,
    ];
}

/// One trouble that keeps pods on the node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Blocker {
    /// The trouble, such as `budget shop/db: 3 of 3 healthy, needs 3`.
    pub what: String,
    /// What a person can do; empty if nothing is known.
    pub hint: String,
    /// Kind of the trouble: Budget, TwoBudgets, Webhook, Recreated, Finalizers, Kubelet, Policy, Other.
    pub by: String,
    /// Number of pods that it keeps.
    pub pods: u32,
    /// Some of these pods, as `namespace/name`; at most 3.
    pub examples: Vec<String>,
}

/// zedkube's report. Key `global`. The times are for people; no decision depends on them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeDrainReport {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// UUID of the drain; empty when there was none in this boot.
    pub drain_id: String,
    /// The boot in which the report was written.
    pub boot_id: String,
    /// Name of the Kubernetes node; empty while not known.
    pub node: String,
    /// The phase of zedkube's state machine, by its own name.
    pub phase: String,
    /// Time since when zedkube is in this phase.
    pub since: GoTime,
    /// When the drain was accepted.
    pub started_at: GoTime,
    /// When the drain ended; unset while it runs.
    pub finished_at: GoTime,
    /// Outcome of the drain; null while it runs.
    pub outcome: Option<Outcome>,
    /// One plain sentence: why the drain is in this phase.
    pub reason: String,
    /// Hint for the operator.
    pub hint: String,
    /// What a request for a drain meets now, if the node cannot be drained for it at once: when the device goes down
    /// `WITHOUT a drain`, or what is waited for, and why. Empty if it can, and from the cordon on.
    pub outlook: String,
    /// What keeps this drain from going on, or would keep the next one; null if nothing does. `Reason` and `Hint` are
    /// about the same.
    pub held_by: Option<HeldBy>,
    /// Since when the API server has not answered; unset if it answers.
    pub api_away_since: GoTime,
    /// Whether this device is part of a cluster.
    pub member: Member,
    /// Set while an operator has switched drains off.
    pub disabled: Option<Disabled>,
    /// Set while an operator's override waits for the request that it answers.
    #[serde(rename = "Override")]
    pub standing_order: Option<StandingOrder>,
    /// Set if the last order of an operator had no effect.
    pub spent_order: Option<SpentOrder>,
    /// The active requests and their answers.
    pub requests: Vec<RequestLine>,
    /// Number of tries to cordon in this attempt so far.
    pub cordon_attempt: u32,
    /// Number of the running attempt, from 1.
    pub drain_attempt: u32,
    /// The attempts that have ended.
    pub attempts: Vec<Attempt>,
    /// When the running attempt gives up. In phase `Waiting`: when the node counts as complete WITHOUT a drain; unset if
    /// it does not.
    pub deadline: GoTime,
    /// Number of pods by stage.
    pub progress: Progress,
    /// The pods of the node.
    pub pods: Vec<PodLine>,
    /// The troubles that keep pods here, the one with the most pods first; at most 16.
    pub blockers: Vec<Blocker>,
    /// What the API server has answered to evictions and deletions since zedkube was started: number by kind.
    pub eviction_answers: BTreeMap<String, u64>,
    /// Reasons why pods do not leave, one entry for each pod.
    pub blocked: Vec<Blocked>,
    /// Volumes that the drain waits for.
    pub volumes: Vec<VolumeLine>,
    /// This node's slot: the permission of the fleet to be down.
    pub slot: Slot,
    /// The node takes no pods, whoever has cordoned it.
    pub cordoned: bool,
    /// The node was cordoned before the drain and stays cordoned after it.
    pub cordoned_before: bool,
    /// Input files that were refused, and why.
    pub refused: Vec<RefusedInput>,
    /// Result of the preflight, which tries out everything that a drain needs while no drain is requested; null before
    /// the first one.
    pub preflight: Option<Preflight>,
    /// Number of entries that were left out so that the report fits into [`crate::MAX_REPORT_BYTES`].
    pub omitted: Omitted,
}

impl Topic for NodeDrainReport {
    const NAME: &'static str = "NodeDrainReport";
}

impl NodeDrainReport {
    /// True if zedkube drains nothing here: drains are switched off, or this device is in no cluster.
    pub fn drains_nothing(&self) -> bool {
        self.disabled.is_some() || self.member == Member::No
    }

    /// The line of the request that `publisher` made at `requested_at`, with its answer; `None` if the report does not
    /// list it.
    pub fn line_of(&self, publisher: &str, requested_at: GoTime) -> Option<&RequestLine> {
        self.requests
            .iter()
            .find(|request| request.publisher == publisher && request.requested_at == requested_at)
    }

    /// The pods that should leave and have not, as `namespace/name`. An empty list does not mean that the node is
    /// empty: the pods may not have been listed.
    pub fn left(&self) -> Vec<String> {
        let has_to_leave = self.pods.iter().filter(|pod| pod.verdict != "Leave");
        has_to_leave.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()
    }
}

/// Drains are switched off by an operator, until the next boot or `ebb force enable`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Disabled {
    /// When drains were switched off.
    pub since: GoTime,
    /// The person who switched them off, and how.
    pub by: String,
}

/// An operator has forced COMPLETE for requests that may still come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct StandingOrder {
    /// The requester whose requests are answered; 1 means all requesters.
    pub requested_by: DrainRequester,
    /// When the order came.
    pub since: GoTime,
    /// When the order ends.
    pub until: GoTime,
    /// The person who gave the order, and why.
    pub by: String,
}

/// An operator's order without effect: every requester that it names already had COMPLETE. The order is not applied to
/// later requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SpentOrder {
    /// The requester whose requests the order was for; 1 means all requesters.
    pub requested_by: DrainRequester,
    /// When the order came.
    pub since: GoTime,
    /// The person who gave the order, and why.
    pub by: String,
    /// The same for people: `nothing to force: already COMPLETE (Drained)`.
    pub text: String,
}

/// One active request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RequestLine {
    /// The requester.
    pub requested_by: DrainRequester,
    /// Purpose of the request.
    pub context: String,
    /// Time of the request, which identifies it.
    pub requested_at: GoTime,
    /// The agent whose folder holds the request.
    pub publisher: String,
    /// Answer: 0 not yet, 6 and 8 the drain failed, 9 the device may go down.
    pub answer: DrainStatus,
    /// Why the device may go down; null unless `Answer` is 9. Any value other than Drained means NOT drained.
    pub outcome: Option<Outcome>,
    /// The person who forced the answer, and why; empty unless `Outcome` is Forced.
    pub by: String,
    /// True if the request is kept over boots (`ebb request --keep`).
    pub kept: bool,
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Attempt {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// When the attempt began.
    pub started_at: GoTime,
    /// When the attempt ended.
    pub ended_at: GoTime,
    /// Reason why the attempt failed; empty if it did not fail.
    pub error: String,
}

/// Number of pods that have to leave, by stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Progress {
    /// Number of pods that have to leave.
    pub total: u32,
    /// Pods that are gone.
    pub gone: u32,
    /// Pods that are deleted but not gone yet.
    pub terminating: u32,
    /// Pods whose eviction a budget or a webhook refuses.
    pub blocked: u32,
    /// Pods that were not tried yet, or wait for their turn.
    pub waiting: u32,
    /// Pods still on the node: `Total` less `Gone`. Pods that stay on purpose do not count.
    pub left: u32,
}

/// One pod of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodLine {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod: a pod of the same name with another UID is another pod.
    pub uid: String,
    /// `Kind/name` of the pod's controller; empty if it has none.
    pub owner: String,
    /// The plan for the pod: Evict, Await (it ends by itself), Leave, Refuse.
    pub verdict: String,
    /// All reasons for the plan.
    pub reasons: Vec<String>,
    /// Stage of the pod.
    pub stage: String,
    /// Time since when the pod is in this stage.
    pub since: GoTime,
    /// Number of evictions tried.
    pub tries: u32,
    /// The last answer of the API server, in words.
    pub detail: String,
}

/// Explains why a pod does not leave.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Blocked {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// Cause: a budget, a webhook, a finalizer, a dead kubelet.
    pub cause: String,
    /// The budgets that select the pod.
    pub budgets: Vec<Budget>,
    /// Component behind the refusal (a migration, a last replica), if recognised.
    pub holder: String,
    /// Hint for the operator.
    pub hint: String,
}

/// A `PodDisruptionBudget` and its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Budget {
    /// Name of the budget; its namespace is the pod's.
    pub name: String,
    /// Number of healthy pods now.
    pub current_healthy: i32,
    /// Number of healthy pods that the budget wants.
    pub desired_healthy: i32,
    /// Number of evictions that the budget allows now.
    pub disruptions_allowed: i32,
    /// The pods that are not healthy, and the nodes that they are on.
    pub unhealthy_pods: Vec<String>,
}

/// A volume that the drain waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct VolumeLine {
    /// Name of the `PersistentVolume`.
    pub pv: String,
    /// `namespace/name` of the pod that used it.
    pub pod: String,
    /// Stage of the volume: detaching, or attaching elsewhere.
    pub stage: String,
    /// Time since when the volume is in this stage.
    pub since: GoTime,
}

/// The slot of this node: the permission of the fleet to be down.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Slot {
    /// This node has a slot.
    pub held: bool,
    /// Time since when this node waits for a slot; unset if it does not wait.
    pub waiting_since: GoTime,
    /// The nodes that have a slot.
    pub holders: Vec<String>,
    /// The nodes whose entries say that this node's entry was abandoned. While `Held` is true, that is not so.
    pub passed_over_by: Vec<String>,
}

/// An input file that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RefusedInput {
    /// Path of the file.
    pub path: String,
    /// Reason of the refusal, and what is accepted.
    pub reason: String,
}

/// Result of a preflight: it tries out everything that a drain needs, at the start, with new credentials, after a
/// refusal, and daily.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Preflight {
    /// When the last preflight ended.
    pub at: GoTime,
    /// Problems with which a drain would fail; most important first, at most 16.
    pub problems: Vec<PreflightProblem>,
    /// Whole days until our client certificate or token expires, rounded down; negative when it has expired; null if no
    /// expiry is known.
    pub credentials_expire_in_days: Option<i64>,
}

/// Something that a drain needs and that does not work now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PreflightProblem {
    /// The part that was tried: API, Identity, Rights, Slots, Credentials, Budgets, Cluster (whether it can be told from
    /// another one), Confinement, Means (to take the device down), Node (a condition of it that stops no drain).
    pub what: String,
    /// What failed.
    pub text: String,
    /// Hint for a person.
    pub hint: String,
}

impl PreflightProblem {
    /// True if a drain would fail with it. Others are only worth a look.
    pub fn stops_a_drain(&self) -> bool {
        matches!(self.what.as_str(), "API" | "Identity" | "Rights" | "Slots" | "Budgets" | "Means")
    }
}

/// Number of entries of each list that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Omitted {
    /// Left out of `Requests`.
    pub requests: u32,
    /// Left out of `Attempts`: the oldest.
    pub attempts: u32,
    /// Left out of `Pods`; blocked pods are kept first.
    pub pods: u32,
    /// Left out of `Blocked`.
    pub blocked: u32,
    /// Left out of `Volumes`.
    pub volumes: u32,
    /// Left out of `Refused`.
    pub refused: u32,
}

#[cfg(test)]
mod tests;
