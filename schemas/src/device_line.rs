//! Records of dry runs: one line in `device-actions.jsonl` for each action that would have been carried out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Source, Topic, to_bytes};

/// One action of a dry run. The line of a device operation has a counter, that of an activation has an image. The type
/// is a topic only because it is read and written like one; no agent publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceLine {
    /// The action: `reboot`, `shutdown`, `poweroff` or `activate`.
    pub action: String,
    /// Reason of the action.
    pub reason: String,
    /// Counter of the command; for an `activate`, the counter of update retries.
    pub counter: u32,
    /// UUID of the image of an `activate`; left out for the other actions.
    #[serde(rename = "ContentTreeUUID", skip_serializing_if = "String::is_empty")]
    pub content_tree_uuid: String,
    /// The source of the command.
    pub source: Source,
    /// The boot in which the dry run happened. Together with source and counter it identifies the action.
    pub boot_id: String,
    /// Time of the dry run.
    pub at: GoTime,
}

impl Topic for DeviceLine {
    const NAME: &'static str = "DeviceLine";
}

impl DeviceLine {
    /// The line with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        let mut bytes = to_bytes(self);
        bytes.push(b'\n');
        bytes
    }
}
