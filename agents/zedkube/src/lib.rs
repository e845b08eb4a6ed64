//! zedkube: requests in, drain, status out.
//!
//! One loop owns the state: it waits for one thing to happen, shows it to [`session::step()`], publishes what is to
//! be seen, and carries the effects out. Whatever takes time runs in a task that answers with an event.

mod health;
mod inbox;
mod kubelet;
mod link;
mod longhorn;
mod looks;
mod membership;
mod narrate;
mod node_writes;
mod override_file;
mod perform;
mod policy;
mod preflight;
mod publish;
mod record;
mod report;
mod service;
mod shown_time;
mod slots;

pub use policy::drain_policy;
use pubsub::PublishError;
use runtime::{AgentContext, Stop};

/// Why zedkube cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("zedkube cannot take its topics over")]
pub struct StartFailure {
    #[from]
    source: PublishError,
}

/// Runs until it is told to stop.
///
/// # Errors
/// Only at the start, when the folders of its topics cannot be made or read.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), StartFailure> {
    let mut service = service::Service::start(context)?;
    service.run(&stop).await;
    Ok(())
}

/// Takes an operator's override file while no zedkube runs: zedkube's own start and one step, without asking the
/// cluster. Ends when everybody who is answered has had time to see it, at most half a minute later.
///
/// # Errors
/// When the folders of its topics cannot be made or read.
pub async fn take_override(context: AgentContext) -> Result<(), StartFailure> {
    Ok(service::Service::force(context).await?)
}
