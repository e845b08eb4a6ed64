//! What the sentinel says: whether this host asks for a reboot, and what it has commanded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Topic};

/// Whether this host asks for a reboot (settings `sentinel.path` and `sentinel.command`). Publisher sentinel, key
/// `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SentinelStatus {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The state.
    pub state: SentinelState,
    /// Why a reboot is needed, or why that cannot be told; empty if neither.
    pub reason: String,
    /// When this state and this reason began.
    pub since: GoTime,
}

/// State of the sentinel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum SentinelState {
    /// Neither setting is set: nothing is asked.
    #[default]
    Off,
    /// The host needs no reboot.
    NotNeeded,
    /// The host needs a reboot, and it is commanded: DeviceOpStatus says how far it is.
    Commanded,
    /// The host asks again, but the one reboot of this boot was taken back, because it did not ask for a while.
    TakenBack,
    /// The host still asks as it did before the boot that its own command caused: no reboot helps.
    StillAsks,
    /// It is not known whether the host needs a reboot. What was commanded stays commanded.
    Unknown,
}

impl Topic for SentinelStatus {
    const NAME: &'static str = "SentinelStatus";
}

/// The reboot that the sentinel has commanded last, so that a host that still asks after it does not reboot without end.
/// Persistent; publisher sentinel, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct SentinelRecord {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot in which it was commanded.
    pub boot_id: String,
    /// Identifies what asked: another text of the file gives another mark.
    pub mark: String,
    /// True if the host did not ask any more, and the command was taken back.
    pub taken_back: bool,
}

impl Topic for SentinelRecord {
    const NAME: &'static str = "SentinelRecord";
}
