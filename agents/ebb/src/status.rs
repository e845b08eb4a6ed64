//! `ebb status`: where this node is and why, from the files that the agents write. Needs no agent and no cluster.

mod seen;
mod telling;

use std::process::ExitCode;

use pubsub::Root;
use runtime::clock;

use crate::cli::StatusArguments;
use crate::{rights, screen};

pub(crate) use seen::Seen;

/// What `ebb status` exits with when it may not read what the agents write.
const NO_RIGHTS: u8 = 4;

/// Prints the status, in words or as JSON. Exit code 4 without the right to read it.
pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let root = Root::new(&arguments.root);
    if let Some(missing) = rights::missing(&root) {
        screen::say(&format!("error: {missing}"));
        return Ok(ExitCode::from(NO_RIGHTS));
    }
    let seen = Seen::read(&root);
    if arguments.json {
        screen::line(&serde_json::to_string_pretty(&seen)?);
    } else {
        screen::line(telling::tell(&seen, clock::wall()).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}
