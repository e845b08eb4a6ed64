//! Everything about a drain that EVE's two-field status cannot say: why, since when, which pods, what to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DrainRequester, DrainStatus, GoTime, Topic};

/// Version of the topics of ours. Raised when a field changes its meaning; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Whether this device is part of a cluster, as far as zedkube knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Member {
    /// Drains are needed.
    Yes,
    /// A single device: nothing to drain.
    No,
    /// Not known yet; treated as a member.
    #[default]
    Unknown,
}

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// Proven empty.
    Drained,
    /// The API could not be reached for too long; the policy lets the device go down.
    ApiUnreachable,
    /// No other node could take the pods; the policy lets the device go down.
    NoSchedulablePeer,
    /// An operator's override.
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
    /// The node may go down: it is drained, or a policy or an operator lets it go without.
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

/// The report of zedkube, key `global`. Times are shown only; nothing is decided by them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeDrainReport {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// UUID of the drain; empty when there was none in this boot.
    pub drain_id: String,
    /// The boot in which this was written.
    pub boot_id: String,
    /// Name of the Kubernetes node; empty while not known.
    pub node: String,
    /// The state machine's own name of its state.
    pub phase: String,
    /// Since when in this phase.
    pub since: GoTime,
    /// When the drain was accepted.
    pub started_at: GoTime,
    /// When it ended; unset while it runs.
    pub finished_at: GoTime,
    /// How it ended; null while it runs.
    pub outcome: Option<Outcome>,
    /// One plain sentence: why it is as it is.
    pub reason: String,
    /// What the operator can do next.
    pub hint: String,
    /// Whether this device is part of a cluster.
    pub member: Member,
    /// Set while an operator has switched drains off.
    pub disabled: Option<Disabled>,
    /// Set while an operator's override waits for the request that it answers.
    #[serde(rename = "Override")]
    pub forcing: Option<Forcing>,
    /// Set while the last order of an operator had nothing to do.
    pub spent_order: Option<SpentOrder>,
    /// The standing requests and their answers.
    pub requests: Vec<RequestLine>,
    /// Tries to cordon so far in this attempt.
    pub cordon_attempt: u32,
    /// Number of the running attempt, from 1.
    pub drain_attempt: u32,
    /// The attempts that have ended.
    pub attempts: Vec<Attempt>,
    /// When the running attempt gives up.
    pub deadline: GoTime,
    /// How many pods are where.
    pub progress: Progress,
    /// The pods of the node.
    pub pods: Vec<PodLine>,
    /// Why pods do not leave.
    pub blocked: Vec<Blocked>,
    /// Volumes that are waited for.
    pub volumes: Vec<VolumeLine>,
    /// The fleet-wide permission to be down.
    pub slot: Slot,
    /// The node was cordoned before the drain and stays so after it.
    pub cordoned_before: bool,
    /// Input files that were refused, and why.
    pub refused: Vec<RefusedInput>,
    /// What was found when everything that a drain needs was tried out, before anybody asks for one; null before the
    /// first time.
    pub preflight: Option<Preflight>,
    /// Entries that were left out so that the report fits [`crate::MAX_REPORT_BYTES`].
    pub omitted: Omitted,
}

impl Topic for NodeDrainReport {
    const NAME: &'static str = "NodeDrainReport";
}

impl NodeDrainReport {
    /// The line of the request that `publisher` made at `requested_at`, with the answer to it; nothing when the report does
    /// not list it.
    pub fn line_of(&self, publisher: &str, requested_at: GoTime) -> Option<&RequestLine> {
        self.requests
            .iter()
            .find(|request| request.publisher == publisher && request.requested_at == requested_at)
    }

    /// The pods that have not left and should have, as `namespace/name`. A report that lists none proves nothing: nobody
    /// may have looked.
    pub fn left(&self) -> Vec<String> {
        let has_to_leave = self.pods.iter().filter(|pod| pod.verdict != "Leave");
        has_to_leave.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()
    }
}

/// Drains are switched off by an operator, until the next boot or `ebb force enable`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Disabled {
    /// Since when.
    pub since: GoTime,
    /// Who did it, and how.
    pub by: String,
}

/// An operator has forced COMPLETE for requests that may still come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Forcing {
    /// Whose requests are answered; 1 = everybody's.
    pub requested_by: DrainRequester,
    /// Since when.
    pub since: GoTime,
    /// Until when.
    pub until: GoTime,
    /// Who did it, and why.
    pub by: String,
}

/// An operator's order that had nothing to do: all whom it names had their COMPLETE already. It counts for nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SpentOrder {
    /// Whose requests it was to answer; 1 = everybody's.
    pub requested_by: DrainRequester,
    /// When it came.
    pub since: GoTime,
    /// Who gave it, and why.
    pub by: String,
    /// The same in words: `nothing to force: already COMPLETE (Drained)`.
    pub text: String,
}

