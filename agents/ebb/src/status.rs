//! `ebb status`: where this node is and why, from the files that the agents write. Needs no agent and no cluster.

mod seen;
mod telling;

use pubsub::Root;
use runtime::clock;

use crate::cli::StatusArguments;
use crate::screen;

pub(crate) use seen::Seen;

/// Prints the status, in words or as JSON.
pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<()> {
    let seen = Seen::read(&Root::new(&arguments.root));
    if arguments.json {
        screen::line(&serde_json::to_string_pretty(&seen)?);
    } else {
        screen::line(telling::tell(&seen, clock::wall()).trim_end());
    }
    Ok(())
}
