//! Running one agent as this process.

use std::process::ExitCode;

use runtime::Agent;
use runtime::{AgentFlags, Stop, error_chain, logs};

use crate::screen;

/// Which agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Zedkube,
    DeviceOp,
    Nodeagent,
    Baseos,
}

impl Kind {
    /// EVE's name of the agent.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zedkube => schemas::agent::ZEDKUBE,
            Self::DeviceOp => schemas::agent::ZEDAGENT,
            Self::Nodeagent => schemas::agent::NODEAGENT,
            Self::Baseos => schemas::agent::BASEOSMGR,
        }
    }
}

/// Runs the agent until it is told to stop. Exit code 0 then; 1 when it could not start or go on, 2 for a bad flag.
pub(crate) fn run(kind: Kind, flags: &AgentFlags) -> ExitCode {
    if let Err(error) = logs::init(flags.log_format, kind.name()) {
        return fail(&error, 1);
    }
    pubsub::begin_common_moments();
    // One thread: with more of them each event wakes two. Whatever may block for long has a thread of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error, 1),
    };
    let code = runtime.block_on(run_until_stopped(kind, flags));
    // A call in flight must not hold up the exit: whatever has to be durable is.
    runtime.shutdown_background();
    code
}

async fn run_until_stopped(kind: Kind, flags: &AgentFlags) -> ExitCode {
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => return fail(&error, 1),
    };
    let agent = match Agent::start(kind.name(), flags).await {
        Ok(agent) => agent,
        Err(error) => return fail(&error, error.exit_code()),
    };
    match Box::pin(work(kind, agent, stop)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.as_ref(), 1),
    }
}

/// Runs the agent's loop.
pub(crate) async fn work(kind: Kind, agent: Agent, stop: Stop) -> anyhow::Result<()> {
    match kind {
        Kind::Zedkube => Box::pin(agent.run(stop, zedkube::run)).await??,
        Kind::DeviceOp => Box::pin(agent.run(stop, device_op::run)).await??,
        Kind::Nodeagent => Box::pin(agent.run(stop, nodeagent::run)).await??,
        Kind::Baseos => Box::pin(agent.run(stop, baseos::run)).await??,
    }
    Ok(())
}

fn fail(error: &(dyn std::error::Error + 'static), code: u8) -> ExitCode {
    // What was logged comes first.
    logs::flush();
    screen::say_soon(&format!("error: {}", error_chain(error)));
    ExitCode::from(code)
}
