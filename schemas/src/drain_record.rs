//! What zedkube keeps in this boot, so that a restarted one goes on where it was killed.
//!
//! All times are milliseconds of `CLOCK_BOOTTIME`: they mean nothing in another boot, and neither does the record. Pods
//! are never in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DrainRequester, DrainStatus, OtherHolders, Outcome, Topic};

/// The record of zedkube, key `global`. Its only reader is zedkube itself, and people.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "a flat topic; each of them is one fact that stands alone")]
pub struct DrainRecord {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot that it is of.
    pub boot_id: String,
    /// UUID of the drain.
    pub drain_id: String,
    /// The status that was shown.
    pub status: DrainStatus,
    /// Whose number it carried.
    pub requested_by: DrainRequester,
    /// Where the drain is.
    pub phase: RecordedPhase,
    /// Since when.
    pub since: u64,
    /// The standing requests and their answers.
    pub requests: Vec<RecordedRequest>,
    /// Number of the drain in this boot.
    pub number: u64,
    /// When it began.
    pub started: Option<u64>,
    /// When it ended.
    pub finished: Option<u64>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The attempts that are over.
    pub attempts: Vec<RecordedAttempt>,
    /// The node was cordoned by somebody else before.
    pub cordoned_before: bool,
    /// Pods that have left in attempts that are over.
    pub gone: u64,
    /// The attempt that runs, or ran last.
    pub attempt: Option<RecordedClock>,
    /// A cordon of ours may be on the node.
    pub may_be_cordoned: bool,
    /// An unannotated cordon would be adopted.
    pub adopts: bool,
    /// The API server has been away since then.
    pub api_away_since: Option<u64>,
    /// Whether other nodes had a slot when it last answered.
    pub others: OtherHolders,
    /// It was asked about the membership in this boot, and has listed its nodes or was away for too long.
    pub looked: bool,
    /// An operator's order whose file is being renamed.
    pub pending: Option<RecordedOrder>,
    /// COMPLETE by force.
    pub forced: Option<RecordedOrder>,
    /// Drains are switched off.
    pub disabled: Option<RecordedOrder>,
    /// An order that came when all whom it names had their COMPLETE.
    pub needless: Option<RecordedOrder>,
}

impl Topic for DrainRecord {
    const NAME: &'static str = "DrainRecord";
}

/// Where the drain is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RecordedPhase {
    /// Its name.
    pub name: RecordedPhaseName,
    /// Attempt that runs, or failed last.
    pub attempt: u32,
    /// When that attempt began; in Waiting when the waiting began.
    pub started: u64,
    /// When its cordon began.
    pub began: u64,
    /// Tries to cordon that failed.
    pub failures: u32,
    /// The attempt that is cordoned for had begun before.
    pub resumes: bool,
    /// When the pause is over.
    pub until: u64,
    /// Why the node may go down.
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub error: String,
}

/// The phases that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum RecordedPhaseName {
    /// Nobody asks.
    #[default]
    Idle,
    /// Before the cordon.
    Waiting,
    /// Cordoning.
    Cordoning,
    /// Pods are leaving.
    Attempting,
    /// Between two attempts.
    Pausing,
    /// The node may go down.
    Complete,
    /// It could not be cordoned.
    FailedCordon,
    /// It could not be drained.
    FailedDrain,
}

/// A standing request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RecordedRequest {
    /// Who asks.
    pub requested_by: DrainRequester,
    /// What for.
    pub context: String,
    /// The request's own time, as its file has it.
    pub requested_at: String,
    /// The agent whose folder holds it.
    pub publisher: String,
    /// 0, 6, 8 or 9.
    pub answer: DrainStatus,
    /// The answer is an operator's.
    pub forced: bool,
    /// Who forced it, and why.
    pub by: String,
}

/// An attempt that is over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RecordedAttempt {
    /// From 1.
    pub number: u32,
    /// When it began.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// Why.
    pub error: String,
}

/// What an attempt must not forget.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RecordedClock {
    /// When it began.
    pub started: u64,
    /// When it has failed.
    pub deadline: u64,
    /// How long the API server was away in it.
    pub away_total: u64,
}

/// An operator's order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RecordedOrder {
    /// 9 COMPLETE, 1 NOTSUPPORTED (drains off), 2 NOTREQUESTED (drains on).
    pub status: DrainStatus,
    /// For whom.
    pub requested_by: DrainRequester,
    /// Who says so, and why.
    pub by: String,
    /// Since when.
    pub since: u64,
    /// Until when it waits for a request.
    pub until: u64,
    /// It has answered one.
    pub used: bool,
    /// How the drain had ended when it came too late.
    pub outcome: Option<Outcome>,
}
