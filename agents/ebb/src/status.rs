//! `ebb status`: where this node is and why, from the files that the agents write. Needs no agent and no cluster.

mod seen;
mod telling;

use std::fs;
use std::io::ErrorKind;
use std::process::ExitCode;

use pubsub::{Persistence, Root};
use runtime::clock;

use crate::cli::StatusArguments;
use crate::screen;

use seen::AGENTS;
pub(crate) use seen::Seen;

/// What `ebb status` exits with when it may not read what the agents write.
const NO_RIGHTS: u8 = 4;

/// Prints the status, in words or as JSON. Exit code 4 without the right to read it.
pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let root = Root::new(&arguments.root);
    if !may_read(&root) {
        screen::say("error: only the agents' own user may read what they write: run this as root");
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

/// Whether the agents' folders, if they are there, can be looked into.
fn may_read(root: &Root) -> bool {
    AGENTS.iter().all(|agent| {
        let looked = fs::read_dir(root.agent_folder(agent, Persistence::Volatile));
        !looked.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    })
}
