//! Topics that nodeagent reads and publishes: EVE's two topics and our `DeviceAction`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{GoTime, Operation, Source, Topic};

/// Why the device booted, in EVE's numbers. Numbers of a newer EVE are passed through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct BootReason(pub u8);

impl BootReason {
    /// The reason is not known.
    pub const NONE: Self = Self(0);
    /// This was the first boot of the device.
    pub const FIRST: Self = Self(1);
    /// The device booted because of a reboot command.
    pub const REBOOT_COMMAND: Self = Self(2);
    /// The device booted into a new image.
    pub const UPDATE: Self = Self(3);
    /// The previous boot left no reason.
    pub const UNKNOWN: Self = Self(12);
    /// The device was switched off by a poweroff command.
    pub const POWEROFF_COMMAND: Self = Self(14);
    /// The previous boot left a reason that cannot be read.
    pub const PARSE_FAIL: Self = Self(255);

    /// EVE's names of the reasons, as in `/persist/boot-reason`.
    const NAMES: [(Self, &'static str); 18] = [
        (Self::NONE, "BootReasonNone"),
        (Self::FIRST, "BootReasonFirst"),
        (Self::REBOOT_COMMAND, "BootReasonRebootCmd"),
        (Self::UPDATE, "BootReasonUpdate"),
        (Self(4), "BootReasonFallback"),
        (Self(5), "BootReasonDisconnect"),
        (Self(6), "BootReasonFatal"),
        (Self(7), "BootReasonOOM"),
        (Self(8), "BootReasonWatchdogHung"),
        (Self(9), "BootReasonWatchdogPid"),
        (Self(10), "BootReasonKernel"),
        (Self(11), "BootReasonPowerFail"),
        (Self::UNKNOWN, "BootReasonUnknown"),
        (Self(13), "BootReasonVaultFailure"),
        (Self::POWEROFF_COMMAND, "BootReasonPoweroffCmd"),
        (Self(15), "BootReasonKubeTransition"),
        (Self(16), "BootReasonHWWatchdog"),
        (Self::PARSE_FAIL, "BootReasonParseFail"),
    ];

    /// EVE's name of the reason.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(reason, _)| *reason == self);
        named.map_or("BootReasonUnknown", |(_, name)| name)
    }

    /// The reason with this name; [`BootReason::PARSE_FAIL`] if the name is unknown.
    pub fn from_name(name: &str) -> Self {
        let named = Self::NAMES.into_iter().find(|(_, known)| *known == name);
        named.map_or(Self::PARSE_FAIL, |(reason, _)| reason)
    }
}

/// EVE's status of nodeagent. Key `nodeagent`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "EVE's struct, field by field")]
pub struct NodeAgentStatus {
    /// Name of the agent; also the key.
    pub name: String,
    /// The partition that runs.
    pub cur_part: String,
    /// An image is being tested.
    pub update_inprogress: bool,
    /// Nanoseconds left of that test.
    pub remaining_test_time: i64,
    /// A reboot is under way.
    pub device_reboot: bool,
    /// A shutdown is under way.
    pub device_shutdown: bool,
    /// A poweroff is under way.
    pub device_poweroff: bool,
    /// All applications have stopped.
    pub all_domains_halted: bool,
    /// Reason why the device last went down.
    pub reboot_reason: String,
    /// The same reason as a number.
    pub boot_reason: BootReason,
    /// Stack of the crash, if there was one.
    pub reboot_stack: String,
    /// When the device last went down.
    pub reboot_time: GoTime,
    /// Number of boots.
    pub restart_counter: u32,
    /// The partition that ran when the device went down.
    pub reboot_image: String,
    /// The device is in maintenance mode for a local reason.
    pub local_maintenance_mode: bool,
    /// The local reasons for maintenance mode; null if none. EVE's own form is kept.
    pub local_maintenance_mode_reasons: Value,
    /// This EVE runs Kubernetes.
    #[serde(rename = "HVTypeKube")]
    pub hv_type_kube: bool,
    /// A drain for a device operation is under way: NodeDrainStatus 3 to 8 for requester 2.
    pub wait_drain_in_progress: bool,
}

impl NodeAgentStatus {
    /// Beginning of `RebootReason` after a reboot that was commanded, as EVE writes it.
    pub const NORMAL: &str = "NORMAL: ";
}

impl Topic for NodeAgentStatus {
    const NAME: &'static str = "NodeAgentStatus";
}

/// EVE's status of zedagent, key `zedagent`: nodeagent obeys its commands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "EVE's struct, field by field")]
pub struct ZedAgentStatus {
    /// Name of the agent; also the key.
    pub name: String,
    /// How zedagent got its configuration: 1 success, 2 fail, 3 temporary fail, 4 read from a saved copy.
    pub config_get_status: u8,
    /// Command: reboot now.
    pub reboot_cmd: bool,
    /// Command: stop the applications now.
    pub shutdown_cmd: bool,
    /// Command: power off now.
    pub poweroff_cmd: bool,
    /// Reason of the command, for the next boot to report.
    pub requested_reboot_reason: String,
    /// The same reason as a number.
    pub requested_boot_reason: BootReason,
    /// The device is in maintenance mode: it runs no applications.
    pub maintenance_mode: bool,
    /// The reasons for maintenance mode; null if none. EVE's own form is kept.
    pub maintenance_mode_reasons: Value,
    /// The controller refused this device's certificates.
    pub edge_node_certs_refused: bool,
    /// Number of forced fallbacks to the other image.
    pub force_fallback_counter: i64,
    /// Name of the local profile.
    pub current_profile: String,
    /// State of the radios.
    pub radio_silence: RadioSilence,
    /// EVE's device state: 1 online, 2 rebooting, 7 powering off, …
    pub device_state: u8,
    /// EVE's attestation state.
    pub attest_state: u8,
    /// Error of the attestation; empty if there is none.
    pub attest_error: String,
    /// EVE's state of the vault.
    pub vault_status: i32,
    /// EVE's state of the measured boot registers (PCRs).
    #[serde(rename = "PCRStatus")]
    pub pcr_status: i32,
    /// Error of the vault; empty if there is none.
    pub vault_err: String,
    /// The device has no controller, by design.
    pub airgap_mode: bool,
    /// URL of the local operator console.
    #[serde(rename = "LOCUrl")]
    pub loc_url: String,
}

