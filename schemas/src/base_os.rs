//! Topics about images of the device: which image is wanted, how far it is installed, and what holds its activation
//! back.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CommandState, GoTime, Source, Topic};

/// State of an image's software, in EVE's numbers. Numbers of a newer EVE are passed through.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct SwState(pub u8);

impl SwState {
    /// The image is known; nothing was done yet.
    pub const INITIAL: Self = Self(100);
    /// The image is being downloaded.
    pub const DOWNLOADING: Self = Self(103);
    /// The image is downloaded.
    pub const DOWNLOADED: Self = Self(104);
    /// The image is being verified.
    pub const VERIFYING: Self = Self(105);
    /// The image is verified.
    pub const VERIFIED: Self = Self(106);
    /// The image is being loaded.
    pub const LOADING: Self = Self(107);
    /// The image is loaded: it can be activated.
    pub const LOADED: Self = Self(108);
    /// The image is written to the other partition.
    pub const INSTALLED: Self = Self(111);

    /// EVE's names, from 100 on.
    const NAMES: [&str; 12] = [
        "INITIAL",
        "RESOLVING_TAG",
        "RESOLVED_TAG",
        "DOWNLOADING",
        "DOWNLOADED",
        "VERIFYING",
        "VERIFIED",
        "LOADING",
        "LOADED",
        "CREATING_VOLUME",
        "CREATED_VOLUME",
        "INSTALLED",
    ];
}

/// EVE's name and number: `LOADING (107)`.
impl fmt::Display for SwState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0;
        match number.checked_sub(100).and_then(|index| Self::NAMES.get(usize::from(index))) {
            Some(name) => write!(formatter, "{name} ({number})"),
            None => write!(formatter, "state {number}"),
        }
    }
}

/// An image that a source wants; EVE's struct. Key: the UUID of its content tree.
///
/// The last two fields are ours, and are written only if they have text, as in [`crate::DeviceOpsCmd`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct BaseOsConfig {
    /// Version of the image.
    pub base_os_version: String,
    /// UUID of the image's content tree.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// Counter of retries: a new number allows another try.
    pub retry_update_counter: u32,
    /// True if the device shall run this image.
    pub activate: bool,
    /// The person who wants the image; also in the reboot reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Reason of the person, or of the cluster; also in the reboot reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl BaseOsConfig {
    /// Longest version in bytes; EVE's have about 30.
    const LONGEST_VERSION: usize = 255;

    /// What is accepted as a version.
    pub const ACCEPTED_VERSION: &str = "a version of 1 to 255 bytes that begins with a letter or digit and has no `/`, such as \
                                        16.0.1-kvm-amd64";

    /// True if this may be the version of an image. Scripts of the site put it into paths and command lines.
    pub fn is_version(text: &str) -> bool {
        let begins_well = text.starts_with(char::is_alphanumeric) && !text.ends_with(char::is_whitespace);
        let is_plain = |letter: char| !letter.is_control() && letter != '/';
        begins_well && text.chars().all(is_plain) && text.len() <= Self::LONGEST_VERSION
    }

    /// The reason why this configuration is refused, with what is accepted; `None` if it is accepted. Id and version are
    /// given to the commands that write an image, in their environment.
    pub fn refusal(&self) -> Option<String> {
        if !Self::is_id(&self.content_tree_uuid) {
            return Some(
                "ContentTreeUUID is no UUID; accepted: such as 6ba7b810-9dad-11d1-80b4-000000000002"
                    .to_owned(),
            );
        }
        let accepted = Self::ACCEPTED_VERSION;
        (!Self::is_version(&self.base_os_version))
            .then(|| format!("BaseOsVersion cannot be used as the version of an image; accepted: {accepted}"))
    }

    /// True if this may be the id of an image: a UUID such as `6ba7b810-9dad-11d1-80b4-000000000002`.
    fn is_id(text: &str) -> bool {
        let is_right = |(at, letter): (usize, char)| match at {
            8 | 13 | 18 | 23 => letter == '-',
            _ => letter.is_ascii_hexdigit(),
        };
        text.len() == 36 && text.chars().enumerate().all(is_right)
    }
}

impl Topic for BaseOsConfig {
    const NAME: &'static str = "BaseOsConfig";
}

/// State of an image on the device. Key: the UUID of its content tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct BaseOsStatus {
    /// Version of the image.
    pub base_os_version: String,
    /// The image was activated. While `PartitionState` is `updating`, the device has yet to boot into it.
    pub activated: bool,
    /// The image has to wait because another update is still being tested.
    pub too_early: bool,
    /// UUID of the image's content tree.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// Label of the image's partition.
    pub partition_label: String,
    /// Block device of the image's partition.
    pub partition_device: String,
    /// State of the partition: `updating`, `active`, …
    pub partition_state: String,
    /// State of the image.
    pub state: SwState,
    /// The image's error; empty if there is none.
    pub error: String,
    /// Time of the error.
    pub error_time: GoTime,
    /// Severity of the error: 0 unspecified, 1 notice, 2 warning, 3 error.
    pub error_severity: i32,
    /// When EVE tries again after the error, in words.
    pub error_retry_condition: String,
    /// Objects that the error concerns; null if none.
    pub error_entities: Option<Vec<ErrorEntity>>,
}