/// One standing request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RequestLine {
    /// Who asks.
    pub requested_by: DrainRequester,
    /// What for.
    pub context: String,
    /// The request's own time, which identifies it.
    pub requested_at: GoTime,
    /// The agent whose folder holds the request.
    pub publisher: String,
    /// 0 not yet, 6 and 8 failed, 9 the device may go down.
    pub answer: DrainStatus,
    /// Why the device may go down for it; null unless `Answer` is 9. Anything but Drained means NOT drained.
    pub outcome: Option<Outcome>,
    /// Who forced the answer, and why; empty unless `Outcome` is Forced.
    pub by: String,
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// When it began.
    pub started_at: GoTime,
    /// When it ended.
    pub ended_at: GoTime,
    /// Why it failed; empty when it did not.
    pub error: String,
}

/// How many of the pods that have to leave are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Progress {
    /// Pods that have to leave.
    pub total: u32,
    /// Gone.
    pub gone: u32,
    /// Deleted, not gone yet.
    pub terminating: u32,
    /// Refused by a budget or a webhook.
    pub blocked: u32,
    /// Not tried yet, or waiting for their turn.
    pub waiting: u32,
    /// Still on the node: `Total` less `Gone`. Pods that stay on purpose do not count.
    pub left: u32,
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodLine {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: a pod of the same name with another UID is another pod.
    pub uid: String,
    /// `Kind/name` of its controller; empty without one.
    pub owner: String,
    /// What the plan says: Evict, Await (it ends by itself), Leave, Refuse.
    pub verdict: String,
    /// All reasons for the verdict.
    pub reasons: Vec<String>,
    /// How far it is.
    pub stage: String,
    /// Since when in this stage.
    pub since: GoTime,
    /// Evictions tried.
    pub tries: u32,
    /// The last answer, in words.
    pub detail: String,
}

/// Why a pod does not leave.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Blocked {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// What holds it: a budget, a webhook, a finalizer, a dead kubelet.
    pub cause: String,
    /// The budgets that select it.
    pub budgets: Vec<Budget>,
    /// Who is behind it (a migration, a last replica), if recognised.
    pub holder: String,
    /// What the operator can do.
    pub hint: String,
}

/// A `PodDisruptionBudget` and its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Budget {
    /// Its name; the namespace is the pod's.
    pub name: String,
    /// Healthy pods now.
    pub current_healthy: i32,
    /// Healthy pods wanted.
    pub desired_healthy: i32,
    /// Evictions allowed now.
    pub disruptions_allowed: i32,
    /// The pods that make it unhealthy, and where they are.
    pub unhealthy_pods: Vec<String>,
}

/// A volume that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct VolumeLine {
    /// Name of the `PersistentVolume`.
    pub pv: String,
    /// `namespace/name` of the pod that used it.
    pub pod: String,
    /// Detaching, or attaching elsewhere.
    pub stage: String,
    /// Since when.
    pub since: GoTime,
}

/// The fleet-wide permission to be down.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Slot {
    /// This node has one.
    pub held: bool,
    /// Since when it waits for one; unset when it does not.
    pub waiting_since: GoTime,
    /// The nodes that have one.
    pub holders: Vec<String>,
}

/// An input file that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RefusedInput {
    /// The file.
    pub path: String,
    /// Why, and what is accepted.
    pub reason: String,
}

/// What a drain would need, tried out without one: at the start, with new credentials, after a refusal, and daily.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Preflight {
    /// When that was last done.
    pub at: GoTime,
    /// What would fail, most important first; at most 16.
    pub problems: Vec<PreflightProblem>,
    /// Whole days until our client certificate or token ends, rounded down, negative when it has ended; null when no end
    /// is known.
    pub credentials_expire_in_days: Option<i64>,
}

/// Something that a drain would need and that does not work now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PreflightProblem {
    /// What was tried: API, Identity, Rights, Confinement, Slots, Budgets, Credentials, Means (to take the device down).
    pub what: String,
    /// What happened.
    pub text: String,
    /// What a person can do.
    pub hint: String,
}

/// How many entries of each list were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Omitted {
    /// Of `Requests`.
    pub requests: u32,
    /// Of `Attempts`, the oldest.
    pub attempts: u32,
    /// Of `Pods`; those that block are kept first.
    pub pods: u32,
    /// Of `Blocked`.
    pub blocked: u32,
    /// Of `Volumes`.
    pub volumes: u32,
    /// Of `Refused`.
    pub refused: u32,
}

#[cfg(test)]
mod tests;