impl Topic for ZedAgentStatus {
    const NAME: &'static str = "ZedAgentStatus";
}

/// State of the radios; part of [`ZedAgentStatus`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RadioSilence {
    /// The radios are off.
    pub imposed: bool,
    /// The radios are being switched.
    pub change_in_progress: bool,
    /// When the change was requested.
    pub change_requested_at: GoTime,
    /// Error of the last change; empty if there is none.
    pub config_error: String,
}

/// State of an action in nodeagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeviceActionState {
    /// There is nothing to do.
    #[default]
    Idle,
    /// A command is accepted; it can still be withdrawn.
    Taken,
    /// The point of no return is passed.
    Acting,
    /// The action is done; only for actions that do not end in a boot.
    Done,
    /// The action failed: all ways to take the device down were tried.
    Failed,
}

/// The action that nodeagent carries out. Publisher nodeagent, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceAction {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The operation; null when idle.
    pub command: Option<Operation>,
    /// Counter of the command; 0 for a reboot into an image.
    pub counter: u32,
    /// UUID of the image that the device reboots into; empty for a command of device-op.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// State of the action.
    pub state: DeviceActionState,
    /// Reason why an accepted action waits; empty if it does not wait.
    pub blocked_by: String,
    /// Error of the action; empty if there is none.
    pub error: String,
    /// Time since when the action is in this state.
    pub since: GoTime,
    /// Counter of the last shutdown that was completed in this boot: it is not done again. Null if there was none.
    pub shutdown_done: Option<u32>,
    /// Source of that shutdown.
    pub shutdown_source: Source,
    /// The boot in which this was written. A reader in another boot takes the state for Idle.
    pub boot_id: String,
    /// Source of the command.
    pub source: Source,
    /// Number of the action that runs or began last: how often the point of no return was passed in this boot for the
    /// command in `Acted`. 0 before the first.
    pub tries: u32,
    /// The command for which the point of no return was passed last in this boot; null if there was none.
    pub acted: Option<ActedCommand>,
    /// The method (command or service) used last in this action to take the device down; null before the first.
    pub trial: Option<DeviceTrial>,
    /// The methods by which this device can reboot and power off, in the order in which they are tried. Empty: there is
    /// none, and a drain for a reboot would be in vain. Null: not known yet.
    pub means: Option<Vec<String>>,
}

impl DeviceAction {
    /// Limit of tries of a command in one boot. A method may restart everything except the kernel, as a soft
    /// reboot does. The command is then still pending, and without a limit the device would reboot again and again.
    pub const MOST_TRIES: u32 = 3;

    /// The only entry of `Means` in a dry run: the action is written to a file, and the device stays up.
    pub const DRY_RUN: &str = "dry run";

    /// True if nodeagent is past the point of no return in the boot with this id.
    pub fn takes_down(&self, boot_id: &str) -> bool {
        self.state == DeviceActionState::Acting && !self.is_dry_run() && self.boot_id == boot_id
    }

    /// True if actions are only written to a file (setting `device.dry-run`).
    pub fn is_dry_run(&self) -> bool {
        self.means.as_ref().is_some_and(|means| means.iter().any(|name| name == Self::DRY_RUN))
    }
}

impl Topic for DeviceAction {
    const NAME: &'static str = "DeviceAction";
}

/// Identifies a command; part of [`DeviceAction`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ActedCommand {
    /// Source of the command.
    pub source: Source,
    /// The operation of the command.
    pub command: Option<Operation>,
    /// Counter of the command; 0 for a reboot into an image.
    pub counter: u32,
    /// UUID of the image; empty for a command of device-op.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
}

/// A method that was used to take the device down; part of [`DeviceAction`]. A restarted nodeagent does not start the
/// method again: it waits for the rest of the method's time, then goes on with the next method.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceTrial {
    /// Index of the method in `Means`, from 0.
    pub means: u32,
    /// When the method's time ends, in milliseconds of this boot's clock.
    pub until_ms: u64,
}

/// Durable proof that the point of no return was passed, written before the device is touched. A reader in a later boot
/// knows from it that the command was carried out. Removed if no method worked. Persistent; publisher nodeagent, key
/// `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ActionRecord {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot in which the action was begun.
    pub boot_id: String,
    /// Source of the command.
    pub source: Source,
    /// The operation of the command.
    pub command: Option<Operation>,
    /// Counter of the command; 0 for a reboot into an image.
    pub counter: u32,
    /// UUID of the image; empty for a command of device-op.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// Number of tries of the action in that boot.
    pub tries: u32,
}

impl Topic for ActionRecord {
    const NAME: &'static str = "ActionRecord";
}
