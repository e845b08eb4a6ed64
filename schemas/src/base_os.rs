//! Images of the device: what is wanted, how far it is, what holds it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Source, Topic};

/// State of software, EVE's numbers. Numbers of a newer EVE pass through.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct SwState(pub u8);

impl SwState {
    /// Known, nothing done.
    pub const INITIAL: Self = Self(100);
    /// Being downloaded.
    pub const DOWNLOADING: Self = Self(103);
    /// Downloaded.
    pub const DOWNLOADED: Self = Self(104);
    /// Being verified.
    pub const VERIFYING: Self = Self(105);
    /// Verified.
    pub const VERIFIED: Self = Self(106);
    /// Being loaded.
    pub const LOADING: Self = Self(107);
    /// Loaded: it can be activated.
    pub const LOADED: Self = Self(108);
    /// Written to the other partition.
    pub const INSTALLED: Self = Self(111);
}

/// An image that the controller wants. Key: the UUID of its content tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct BaseOsConfig {
    /// Its version.
    pub base_os_version: String,
    /// Its content tree.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// A new number allows another try.
    pub retry_update_counter: u32,
    /// Whether it is to run.
    pub activate: bool,
}

impl Topic for BaseOsConfig {
    const NAME: &'static str = "BaseOsConfig";
}

/// How far an image is. Key: the UUID of its content tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct BaseOsStatus {
    /// Its version.
    pub base_os_version: String,
    /// Its activation has been done; with `PartitionState` `updating` the device has yet to boot into it.
    pub activated: bool,
    /// Another update is still being tested.
    pub too_early: bool,
    /// Its content tree.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// Label of its partition.
    pub partition_label: String,
    /// Device of its partition.
    pub partition_device: String,
    /// `updating`, `active`, …
    pub partition_state: String,
    /// How far it is.
    pub state: SwState,
    /// What went wrong; empty when nothing did.
    pub error: String,
    /// When.
    pub error_time: GoTime,
    /// 0 unspecified, 1 notice, 2 warning, 3 error.
    pub error_severity: i32,
    /// When it is tried again, in words.
    pub error_retry_condition: String,
    /// What it concerns; null without.
    pub error_entities: Option<Vec<ErrorEntity>>,
}

impl Topic for BaseOsStatus {
    const NAME: &'static str = "BaseOsStatus";
}

/// An object that an error of EVE's concerns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ErrorEntity {
    /// EVE's number of the kind: 1 base OS, 9 content tree, …
    pub entity_type: i32,
    /// UUID or hash of the object.
    #[serde(rename = "EntityID")]
    pub entity_id: String,
}

/// The state of an image's content, as much of EVE's struct as we read. Key: its UUID.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContentTreeStatus {
    /// Its UUID.
    #[serde(rename = "ContentID")]
    pub content_id: String,
    /// Its name for people.
    pub display_name: String,
    /// How far it is.
    pub state: SwState,
    /// What went wrong; empty when nothing did.
    pub error: String,
}

impl Topic for ContentTreeStatus {
    const NAME: &'static str = "ContentTreeStatus";
}

/// How far the gate in front of an activation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum BaseOsHoldState {
    /// Nothing is to be activated.
    #[default]
    Idle,
    /// Something blocks the activation.
    Deferred,
    /// The activate command runs; the device must not go down.
    Activating,
    /// Activated; the device boots into it next.
    Activated,
    /// The drain or the activation failed.
    Failed,
}

/// What the gate in front of an activation does. Publisher baseosmgr, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct BaseOsHold {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The image; empty when idle.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// How far it is.
    pub state: BaseOsHoldState,
    /// Since when.
    pub since: GoTime,
    /// What blocks it; empty when nothing does.
    pub blocked_by: String,
    /// Why it was released.
    pub release: String,
    /// When a failed one is tried again; unset when it is not.
    pub next_try: GoTime,
    /// Who wants the image.
    pub source: Source,
    /// The boot of which this speaks: nodeagent obeys no other one's.
    pub boot_id: String,
}

impl Topic for BaseOsHold {
    const NAME: &'static str = "BaseOsHold";
}
