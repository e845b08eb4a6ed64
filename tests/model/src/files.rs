//! The files through which the agents talk, and the files that each agent keeps for itself.
//!
//! Only the contents are modelled. `pubsub` promises that a write is atomic, and that it survives a power cut once it
//! is done.

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
    /// Files below `/run`, which a boot empties.
    pub run: RunFiles,
    /// Files below `/persist`, which survive a boot.
    pub persist: PersistFiles,
}

/// Files below `/run`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFiles {
    /// NodeDrainRequest, by the requester of the folder.
    pub requests: BTreeMap<DrainRequester, NodeDrainRequest>,
    /// NodeDrainStatus.
    pub status: Option<NodeDrainStatus>,
    /// NodeDrainReport: those fields that the gate reads.
    pub report: Option<Arc<NodeDrainReport>>,
    /// DrainRecord, in the form that the session uses.
    pub drain_record: Option<Arc<session::Record>>,
    /// DeviceOpsCmd of each source.
    pub commands: BTreeMap<Kind, DeviceOpsCmd>,
    /// ZedAgentStatus: its command and the reason of that.
    pub zedagent: Option<(Operation, String)>,
    /// DeviceOpStatus.
    pub device_op: Option<DeviceOpStatus>,
    /// DeviceAction.
    pub action: Option<DeviceAction>,
    /// NodeAgentStatus.
    pub nodeagent: Option<NodeAgentStatus>,
    /// BaseOsConfig, by the UUID of the image.
    pub configs: BTreeMap<String, BaseOsConfig>,
    /// BaseOsHold.
    pub hold: Option<BaseOsHold>,
    /// BaseOsStatus, by the UUID of the image.
    pub images: BTreeMap<String, BaseOsStatus>,
}

/// Files below `/persist`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistFiles {
    /// The override file that an operator writes.
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
    /// ActionRecord: nodeagent's proof that a command was begun.
    pub action: Option<ActionRecord>,
    /// The reason of the reboot, for the next boot.
    pub reason: Option<String>,
}
