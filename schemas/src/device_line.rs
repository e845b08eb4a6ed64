//! What a dry run would have done: one line per action in `device-actions.jsonl`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Source, Topic, to_bytes};

/// One line. A device operation has a counter, an activation has an image. It is a topic only in that it is read
/// and written like one; nobody publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceLine {
    /// `reboot`, `shutdown`, `poweroff` or `activate`.
    pub action: String,
    /// Why.
    pub reason: String,
    /// Counter of the command, or of the update retries.
    pub counter: u32,
    /// The image of an `activate`; left out otherwise.
    #[serde(rename = "ContentTreeUUID", skip_serializing_if = "String::is_empty")]
    pub content_tree_uuid: String,
    /// The source of the command.
    pub source: Source,
    /// The boot in which it happened; with source and counter it identifies the action.
    pub boot_id: String,
    /// When.
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
