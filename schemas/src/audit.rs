//! What persons have done at the command line: one line for each verb that has changed something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Topic, to_bytes};

/// A deed of a person. The type is a topic only because it is read and written like one; no agent publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuditLine {
    /// When, by the wall clock of the device.
    pub at: GoTime,
    /// The boot in which it was.
    pub boot_id: String,
    /// Real user id of the process.
    pub uid: u32,
    /// The name under which the person has logged in, also behind `sudo`; empty if that is not known, as for a service.
    pub login: String,
    /// The terminal, such as `/dev/pts/0`; empty without one.
    pub tty: String,
    /// What was done.
    pub text: String,
    /// The person's reason; empty if none was given.
    pub reason: String,
}

impl Topic for AuditLine {
    const NAME: &'static str = "AuditLine";
}

impl AuditLine {
    /// The line with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        let mut bytes = to_bytes(self);
        bytes.push(b'\n');
        bytes
    }
}