impl Topic for BaseOsStatus {
    const NAME: &'static str = "BaseOsStatus";
}

/// An object that one of EVE's errors concerns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ErrorEntity {
    /// EVE's number for the kind of object: 1 base OS, 9 content tree, …
    pub entity_type: i32,
    /// UUID or hash of the object.
    #[serde(rename = "EntityID")]
    pub entity_id: String,
}

/// State of an image's content: those fields of EVE's struct that we read. Key: the UUID of the content tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContentTreeStatus {
    /// UUID of the content tree.
    #[serde(rename = "ContentID")]
    pub content_id: String,
    /// Name of the content for people.
    pub display_name: String,
    /// State of the content.
    pub state: SwState,
    /// The content's error; empty if there is none.
    pub error: String,
}

impl Topic for ContentTreeStatus {
    const NAME: &'static str = "ContentTreeStatus";
}

/// State of the gate in front of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum BaseOsHoldState {
    /// No image is to be activated.
    #[default]
    Idle,
    /// Something blocks the activation.
    Deferred,
    /// The activate command runs. The device must not go down meanwhile.
    Activating,
    /// The image is activated; the device boots into it next.
    Activated,
    /// The drain or the activation failed.
    Failed,
}

/// State of the gate in front of the activation of an image. Publisher baseos, in EVE's folder `baseosmgr`; key
/// `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct BaseOsHold {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// UUID of the image's content tree; empty when idle.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// State of the gate.
    pub state: BaseOsHoldState,
    /// Time since when the gate is in this state.
    pub since: GoTime,
    /// Reason why the activation waits; empty if it does not wait.
    pub blocked_by: String,
    /// As in [`crate::DeviceOpStatus`]: baseos cannot write or do what it has decided, as `BlockedBy` says.
    pub stuck: bool,
    /// Reason why the gate let the activation pass.
    pub release: String,
    /// Time of the next try after a failure; unset if there will be none.
    pub next_try: GoTime,
    /// As in [`crate::DeviceOpStatus`]: seconds after which the activation goes on WITHOUT a drain.
    pub undrained_in_seconds: Option<u64>,
    /// The source that wants the image.
    pub source: Source,
    /// The person who wants the image; empty if no person does, or if it is not known.
    pub by: String,
    /// The reason of that person, or of the cluster; empty if there is none.
    pub reason: String,
    /// The images that the sources want, each with its state: at most 8 of each source.
    pub images: Vec<ImageLine>,
    /// The boot in which this was written: nodeagent ignores a status of another boot.
    pub boot_id: String,
}

/// An image that a source wants, and its fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ImageLine {
    /// The source that wants the image.
    pub source: Source,
    /// UUID of the image's content tree.
    #[serde(rename = "ContentTreeUUID")]
    pub content_tree_uuid: String,
    /// Version of the image.
    pub base_os_version: String,
    /// `RetryUpdateCounter` of the configuration that this line answers.
    pub retry_update_counter: u32,
    /// Waiting for its content, the gate or another image; HandedOver to the activate command and then to nodeagent; Done
    /// when the device runs it; or Failed.
    pub state: CommandState,
    /// Reason of this state, and what to do about it; empty if there is nothing to say.
    #[serde(default)]
    pub reason: String,
}

impl Topic for BaseOsHold {
    const NAME: &'static str = "BaseOsHold";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_says_what_is_accepted() {
        const ID: &str = "6ba7b810-9dad-11d1-80b4-000000000002";
        let long = |length| "x".repeat(length);
        let (id, version) = (Some("ContentTreeUUID is no UUID"), Some("BaseOsVersion cannot be used"));
        for (uuid, text, refused) in [
            (ID, "16.0.1-kvm-amd64", None),
            (ID, "v2 of the line, é", None),
            (ID, &long(255), None),
            (ID, &long(256), version),
            (ID, &"é".repeat(129), version),
            (ID, "", version),
            (ID, "1\n2", version),
            (ID, "../../../x", version),
            (ID, "1/../../x", version),
            (ID, "-rf", version),
            (ID, " 1", version),
            ("", "2.0", id),
            ("../../etc", "2.0", id),
            ("6ba7b810x9dad-11d1-80b4-000000000002", "2.0", id),
            ("6ba7b810-9dad-11d1-80b4-00000000000g", "2.0", id),
        ] {
            let (content_tree_uuid, base_os_version) = (uuid.to_owned(), text.to_owned());
            let config = BaseOsConfig { base_os_version, content_tree_uuid, ..BaseOsConfig::default() };
            let said = config.refusal();
            assert!(said.is_none() == refused.is_none(), "{uuid} {text}: {said:?}");
            assert!(said.unwrap_or_default().starts_with(refused.unwrap_or_default()), "{uuid} {text}");
        }
    }
}
