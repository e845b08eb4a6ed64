//! What nodeagent is told, and what it says: EVE's two topics and our `DeviceAction`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{GoTime, Operation, Source, Topic};

/// Why the device booted, EVE's numbers. Numbers of a newer EVE pass through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct BootReason(pub u8);

impl BootReason {
    /// Not known.
    pub const NONE: Self = Self(0);
    /// The first boot of this device.
    pub const FIRST: Self = Self(1);
    /// A reboot command.
    pub const REBOOT_COMMAND: Self = Self(2);
    /// A new image.
    pub const UPDATE: Self = Self(3);
    /// No reason was left behind.
    pub const UNKNOWN: Self = Self(12);
    /// A poweroff command.
    pub const POWEROFF_COMMAND: Self = Self(14);
    /// A reason was left behind that nobody can read.
    pub const PARSE_FAIL: Self = Self(255);

    /// EVE's names, as they stand in `/persist/boot-reason`.
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

    /// The reason with this name; [`BootReason::PARSE_FAIL`] for a name that we do not know.
    pub fn from_name(name: &str) -> Self {
        let named = Self::NAMES.into_iter().find(|(_, known)| *known == name);
        named.map_or(Self::PARSE_FAIL, |(reason, _)| reason)
    }
}

/// EVE's status of nodeagent, key `nodeagent`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "EVE's struct, field by field")]
pub struct NodeAgentStatus {
    /// The agent's name; also the key.
    pub name: String,
    /// Partition that runs.
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
    /// Why the device last went down.
    pub reboot_reason: String,
    /// The same as a number.
    pub boot_reason: BootReason,
    /// Stack of a crash.
    pub reboot_stack: String,
    /// When it went down.
    pub reboot_time: GoTime,
    /// Number of boots.
    pub restart_counter: u32,
    /// Partition that ran then.
    pub reboot_image: String,
    /// Maintenance mode for a local reason.
    pub local_maintenance_mode: bool,
    /// The local reasons; null without. EVE's own form is kept.
    pub local_maintenance_mode_reasons: Value,
    /// This EVE runs Kubernetes.
    #[serde(rename = "HVTypeKube")]
    pub hv_type_kube: bool,
    /// A drain for a device operation is under way: NodeDrainStatus 3 to 8 for requester 2.
    pub wait_drain_in_progress: bool,
}

impl Topic for NodeAgentStatus {
    const NAME: &'static str = "NodeAgentStatus";
}

/// EVE's status of zedagent, key `zedagent`: the commands that nodeagent obeys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "EVE's struct, field by field")]
pub struct ZedAgentStatus {
    /// The agent's name; also the key.
    pub name: String,
    /// 1 success, 2 fail, 3 temporary fail, 4 read from a saved copy.
    pub config_get_status: u8,
    /// Reboot now.
    pub reboot_cmd: bool,
    /// Stop the applications now.
    pub shutdown_cmd: bool,
    /// Power off now.
    pub poweroff_cmd: bool,
    /// Why, for the next boot to report.
    pub requested_reboot_reason: String,
    /// The same as a number.
    pub requested_boot_reason: BootReason,
    /// The device serves no applications.
    pub maintenance_mode: bool,
    /// Why; null without. EVE's own form is kept.
    pub maintenance_mode_reasons: Value,
    /// The controller refused this device's certificates.
    pub edge_node_certs_refused: bool,
    /// Counter of forced fallbacks.
    pub force_fallback_counter: i64,
    /// Local profile.
    pub current_profile: String,
    /// State of the radios.
    pub radio_silence: RadioSilence,
    /// EVE's device state: 1 online, 2 rebooting, 7 powering off, …
    pub device_state: u8,
    /// EVE's attestation state.
    pub attest_state: u8,
    /// Its error.
    pub attest_error: String,
    /// EVE's vault state.
    pub vault_status: i32,
    /// State of the measured boot registers.
    #[serde(rename = "PCRStatus")]
    pub pcr_status: i32,
    /// Error of the vault.
    pub vault_err: String,
    /// No controller by design.
    pub airgap_mode: bool,
    /// URL of the local operator console.
    #[serde(rename = "LOCUrl")]
    pub loc_url: String,
}

