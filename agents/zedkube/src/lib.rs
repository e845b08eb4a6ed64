//! zedkube: reads drain requests, drains the node, publishes the status.
//!
//! One loop owns the state. It waits for one event, gives it to [`session::step()`], publishes the new status, and
//! carries the effects out. Everything that takes time runs in a task that answers with an event.

mod calling;
mod commanding;
mod conditions;
mod events;
mod health;
mod inbox;
mod kubelet;
mod link;
mod longhorn;
mod membership;
mod narrate;
mod newest;
mod node_writes;
mod nodes;
mod notify;
mod override_file;
mod perform;
mod policy;
mod preflight;
mod publish;
mod record;
mod recorder;
mod report;
mod service;
mod shown_time;
mod slots;
mod tokens;

pub use link::kubeconfigs;
pub use nodes::identity;
use pubsub::PublishError;
use runtime::{AgentContext, Stop};
pub use service::Hanging;
pub use slots::{slot_map, slot_table};

/// Why zedkube ends.
#[derive(Debug, thiserror::Error)]
pub enum ZedkubeFailure {
    /// The folders of zedkube's topics cannot be created or read.
    #[error("zedkube cannot take its topics over")]
    Start {
        /// The topic, and the cause.
        #[from]
        source: PublishError,
    },
    /// A call hangs, and a new process may help.
    #[error(transparent)]
    Hanging(#[from] Hanging),
}

/// Runs zedkube until `stop` is requested.
///
/// # Errors
/// At the start, if the folders of its topics cannot be created or read; later only if a call hangs: the parent process
/// then has to start zedkube again.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), ZedkubeFailure> {
    let mut service = service::Service::start(context)?;
    let end = service.run(stop).await;
    service.finish().await;
    Ok(end?)
}
