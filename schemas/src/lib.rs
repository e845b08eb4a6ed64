//! Topic types, what a value means to a reader, JSON Schemas and samples.
//!
//! Every type here is one JSON object in a file or a message. The types that EVE's own agents write have EVE's names,
//! order and number codes; our own types have a `SchemaVersion`. Nothing here does I/O.
//!
//! [`parse`] reads a topic as EVE's Go agents do, and [`to_bytes`] writes it as they do. [`gate`] says what zedkube's
//! topics mean to an agent that wants to take the device down.

pub mod agent;
mod any_item;
mod audit;
mod backoff;
mod base_os;
mod cluster;
mod coded;
mod command_source;
mod device_line;
mod device_op;
mod drain;
mod drain_history;
mod drain_override;
mod gate;
mod gotime;
mod known;
mod membership;
mod node_agent;
mod parse;
mod pass_gate;
mod report;
mod report_bounds;
mod sentinel;
mod topic;
mod totals;
mod undrained;
mod window;
mod write;

pub use agent::Agent;
pub use any_item::AnyItem;
pub use audit::AuditLine;
pub use backoff::Backoff;
pub use base_os::{
    BaseOsConfig, BaseOsHold, BaseOsHoldState, BaseOsStatus, ContentTreeStatus, ErrorEntity, ImageLine,
    SwState,
};
pub use cluster::{
    ClusterIpPrefix, ConfigItemType, ConfigItemValue, ConfigItemValueMap, EdgeNodeClusterConfig,
    EdgeNodeInfo, LbInterface, UuidAndVersion,
};
pub use command_source::{CommandFreeze, Source, UncommandedNode, commanded_by};
pub use device_line::DeviceLine;
pub use device_op::{
    CancelCommand, CommandLine, CommandState, DeviceOpState, DeviceOpStatus, DeviceOpsCmd, DoneCounters,
    Operation,
};
pub use drain::{DrainRequester, DrainStatus, NodeDrainRequest, NodeDrainStatus};
pub use drain_history::{DrainEvent, DrainLine};
pub use drain_override::{DrainOrder, DrainOverride};
pub use gate::{
    Absence, DeferReason, GateFacts, NOT_DRAINED, OnTimeout, ProceedReason, Row, Verdict, ZedkubeSeen, age,
    gate,
};
pub use gotime::{GoTime, GoTimeError};
pub use known::{Check, check_of, checks};
pub use membership::{KnownHolder, KnownHolders, Membership, OtherHolders, OwnCordon};
pub use node_agent::{
    ActedCommand, ActionRecord, BootReason, DeviceAction, DeviceActionState, DeviceTrial, NodeAgentStatus,
    RadioSilence, ZedAgentStatus,
};
pub use parse::{MAX_BYTES, ParseError, parse};
pub use pass_gate::PassGate;
pub use report::{
    Attempt, Blocked, Blocker, Budget, Disabled, HeldBy, Member, NodeDrainReport, Omitted, Outcome, PodLine,
    Preflight, PreflightProblem, Progress, RefusedInput, RequestLine, SCHEMA_VERSION, Slot, SpentOrder,
    StandingOrder, VolumeLine,
};
pub use report_bounds::MAX_REPORT_BYTES;
pub use sentinel::{SentinelRecord, SentinelState, SentinelStatus};
pub use topic::Topic;
pub use totals::{BootTotals, DrainTotals, one_more};
pub use undrained::{HOLD_TIMEOUT, UndrainedCause, WENT_PAST_EBB};
pub use window::{WindowState, WindowStatus};
pub use write::to_bytes;

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests;
