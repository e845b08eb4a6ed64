//! `ebb demo`: shows a drain from command to reboot, live, on a cluster in memory; needs no network, no rights and no
//! real cluster. With `--scene` the drain hangs as in life, and the demonstration tells what to type.
//!
//! The agents are processes of `ebb run` below a temporary root, and talk to an API server in memory. What the
//! demonstration itself does, it does as an operator would, with the verbs of this program. A reboot is only recorded
//! (dry run).

mod fixture;
mod scene;
mod walkthrough;

use anyhow::Context;
use clap::Args;
use runtime::Stop;

use crate::screen;

use fixture::Fixture;
use scene::Scene;
use walkthrough::Walkthrough;

/// Arguments of `ebb demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Let the drain hang as in life, and show what to type to see why and to get out; Ctrl-C ends it
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) scene: Option<Scene>,
    /// Keep running after the reboot, so that you can inspect and cancel from another terminal; Ctrl-C ends it
    #[arg(long)]
    pub(crate) hold: bool,
    /// Number of pods to evict from the node
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(crate) pods: u16,
}

/// Runs the demonstration until its end, or until SIGINT or SIGTERM.
pub(crate) fn run(arguments: &DemoArguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the demonstration")?.block_on(show(arguments))
}

async fn show(arguments: &DemoArguments) -> anyhow::Result<()> {
    let stop = Stop::on_signals()?;
    let fixture = Fixture::set(arguments)?;
    let mut agents = fixture.start_agents()?;
    let mut walkthrough = Walkthrough::begin(&fixture);
    let result = tokio::select! {
        told = Box::pin(walkthrough.tell(arguments)) => told,
        ended = agents.wait() => {
            let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(anyhow::anyhow!("the agents ended ({how}); their log: {}", fixture.log().display()))
        }
        () = stop.requested() => Ok(()),
    };
    fixture::end(agents).await?;
    screen::line(&format!(
        "The folder stays for you to look at; remove it with: rm -r {}",
        fixture.root().path().display()
    ));
    result
}
