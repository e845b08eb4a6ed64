//! The topics whose types are here, by name.

use crate::{
    ActionRecord, AuditLine, BaseOsConfig, BaseOsHold, BaseOsStatus, BootTotals, CancelCommand,
    CommandFreeze, ConfigItemValueMap, ContentTreeStatus, DeviceAction, DeviceLine, DeviceOpStatus,
    DeviceOpsCmd, DrainOverride, DrainTotals, EdgeNodeClusterConfig, EdgeNodeInfo, KnownHolders, Membership,
    NodeAgentStatus, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, OwnCordon, ParseError, PassGate,
    SentinelRecord, SentinelStatus, Topic, UncommandedNode, ZedAgentStatus, parse, to_bytes,
};

/// Reads an item as its type does, and writes it as its agent would.
pub type Check = fn(&[u8]) -> Result<Vec<u8>, ParseError>;

/// A topic that has a type.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    check: Check,
    #[cfg(test)]
    pub(crate) schema: fn() -> schemars::Schema,
}

impl Known {
    #[cfg(not(test))]
    const fn of<T: Topic>() -> Self {
        Self { name: T::NAME, check: rewrite::<T> }
    }

    #[cfg(test)]
    const fn of<T: Topic + schemars::JsonSchema>() -> Self {
        Self { name: T::NAME, check: rewrite::<T>, schema: || schemars::schema_for!(T) }
    }
}

/// All types that `schemas` exports as topics, in the order of their names. The only list of them: the
/// JSON Schemas, the samples and the fuzz targets follow it.
pub(crate) const KNOWN: [Known; 30] = [
    Known::of::<ActionRecord>(),
    Known::of::<AuditLine>(),
    Known::of::<BaseOsConfig>(),
    Known::of::<BaseOsHold>(),
    Known::of::<BaseOsStatus>(),
    Known::of::<BootTotals>(),
    Known::of::<CancelCommand>(),
    Known::of::<CommandFreeze>(),
    Known::of::<ConfigItemValueMap>(),
    Known::of::<ContentTreeStatus>(),
    Known::of::<DeviceAction>(),
    Known::of::<DeviceLine>(),
    Known::of::<DeviceOpStatus>(),
    Known::of::<DeviceOpsCmd>(),
    Known::of::<DrainOverride>(),
    Known::of::<DrainTotals>(),
    Known::of::<EdgeNodeClusterConfig>(),
    Known::of::<EdgeNodeInfo>(),
    Known::of::<KnownHolders>(),
    Known::of::<Membership>(),
    Known::of::<NodeAgentStatus>(),
    Known::of::<NodeDrainReport>(),
    Known::of::<NodeDrainRequest>(),
    Known::of::<NodeDrainStatus>(),
    Known::of::<OwnCordon>(),
    Known::of::<PassGate>(),
    Known::of::<SentinelRecord>(),
    Known::of::<SentinelStatus>(),
    Known::of::<UncommandedNode>(),
    Known::of::<ZedAgentStatus>(),
];

/// The check for items of this topic; `None` for a topic that we do not know.
pub fn check_of(topic: &str) -> Option<Check> {
    checks().find(|(name, _)| *name == topic).map(|(_, check)| check)
}

/// The names of all topics that have a type, each with its check.
pub fn checks() -> impl Iterator<Item = (&'static str, Check)> {
    KNOWN.into_iter().map(|known| (known.name, known.check))
}

fn rewrite<T: Topic>(text: &[u8]) -> Result<Vec<u8>, ParseError> {
    parse::<T>(text).map(|value| to_bytes(&value))
}
