//! Carries out reboots, shutdowns and poweroffs, and publishes whether a drain is in progress.
//!
//! `progress` decides, `perform` acts. nodeagent never goes down on its own: the reboots that EVE's nodeagent
//! starts itself bypass the drain (D4).

mod action_record;
mod boot_reason;
mod current_command;
mod device;
mod effect;
mod facts;
mod inhibitor;
mod kernel_device;
mod known_means;
mod logind;
mod logind_device;
mod perform;
mod policy;
mod progress;
mod state;
mod status;
mod system_bus;

pub use boot_reason::leave_reason;
use runtime::machine::RunError;
use runtime::{AgentContext, Stop, machine};

/// Runs nodeagent until `stop` is requested.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), RunError> {
    machine::run::<perform::NodeagentShell>(context, stop).await
}

#[cfg(test)]
mod tests;
