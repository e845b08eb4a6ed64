//! Runs one agent as this process.

use std::process::ExitCode;

use runtime::{AgentFlags, Stop, error_chain, logs};
use schemas::Agent;

use kubectl_ebb::screen;

/// Runs the agent until it is asked to stop. Exit code 0 after a stop, 1 if it could not start or go on, 2 for a bad
/// flag.
pub(crate) fn run(agent: Agent, flags: &AgentFlags) -> ExitCode {
    if let Err(error) = logs::init(flags.log_format, agent.name()) {
        return fail(&error, 1);
    }
    runtime::process::begin();
    pubsub::begin_common_moments();
    // One thread only: with more, each event would wake two of them. Work that may block for long has its own thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error, 1),
    };
    let code = runtime.block_on(run_until_stopped(agent, flags));
    // Do not wait for calls in flight: everything that must be durable is written already.
    runtime.shutdown_background();
    code
}

async fn run_until_stopped(agent: Agent, flags: &AgentFlags) -> ExitCode {
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => return fail(&error, 1),
    };
    let started = match runtime::Agent::start(agent.wire_name(), flags).await {
        Ok(started) => started,
        Err(error) => return fail(&error, error.exit_code()),
    };
    match Box::pin(work(agent, started, stop)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.as_ref(), 1),
    }
}

/// Runs the agent's loop.
async fn work(agent: Agent, started: runtime::Agent, stop: Stop) -> anyhow::Result<()> {
    match agent {
        Agent::Zedkube => Box::pin(started.run(stop, zedkube::run)).await??,
        Agent::DeviceOp => Box::pin(started.run(stop, device_op::run)).await??,
        Agent::Nodeagent => Box::pin(started.run(stop, nodeagent::run)).await??,
        Agent::Baseos => Box::pin(started.run(stop, baseos::run)).await??,
        Agent::Sentinel => Box::pin(started.run(stop, sentinel::run)).await??,
    }
    Ok(())
}

fn fail(error: &(dyn std::error::Error + 'static), code: u8) -> ExitCode {
    // Print the log lines before the error.
    logs::flush();
    screen::say_soon(&format!("error: {}", error_chain(error)));
    ExitCode::from(code)
}