impl Topic for ZedAgentStatus {
    const NAME: &'static str = "ZedAgentStatus";
}

/// State of the radios, part of [`ZedAgentStatus`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RadioSilence {
    /// Radios are off.
    pub imposed: bool,
    /// They are being switched.
    pub change_in_progress: bool,
    /// Since when.
    pub change_requested_at: GoTime,
    /// Why they could not be.
    pub config_error: String,
}

/// How far nodeagent is with what it carries out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeviceActionState {
    /// Nothing to do.
    #[default]
    Idle,
    /// A command is taken; it can still be taken back.
    Taken,
    /// The point of no return is passed.
    Acting,
    /// Done, for what does not end in a boot.
    Done,
    /// No means was left.
    Failed,
}

/// What nodeagent carries out. Publisher nodeagent, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceAction {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The operation; null when idle.
    pub command: Option<Operation>,
    /// Counter of the command; 0 for the reboot into an image.
    pub counter: u32,
    /// UUID of the image that the device reboots into; empty for a command of device-op.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// How far it is.
    pub state: DeviceActionState,
    /// Why it does not go on although it is taken; empty when it does.
    pub blocked_by: String,
    /// Why it failed; empty when it did not.
    pub error: String,
    /// Since when in this state.
    pub since: GoTime,
    /// Counter of the last shutdown that was carried out to its end in this boot: it is not done again. Null without
    /// one.
    pub shutdown_done: Option<u32>,
    /// The source of that shutdown.
    pub shutdown_source: Source,
    /// The boot of which this speaks. Whoever finds another boot's reads Idle.
    pub boot_id: String,
    /// The source of the command.
    pub source: Source,
    /// The number of the action that is carried out or was begun last: how often the point of no return was passed in
    /// this boot for the command in `Acted`. 0 before the first.
    pub tries: u32,
    /// The command for which the point of no return was passed last in this boot; null without one.
    pub acted: Option<ActedCommand>,
    /// The means that was used last in this action; null before the first.
    pub trial: Option<DeviceTrial>,
    /// The means by which this device can reboot and power off, in the order in which they are tried. Empty: it has
    /// none, and a drain for it would be in vain. Null: not known yet.
    pub means: Option<Vec<String>>,
}

impl DeviceAction {
    /// So often a command is begun in one boot. A means may restart everything but the kernel, as a soft reboot does: then
    /// the command still stands, and without a limit the device would do nothing else any more.
    pub const MOST_TRIES: u32 = 3;
}

impl Topic for DeviceAction {
    const NAME: &'static str = "DeviceAction";
}

/// Which command it was, part of [`DeviceAction`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ActedCommand {
    /// Its source.
    pub source: Source,
    /// The operation.
    pub command: Option<Operation>,
    /// Its counter; 0 for the reboot into an image.
    pub counter: u32,
    /// UUID of that image; empty for a command of device-op.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
}

/// A means that was used to take the device down, part of [`DeviceAction`]. A restarted nodeagent does not use it again: it
/// gives it the rest of its time, and then goes on with the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceTrial {
    /// Its number, 0 for the first.
    pub means: u32,
    /// It has so long to take the device down, in milliseconds of this boot's clock.
    pub until_ms: u64,
}

/// The proof that the point of no return was passed, durable, before the device is touched. Whoever finds it in a later
/// boot knows that the command was carried out. It is removed when no means worked. Persistent, publisher nodeagent, key
/// `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ActionRecord {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot in which it was begun.
    pub boot_id: String,
    /// The source of the command.
    pub source: Source,
    /// The operation.
    pub command: Option<Operation>,
    /// Counter of the command; 0 for the reboot into an image.
    pub counter: u32,
    /// UUID of that image; empty for a command of device-op.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// How often it was begun in that boot.
    pub tries: u32,
}

impl Topic for ActionRecord {
    const NAME: &'static str = "ActionRecord";
}
