//! The files through which the agents talk, and those that they keep for themselves.
//!
//! Only their contents: that a write is atomic and survives a power cut once it is done is what `pubsub` promises.

use std::collections::BTreeMap;
use std::sync::Arc;

use device_op::OperationRecord;
use device_op::facts::Kind;
use schemas::DrainOrder;
use schemas::{
    ActionRecord, BaseOsConfig, BaseOsHold, BaseOsStatus, DeviceAction, DeviceOpStatus, DeviceOpsCmd,
    DrainRequester, NodeAgentStatus, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, Operation,
};

/// All files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Files {
    /// What a boot empties: `/run`.
    pub run: RunFiles,
    /// What it does not: `/persist`.
    pub persist: PersistFiles,
}

/// Below `/run`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFiles {
    /// NodeDrainRequest, by the requester of its folder.
    pub requests: BTreeMap<DrainRequester, NodeDrainRequest>,
    /// NodeDrainStatus.
    pub status: Option<NodeDrainStatus>,
    /// NodeDrainReport, as much of it as the gate reads.
    pub report: Option<Arc<NodeDrainReport>>,
    /// DrainRecord, as the session knows it.
    pub drain_record: Option<Arc<session::Record>>,
    /// DeviceOpsCmd of each source.
    pub commands: BTreeMap<Kind, DeviceOpsCmd>,
    /// ZedAgentStatus: the command in it, with its reason.
    pub zedagent: Option<(Operation, String)>,
    /// DeviceOpStatus.
    pub device_op: Option<DeviceOpStatus>,
    /// DeviceAction.
    pub action: Option<DeviceAction>,
    /// NodeAgentStatus.
    pub nodeagent: Option<NodeAgentStatus>,
    /// BaseOsConfig, by the image's UUID.
    pub configs: BTreeMap<String, BaseOsConfig>,
    /// BaseOsHold.
    pub hold: Option<BaseOsHold>,
    /// BaseOsStatus, by the image's UUID.
    pub images: BTreeMap<String, BaseOsStatus>,
}

/// Below `/persist`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistFiles {
    /// The override file, which an operator writes.
    pub order: Option<DrainOrder>,
    /// The counter files of device-op.
    pub counters: BTreeMap<Kind, u32>,
    /// OperationRecord.
    pub operations: Option<OperationRecord>,
    /// ActivationRecord.
    pub activations: Option<baseos::ActivationRecord>,
    /// Membership.
    pub member: Option<schemas::Member>,
    /// KnownHolders.
    pub others: schemas::OtherHolders,
    /// ActionRecord, nodeagent's proof that a command was begun.
    pub action: Option<ActionRecord>,
    /// The reason that is left for the next boot.
    pub reason: Option<String>,
}
