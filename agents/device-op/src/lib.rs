//! Holds reboot, shutdown and poweroff back until the node is drained (EVE's zedagent).
//!
//! `operation` decides, `perform` acts. device-op accepts a command by writing it into a durable record, then
//! requests a drain, and hands the command to nodeagent only while the gate (zedkube's answer) says that the device
//! may go down.

mod commands;
mod counters;
mod effect;
pub mod facts;
mod gating;
mod inputs;
mod nodeagent;
mod operation;
pub mod operation_files;
mod perform;
mod policy;
mod record;
mod record_files;
mod state;
mod status;

use runtime::machine::RunError;
use runtime::{AgentContext, Stop, machine};

pub use record::OperationRecord;

/// Runs device-op as agent `zedagent` until `stop` is requested.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), RunError> {
    machine::run::<perform::DeviceOpShell>(context, stop).await
}

#[cfg(test)]
mod tests;
