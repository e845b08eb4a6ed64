//! Commands that take the device down, and the state of the gate in front of them.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Source, Topic, WindowStatus};

/// An operation on the device. The names are the keys of [`DeviceOpsCmd`] and the context of drain requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// The device goes down and comes up again.
    Reboot,
    /// The applications stop; the device stays up.
    Shutdown,
    /// The device goes down and stays down.
    Poweroff,
}

impl Operation {
    /// All three operations. Pending commands are carried out in this order: the one with the greatest effect first.
    pub const ALL: [Self; 3] = [Self::Poweroff, Self::Reboot, Self::Shutdown];

    /// Name of the operation: the key of its command, and the context of its drain request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::Shutdown => "shutdown",
            Self::Poweroff => "poweroff",
        }
    }

    /// The operation with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Name of the file below `/persist/status` that holds the recorded counter of this operation. EVE uses the same
    /// name.
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

/// A command of one source, or a recorded counter; EVE's struct. Keys `reboot`, `shutdown`, `poweroff`.
///
/// The last five fields are ours. They are written only if they are true, set or have text, so that everything that EVE reads
/// or writes has EVE's form. They count only in a command that a person gave; `Reason` also in one of the cluster or the host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DeviceOpsCmd {
    /// Counter of the command. A command is new if its counter differs from the recorded one. A file without a counter
    /// is refused.
    pub counter: u32,
    /// False withdraws the command.
    #[serde(default)]
    pub desired_state: bool,
    /// Time at which the command was given, as its source wrote it.
    #[serde(default)]
    pub ops_time: String,
    /// The operator said `--now`: neither a freeze nor the maintenance window holds this command back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub now: bool,
    /// The operator said `--without-record`: this command is carried out although `/persist` takes no record of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub without_record: bool,
    /// The operator said `--at` or `--in`: the command waits until then.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub not_before: GoTime,
    /// The person who gave the command; also in the reboot reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The reason for the command, in words; also in the reboot reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// For serde, which passes a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// For serde, which passes a reference.
fn is_unset(time: &GoTime) -> bool {
    time.is_zero()
}

impl Topic for DeviceOpsCmd {
    const NAME: &'static str = "DeviceOpsCmd";
}

/// State of the gate in front of a device operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeviceOpState {
    /// No operation is pending.
    #[default]
    Idle,
    /// An operation is pending, and something blocks it.
    Deferred,
    /// The operation was handed over to nodeagent.
    HandedOver,
    /// The drain or the operation failed.
    Failed,
}

/// An operator withdraws a command of another source: its counter counts as done until a new one comes. Publisher
/// `ebb`, key `<source>.<operation>`, such as `controller.reboot`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CancelCommand {
    /// Counter of the withdrawn command.
    pub counter: u32,
    /// The person who withdraws it.
    #[serde(default)]
    pub by: String,
    /// Reason of the withdrawal.
    #[serde(default)]
    pub reason: String,
}

impl Topic for CancelCommand {
    const NAME: &'static str = "CancelCommand";
}

impl CancelCommand {
    /// The key under which a command of this source and operation is withdrawn.
    pub fn key(source: Source, operation: Operation) -> String {
        format!("{source}.{operation}")
    }
}

/// The fate of a command that device-op knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CommandState {
    /// Only the command's counter was recorded, because the command may be an old one. It is never carried out.
    Recorded,
    /// The command was accepted; something holds it back.
    Waiting,
    /// The command was handed over to nodeagent.
    HandedOver,
    /// The command was carried out.
    Done,
    /// The command was withdrawn before it was carried out.
    TakenBack,
    /// The command was not carried out. The reason says whether it is tried again.
    Failed,
}

/// The last command of one source and operation, and its fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CommandLine {
    /// The source that gave the command.
    pub source: Source,
    /// The operation of the command.
    pub operation: Operation,
    /// Counter of the command.
    pub counter: u32,
    /// State of the command.
    pub state: CommandState,
    /// Reason of this state, and what to do about it; empty if there is nothing to say.
    #[serde(default)]
    pub reason: String,
}

/// For one source, the counters of the commands that were carried out last (accepted commands do not count); null if
/// none was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DoneCounters {
    /// Counter of the last reboot.
    pub reboot: Option<u32>,
    /// Counter of the last shutdown.
    pub shutdown: Option<u32>,
    /// Counter of the last poweroff.
    pub poweroff: Option<u32>,
}

impl DoneCounters {
    /// Records that the command with this counter was carried out.
    pub const fn set(&mut self, operation: Operation, counter: u32) {
        match operation {
            Operation::Reboot => self.reboot = Some(counter),
            Operation::Shutdown => self.shutdown = Some(counter),
            Operation::Poweroff => self.poweroff = Some(counter),
        }
    }

    /// Counter of the command that was carried out last.
    pub const fn get(&self, operation: Operation) -> Option<u32> {
        match operation {
            Operation::Reboot => self.reboot,
            Operation::Shutdown => self.shutdown,
            Operation::Poweroff => self.poweroff,
        }
    }
}

/// State of the gate in front of device operations. Publisher device-op, in EVE's folder `zedagent`; key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceOpStatus {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The pending operation; null when idle.
    pub operation: Option<Operation>,
    /// Counter of the operation's command.
    pub counter: u32,
    /// Source of the operation's command.
    pub source: Source,
    /// The person who gave the operation's command; empty if no person did, or if it is not known.
    pub by: String,
    /// That person's reason for the command; empty if there is none.
    pub reason: String,
    /// State of the gate.
    pub state: DeviceOpState,
    /// Time since when the gate is in this state.
    pub since: GoTime,
    /// Reason why the operation waits; empty if it does not wait.
    pub blocked_by: String,
    /// device-op cannot write or do what it has decided, as `BlockedBy` says: `/persist` is full, for example. Nothing
    /// goes on, not even a new command; it tries again by itself.
    pub stuck: bool,
    /// Reason why the gate let the operation pass: drained, not a member, forced, on time-out.
    pub release: String,
    /// Time of the next try after a failure; unset if there will be none.
    pub next_try: GoTime,
    /// Seconds after which the operation goes on WITHOUT a drain, because zedkube does not run or hangs; counted from
    /// the writing of this file, which is repeated every few seconds. Null if it waits without limit.
    pub undrained_in_seconds: Option<u64>,
    /// An operator said `--without-record`: the operation may be carried out although `/persist` takes no record of it.
    /// The next boot, whatever caused it, counts the operation as done.
    pub without_record: bool,
    /// Counters of the commands that were carried out, by source.
    pub done: BTreeMap<Source, DoneCounters>,
    /// The last command of each source and operation that device-op knows, with its fate.
    pub commands: Vec<CommandLine>,
    /// The maintenance window; null if none is set.
    pub window: Option<WindowStatus>,
    /// The boot in which this was written: nodeagent ignores a status of another boot.
    pub boot_id: String,
}

impl Topic for DeviceOpStatus {
    const NAME: &'static str = "DeviceOpStatus";
}
