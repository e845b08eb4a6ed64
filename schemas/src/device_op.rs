//! Commands to take the device down, and how far the gate in front of them is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Source, Topic};

/// What may be done to the device. The names are the keys of [`DeviceOpsCmd`] and the context of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Down and up again.
    Reboot,
    /// Applications stop, the device stays up.
    Shutdown,
    /// Down, and stays down.
    Poweroff,
}

impl Operation {
    /// All three, most far-reaching first: the order in which pending ones are served.
    pub const ALL: [Self; 3] = [Self::Poweroff, Self::Reboot, Self::Shutdown];

    /// The key of its command, and the context of its drain request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::Shutdown => "shutdown",
            Self::Poweroff => "poweroff",
        }
    }

    /// The operation with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// File below `/persist/status` that holds the recorded counter, EVE's name.
    pub const fn counter_file(self) -> &'static str {
        match self {
            Self::Reboot => "rebootConfig",
            Self::Shutdown => "shutdownConfig",
            Self::Poweroff => "poweroffConfig",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A command of the controller, or a recorded counter file; EVE's struct. Keys `reboot`, `shutdown`, `poweroff`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceOpsCmd {
    /// A command is new when its counter differs from the recorded one.
    pub counter: u32,
    /// False takes the command back.
    pub desired_state: bool,
    /// When it was given, as the controller wrote it.
    pub ops_time: String,
}

impl Topic for DeviceOpsCmd {
    const NAME: &'static str = "DeviceOpsCmd";
}

/// How far the gate is with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeviceOpState {
    /// Nothing is pending.
    #[default]
    Idle,
    /// Pending; something blocks it.
    Deferred,
    /// Released to nodeagent.
    HandedOver,
    /// The drain or the operation failed.
    Failed,
}

/// What the gate in front of device operations does. Publisher zedagent, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceOpStatus {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The operation; null when idle.
    pub operation: Option<Operation>,
    /// Its command's counter.
    pub counter: u32,
    /// How far it is.
    pub state: DeviceOpState,
    /// Since when.
    pub since: GoTime,
    /// What blocks it; empty when nothing does.
    pub blocked_by: String,
    /// Why it was released: drained, not a member, forced, on time-out.
    pub release: String,
    /// When a failed one is tried again; unset when it is not.
    pub next_try: GoTime,
    /// The source of the command.
    pub source: Source,
    /// An operator allows nodeagent to act although it cannot write its ActionRecord.
    pub without_record: bool,
    /// The boot of which this speaks: nodeagent obeys no other one's.
    pub boot_id: String,
}

impl Topic for DeviceOpStatus {
    const NAME: &'static str = "DeviceOpStatus";
}
