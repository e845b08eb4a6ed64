//! What zedkube remembers of the cluster over a boot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Member, Topic};

/// Whether this device was a member of a cluster when that was last known. Persistent, of zedkube, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Membership {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Whether this device is part of a cluster.
    pub member: Member,
}

impl Topic for Membership {
    const NAME: &'static str = "Membership";
}
