//! zedkube: requests in, drain, status out.
//!
//! One loop owns the state: it waits for one thing to happen, shows it to [`session::step()`], publishes what is to
//! be seen, and carries the effects out. Whatever takes time runs in a task that answers with an event.

mod calling;
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
mod tokens;

pub use kubelet::{ADMINISTRATOR_KUBECONFIGS, KUBELET_KUBECONFIGS};
use pubsub::PublishError;
use runtime::{AgentContext, Stop};
pub use service::Hanging;
pub use slots::{slot_map, slot_table};

/// Why zedkube cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ZedkubeFailure {
    /// The folders of its topics cannot be made or read.
    #[error("zedkube cannot take its topics over")]
    Start {
        /// Which, and why.
        #[from]
        source: PublishError,
    },
    /// A call hangs, and a new process may help.
    #[error(transparent)]
    Hanging(#[from] Hanging),
}

/// Runs until it is told to stop.
///
/// # Errors
/// At the start, when the folders of its topics cannot be made or read; later only when a call hangs: whoever has started
/// zedkube starts it again then.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), ZedkubeFailure> {
    let mut service = service::Service::start(context)?;
    Ok(service.run(stop).await?)
}

/// Takes an operator's override file while no zedkube runs: zedkube's own start and one step, without asking the
/// cluster. Ends when everybody who is answered has had time to see it, at most half a minute later.
///
/// # Errors
/// When the folders of its topics cannot be made or read.
pub async fn take_override(context: AgentContext) -> Result<(), ZedkubeFailure> {
    Ok(service::Service::force(context).await?)
}
