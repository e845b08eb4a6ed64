//! `ebb demo`: shows a drain from command to reboot, live, on a cluster in memory; needs no network, no rights and no
//! real cluster.
//!
//! Four agents run in this process below a temporary root, against an API server in memory. A controller commands a
//! reboot, the node is drained, and only then the reboot is recorded (dry run).

mod fixture;
mod walkthrough;

use anyhow::Context;
use runtime::{AgentFlags, Stop, logs};
use schemas::Agent;
use tokio::task::JoinSet;

use crate::cli::DemoArguments;
use crate::{agents, screen};

use fixture::Fixture;
use walkthrough::Walkthrough;

/// Worker threads for four agents and a cluster.
const THREADS: usize = 4;

pub(crate) fn run(arguments: &DemoArguments) -> anyhow::Result<()> {
    if std::env::var_os("EBB_LOG").is_some() {
        logs::init(Some(runtime::LogFormat::Text), "demo")?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("cannot start the demonstration's threads")?;
    let result = runtime.block_on(show(arguments));
    runtime.shutdown_background();
    result
}

async fn show(arguments: &DemoArguments) -> anyhow::Result<()> {
    let fixture = Fixture::set(arguments.pods)?;
    let stop = Stop::on_signals()?;
    let mut agents = start_agents(&fixture, &stop).await?;
    let mut walkthrough = Walkthrough::begin(&fixture)?;
    let result = tokio::select! {
        ended = walkthrough.run() => ended,
        failed = first_failure(&mut agents) => Err(failed),
        () = stop.requested() => Ok(()),
    };
    if result.is_ok() && arguments.hold && !stop.is_requested() {
        walkthrough.hand_over();
        tokio::select! {
            failed = first_failure(&mut agents) => return Err(failed),
            ended = walkthrough.follow() => ended?,
            () = stop.requested() => {}
        }
    }
    stop.request();
    while agents.join_next().await.is_some() {}
    screen::line(&format!(
        "The folder stays for you to look at; remove it with: rm -r {}",
        fixture.root().path().display()
    ));
    result
}

async fn start_agents(fixture: &Fixture, stop: &Stop) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let flags: AgentFlags = fixture.flags();
    let mut running = JoinSet::new();
    for agent in Agent::ALL {
        let started = runtime::Agent::start(agent.wire_name(), &flags).await?;
        running.spawn(agents::work(agent, started, stop.clone()));
    }
    Ok(running)
}

/// Waits for an agent that ends by itself, which is always a failure.
async fn first_failure(agents: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Error {
    match agents.join_next().await {
        Some(Ok(Err(error))) => error,
        Some(Err(error)) => anyhow::Error::new(error).context("an agent ended"),
        Some(Ok(Ok(()))) | None => anyhow::anyhow!("an agent ended before its time"),
    }
}
