//! Commands to take the device down, and how far the gate in front of them is.

use std::collections::BTreeMap;
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

/// A command of one source, or a recorded counter file; EVE's struct. Keys `reboot`, `shutdown`, `poweroff`.
///
/// The last two fields are ours. They are written only where they are true, and count only in a command that a person
/// gave, so that everything that EVE reads or writes has EVE's form.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DeviceOpsCmd {
    /// A command is new when its counter differs from the recorded one. A file without a counter is refused.
    pub counter: u32,
    /// False takes the command back.
    #[serde(default)]
    pub desired_state: bool,
    /// When it was given, as its source wrote it.
    #[serde(default)]
    pub ops_time: String,
    /// The operator said `--now`: a freeze does not hold this command back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub now: bool,
    /// The operator said `--without-record`: this command is carried out although `/persist` takes no record of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub without_record: bool,
}

/// For serde, which hands a reference over.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(value: &bool) -> bool {
    !*value
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

/// An operator takes another source's command back: its counter counts as done until a new one comes. Publisher `ebb`,
/// key `<source>.<operation>`, such as `controller.reboot`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CancelCommand {
    /// The counter of the command.
    pub counter: u32,
    /// Who takes it back.
    #[serde(default)]
    pub by: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

impl Topic for CancelCommand {
    const NAME: &'static str = "CancelCommand";
}

impl CancelCommand {
    /// The key under which the command of this source is taken back.
    pub fn key(source: Source, operation: Operation) -> String {
        format!("{source}.{operation}")
    }
}

/// What has become of a command that device-op knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CommandState {
    /// Only its counter was recorded, because nobody can tell whether it is an old one: it is never carried out.
    Recorded,
    /// Accepted; something holds it back.
    Waiting,
    /// Released to nodeagent.
    HandedOver,
    /// Carried out.
    Done,
    /// Taken back before it was carried out.
    TakenBack,
    /// Not carried out; the reason says whether it is tried again.
    Failed,
}

/// The last command of one source and operation, and what has become of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CommandLine {
    /// Who gave it.
    pub source: Source,
    /// What was to be done.
    pub operation: Operation,
    /// Its counter.
    pub counter: u32,
    /// What has become of it.
    pub state: CommandState,
    /// Why, and what to do; empty when there is nothing to say.
    #[serde(default)]
    pub reason: String,
}

/// The counters of one source that were carried out last, not merely accepted; null for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DoneCounters {
    /// Of a reboot.
    pub reboot: Option<u32>,
    /// Of a shutdown.
    pub shutdown: Option<u32>,
    /// Of a poweroff.
    pub poweroff: Option<u32>,
}

impl DoneCounters {
    /// Notes that this counter was carried out.
    pub const fn set(&mut self, operation: Operation, counter: u32) {
        match operation {
            Operation::Reboot => self.reboot = Some(counter),
            Operation::Shutdown => self.shutdown = Some(counter),
            Operation::Poweroff => self.poweroff = Some(counter),
        }
    }

    /// The counter that was carried out last.
    pub const fn get(&self, operation: Operation) -> Option<u32> {
        match operation {
            Operation::Reboot => self.reboot,
            Operation::Shutdown => self.shutdown,
            Operation::Poweroff => self.poweroff,
        }
    }
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
    /// Where its command comes from.
    pub source: Source,
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
    /// An operator said `--without-record`: it may be carried out although `/persist` takes no record of it. Any other
    /// boot counts it as done.
    pub without_record: bool,
    /// The counters that were carried out, by source.
    pub done: BTreeMap<Source, DoneCounters>,
    /// The last command of each source and operation that device-op knows, and what has become of it.
    pub commands: Vec<CommandLine>,
    /// The boot of which this speaks: nodeagent obeys no other one's.
    pub boot_id: String,
}

impl Topic for DeviceOpStatus {
    const NAME: &'static str = "DeviceOpStatus";
}
