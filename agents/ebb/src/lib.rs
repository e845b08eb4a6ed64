//! `ebb`: the agents and their command line in one binary.
//!
//! This crate parses arguments, calls other crates and prints; all decisions are made in the crates that it calls. When
//! the binary is called through a link that has the name of an agent, ours or EVE's (`zedkube`, `device-op` or
//! `zedagent`, `nodeagent`, `baseos` or `baseosmgr`), it runs that agent.

mod agents;
mod cancel;
mod cli;
mod commands;
mod completion;
mod config;
mod cordon;
#[cfg(feature = "demo")]
mod demo;
mod device;
mod drain;
mod force;
mod forecast;
mod freeze;
mod kubectl;
mod operation;
mod operator;
mod parent;
mod plan;
mod request;
mod screen;
mod slots;
mod status;
mod topic;
mod uncordon;
mod update;
mod waiting;

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use schemas::{Agent, Operation};

use cli::Command;

/// Worker threads of a verb that talks to a cluster: one for its main loop, one for blocking work.
const THREADS: usize = 2;

/// Runs the program with these arguments (the first is the name under which it was called) and returns the exit code of
/// the process: 0 done, 1 refused or failed, 2 invalid arguments. The verbs that imitate kubectl's exit with 1 for
/// invalid arguments, as kubectl does; 130 after Ctrl-C.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let code = run_verb(arguments);
    runtime::logs::flush();
    code
}

fn run_verb(arguments: Vec<OsString>) -> ExitCode {
    let usage = cli::usage_code(&arguments);
    let command = match parse_aside(arguments) {
        Ok(command) => command,
        Err(answer) => return screen::answer(&answer, usage),
    };
    let done = |result: anyhow::Result<()>| result.map(|()| ExitCode::SUCCESS);
    let result = match command {
        Command::Zedkube(flags) => return agents::run(Agent::Zedkube, &flags),
        Command::DeviceOp(flags) => return agents::run(Agent::DeviceOp, &flags),
        Command::Nodeagent(flags) => return agents::run(Agent::Nodeagent, &flags),
        Command::Baseos(flags) => return agents::run(Agent::Baseos, &flags),
        Command::Run(arguments) => parent::run(&arguments),
        Command::Child(arguments) => return parent::run_child(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => done(demo::run(&arguments)),
        Command::Drain(arguments) => crate::drain::run(&arguments),
        Command::Cordon(arguments) => cordon::run(&arguments),
        Command::Uncordon(arguments) => uncordon::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Reboot(arguments) => operation::run(Operation::Reboot, &arguments),
        Command::Shutdown(arguments) => operation::run(Operation::Shutdown, &arguments),
        Command::Poweroff(arguments) => operation::run(Operation::Poweroff, &arguments),
        Command::Update(arguments) => update::run(&arguments),
        Command::Request(arguments) => request::run(&arguments),
        Command::Cancel(arguments) => cancel::run(&arguments),
        Command::Commands(arguments) => done(commands::run(&arguments)),
        Command::Freeze(arguments) => freeze::freeze(&arguments),
        Command::Unfreeze(arguments) => freeze::unfreeze(&arguments),
        Command::Force(arguments) => force::run(&arguments),
        Command::Slots(arguments) => slots::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Topic(arguments) => topic::run(&arguments),
        Command::Completion(arguments) => {
            completion::script(&arguments);
            Ok(ExitCode::SUCCESS)
        }
        Command::Complete(arguments) => {
            completion::answer(&arguments);
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        screen::complain(&error);
        ExitCode::FAILURE
    })
}

/// Parses the arguments in a separate thread: clap's description of all verbs takes 200 KiB of stack, which an agent
/// would otherwise keep for as long as it runs.
fn parse_aside(arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    let taken = arguments.clone();
    match thread::Builder::new().spawn(move || cli::parse(taken)) {
        Ok(parsing) => parsing.join().unwrap_or_else(|panic| resume_unwind(panic)),
        // No thread can be started: parse on the stack of this thread.
        Err(_) => cli::parse(arguments),
    }
}

/// Runs the work of a verb to its end. Calls that are still in flight then are dropped.
fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    if std::env::var_os(runtime::logs::FILTER_VARIABLE).is_some() {
        runtime::logs::init(Some(runtime::LogFormat::Text), "ebb")?;
    }
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let threads = threads.context("cannot start threads")?;
    let result = threads.block_on(work);
    threads.shutdown_background();
    result
}
