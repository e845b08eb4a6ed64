//! What people type who have a kubeconfig: the verbs about the nodes of a cluster, and their output on a terminal.
//!
//! `kubectl-ebb` is a plugin of kubectl with these verbs alone. The program `ebb` has them beside those of a device, and is
//! the same plugin when it is called through a link of that name.

pub mod called;
pub mod cancel;
pub mod cli;
pub mod command;
pub mod completion;
pub mod cordon;
pub mod drain;
mod following;
pub mod interrupts;
pub mod kubectl;
pub mod plan;
pub mod screen;
pub mod seen;
pub mod uncordon;

use std::ffi::OsString;
use std::io;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use cluster::node_commands::NodeCommand;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

use cli::Verb;

/// Worker threads of a verb that talks to a cluster: one for its main loop, one for blocking work.
const THREADS: usize = 2;

/// Runs the plugin with these arguments (the first is the name under which it was called) and returns the exit code of the
/// process: 0 done, 1 refused, failed or invalid arguments, as kubectl; 2 no such verb; 130 after Ctrl-C.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let usage = cli::plugin_usage_code(&arguments);
    let result = match parse_aside(arguments, cli::parse) {
        Ok(Verb::Plan(arguments)) => plan::run(&arguments),
        Ok(Verb::Drain(arguments)) => drain::run(&arguments),
        Ok(Verb::Cordon(arguments)) => cordon::run(&arguments),
        Ok(Verb::Uncordon(arguments)) => uncordon::run(&arguments),
        Ok(Verb::Reboot(arguments)) => command::run(NodeCommand::Reboot, &arguments),
        Ok(Verb::Shutdown(arguments)) => command::run(NodeCommand::Shutdown, &arguments),
        Ok(Verb::Update(arguments)) => command::update(&arguments),
        Ok(Verb::Request(arguments)) => command::run(NodeCommand::Drain, &arguments),
        Ok(Verb::Cancel(arguments)) => cancel::run(&arguments),
        Ok(Verb::Nodes(arguments)) => seen::nodes(&arguments),
        Ok(Verb::Why(arguments)) => seen::why(&arguments),
        Ok(Verb::History(arguments)) => seen::history(&arguments),
        Ok(Verb::Completion) => {
            screen::lines(completion::PROGRAM.lines());
            Ok(ExitCode::SUCCESS)
        }
        Ok(Verb::Complete(arguments)) => {
            completion::answer(&arguments, cli::definition());
            Ok(ExitCode::SUCCESS)
        }
        Err(answer) => return screen::answer(&answer, usage),
    };
    exit_code(result)
}

/// The exit code of a verb; prints why it has failed.
pub fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        screen::complain(&error);
        ExitCode::FAILURE
    })
}

/// Parses the arguments in a separate thread: clap's description of all verbs takes 200 KiB of stack, which an agent
/// would otherwise keep for as long as it runs.
pub fn parse_aside<V: Send + 'static>(
    arguments: Vec<OsString>,
    parse: fn(Vec<OsString>) -> Result<V, clap::Error>,
) -> Result<V, clap::Error> {
    let taken = arguments.clone();
    match thread::Builder::new().spawn(move || parse(taken)) {
        Ok(parsing) => parsing.join().unwrap_or_else(|panic| resume_unwind(panic)),
        // No thread can be started: parse on the stack of this thread.
        Err(_) => parse(arguments),
    }
}

/// Shows on stderr what environment variable `EBB_LOG` chooses of the log, in `tracing`'s notation: `debug`,
/// `cluster=trace,info`. Nothing without it.
fn show_log() {
    let Some(chosen) = std::env::var("EBB_LOG").ok().filter(|chosen| !chosen.is_empty()) else { return };
    let filter = chosen.parse::<Targets>();
    let shown =
        filter.as_ref().map_or_else(|_| Targets::new().with_default(LevelFilter::INFO), Targets::clone);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::stderr);
    if let Err(error) = tracing::subscriber::set_global_default(Registry::default().with(shown).with(lines)) {
        tracing::debug!("the log is shown already: {error}");
    }
    if let Err(error) = filter {
        tracing::warn!("EBB_LOG={chosen:?}: {error}; taken as info. Such as debug, or cluster=trace,info");
    }
}

/// Runs the work of a verb to its end. Calls that are still in flight then are dropped.
///
/// # Errors
/// Those of the work; no thread can be started; the log cannot be written.
pub fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    show_log();
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let threads = threads.context("cannot start threads")?;
    let result = threads.block_on(work);
    threads.shutdown_background();
    result
}
