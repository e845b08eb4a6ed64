//! `ebb`: the agents and their command line in one binary.
//!
//! This crate parses arguments, calls other crates and prints; all decisions are made in the crates that it calls. When
//! the binary is called through a link that has the name of an agent, ours or EVE's (`zedkube`, `device-op` or
//! `zedagent`, `nodeagent`, `baseos` or `baseosmgr`), it runs that agent.

mod agents;
mod audit;
mod cancel;
mod cli;
mod commands;
mod completion;
mod config;
mod daemonset;
#[cfg(feature = "demo")]
mod demo;
mod device;
mod force;
mod freeze;
mod history;
mod hold;
mod markdown;
mod metrics;
mod operation;
mod operator;
mod parent;
mod plan;
mod report;
mod request;
mod setup;
mod slots;
mod status;
mod topic;
mod uncordon;
mod update;
mod waiting;

use std::ffi::OsString;
use std::process::ExitCode;

use kubectl_ebb::called::is_plugin;
use kubectl_ebb::cli::usage_code;
use kubectl_ebb::{exit_code, parse_aside, screen};
use schemas::{Agent, Operation};

use cli::Command;
pub use cli::definition;
pub use markdown::without_links;

/// Runs the program with these arguments (the first is the name under which it was called) and returns the exit code of
/// the process: 0 done, 1 refused or failed, 2 invalid arguments. The verbs that imitate kubectl's exit with 1 for
/// invalid arguments, as kubectl does; 130 after Ctrl-C.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let code = if is_plugin(&arguments) { kubectl_ebb::run(arguments) } else { run_verb(arguments) };
    runtime::logs::flush();
    code
}

fn run_verb(arguments: Vec<OsString>) -> ExitCode {
    let usage = usage_code(&arguments);
    let command = match parse_aside(arguments, cli::parse) {
        Ok(command) => command,
        Err(answer) => return screen::answer(&answer, usage),
    };
    let done = |result: anyhow::Result<()>| result.map(|()| ExitCode::SUCCESS);
    let result = match command {
        Command::Zedkube(flags) => return agents::run(Agent::Zedkube, &flags),
        Command::DeviceOp(flags) => return agents::run(Agent::DeviceOp, &flags),
        Command::Nodeagent(flags) => return agents::run(Agent::Nodeagent, &flags),
        Command::Baseos(flags) => return agents::run(Agent::Baseos, &flags),
        Command::Sentinel(flags) => return agents::run(Agent::Sentinel, &flags),
        Command::Run(arguments) => parent::run(&arguments),
        Command::Child(arguments) => return parent::run_child(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::History(arguments) => history::run(&arguments),
        Command::Report(arguments) => done(report::run(&arguments)),
        Command::Metrics(arguments) => done(metrics::run(&arguments)),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => done(demo::run(&arguments)),
        Command::Drain(arguments) => kubectl_ebb::drain::run(&arguments),
        Command::Cordon(arguments) => kubectl_ebb::cordon::run(&arguments),
        Command::Uncordon(arguments) => uncordon::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Reboot(arguments) => operation::run(Operation::Reboot, &arguments),
        Command::Shutdown(arguments) => operation::run(Operation::Shutdown, &arguments),
        Command::Poweroff(arguments) => operation::run(Operation::Poweroff, &arguments),
        Command::Update(arguments) => update::run(&arguments),
        Command::Hold(arguments) => hold::run(&arguments),
        Command::Request(arguments) => request::run(&arguments),
        Command::Cancel(arguments) => cancel::run(&arguments),
        Command::Commands(arguments) => done(commands::run(&arguments)),
        Command::Freeze(arguments) => freeze::freeze(&arguments),
        Command::Unfreeze(arguments) => freeze::unfreeze(&arguments),
        Command::Force(arguments) => force::run(&arguments),
        Command::Slots(arguments) => slots::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Setup(arguments) => setup::run(&arguments),
        Command::Daemonset(arguments) => daemonset::run(&arguments),
        Command::Topic(arguments) => topic::run(&arguments),
        Command::Completion(arguments) => {
            completion::script(&arguments);
            Ok(ExitCode::SUCCESS)
        }
        Command::Complete(arguments) => {
            kubectl_ebb::completion::answer(&arguments, cli::definition());
            Ok(ExitCode::SUCCESS)
        }
    };
    exit_code(result)
}
