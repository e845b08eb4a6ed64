//! An operator's permission for one request, for the case that zedkube does not run, or hangs, and takes no override.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DrainRequester, GoTime, Topic};

/// Lets one request pass the gate WITHOUT a drain. Publisher `ebb` (`ebb force complete`); the key is the folder of the
/// agent that made the request (`zedagent` for device-op, `baseosmgr` for baseos).
///
/// The permission is valid for exactly the request that it names, so only once, and only in its boot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PassGate {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot in which the permission is valid.
    pub boot_id: String,
    /// The requester of the request.
    pub requested_by: DrainRequester,
    /// Time of the request, which identifies it.
    pub requested_at: GoTime,
    /// The person who gave the permission.
    pub by: String,
    /// Reason of the permission.
    pub reason: String,
}

impl PassGate {
    /// True if this permission lets the given request pass.
    pub fn covers(&self, requested_by: DrainRequester, requested_at: GoTime, boot_id: &str) -> bool {
        let is_meant = self.requested_by == requested_by && self.boot_id == boot_id;
        is_meant && !requested_at.is_zero() && self.requested_at == requested_at
    }
}

impl Topic for PassGate {
    const NAME: &'static str = "PassGate";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_for_exactly_one_request() {
        let time = |text: &str| text.parse::<GoTime>().unwrap();
        let (asked, later) = (time("2026-08-22T16:10:11Z"), time("2026-08-22T16:40:11Z"));
        let (device_op, update) = (DrainRequester::DeviceOp, DrainRequester::Update);
        let pass = PassGate {
            boot_id: "boot-1".to_owned(),
            requested_by: device_op,
            requested_at: asked,
            ..PassGate::default()
        };
        for (requested_by, requested_at, boot_id, covers) in [
            (device_op, asked, "boot-1", true),
            (device_op, later, "boot-1", false), // the next operation, or the same after a take-back
            (update, asked, "boot-1", false),
            (device_op, asked, "boot-2", false),
        ] {
            assert_eq!(pass.covers(requested_by, requested_at, boot_id), covers, "{requested_by} {boot_id}");
        }
        let empty = PassGate::default();
        assert!(!empty.covers(DrainRequester::Unset, GoTime::ZERO, ""), "an empty item lets no request pass");
    }
}
