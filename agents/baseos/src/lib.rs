//! Holds the activation of a new image back until the node is drained (EVE's baseosmgr).
//!
//! `activation` decides, `perform` acts. Every way to an activation leads through the gate, and so does the reboot
//! into the image.

mod activation;
mod current;
mod effect;
mod facts;
mod inputs;
mod limits;
mod lines;
mod need;
mod nodeagent;
mod perform;
mod policy;
mod record;
mod state;
mod status;

pub use record::ActivationRecord;
use runtime::machine::RunError;
use runtime::{AgentContext, Stop, machine};

/// Runs baseos as agent `baseosmgr` until `stop` is requested.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), RunError> {
    machine::run::<perform::BaseosShell>(context, stop).await
}

#[cfg(test)]
mod tests;
