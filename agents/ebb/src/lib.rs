//! `ebb`: the agents and their command line in one binary.
//!
//! It parses, calls, and prints; decisions live in the crates it calls. Called through a link that is named after
//! an agent (`zedkube`, `zedagent`, `nodeagent`, `baseosmgr`) it is that agent.

mod agents;
mod cli;
mod demo;
mod screen;
mod status;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

/// Does what the arguments say (the first is the name under which the program was called); the result is the
/// process's exit code: 0 done, 1 refused or failed, 2 for arguments that make no sense.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let cli = match cli::Cli::try_parse_from(cli::multi_call(arguments)) {
        Ok(cli) => cli,
        Err(answer) => return screen::answer(&answer),
    };
    let result = match cli.command {
        cli::Command::Zedkube(flags) => return agents::run(agents::Kind::Zedkube, &flags),
        cli::Command::DeviceOp(flags) => return agents::run(agents::Kind::DeviceOp, &flags),
        cli::Command::Nodeagent(flags) => return agents::run(agents::Kind::Nodeagent, &flags),
        cli::Command::Baseos(flags) => return agents::run(agents::Kind::Baseos, &flags),
        cli::Command::Status(arguments) => status::run(&arguments),
        cli::Command::Demo(arguments) => demo::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::complain(&error);
            ExitCode::FAILURE
        }
    }
}
