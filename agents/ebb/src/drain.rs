//! `ebb drain NODE…`: `kubectl drain` with kubectl's flags and texts, on our drain engine.
//!
//! All nodes are looked up, then cordoned, then drained; a node that cannot be is named, and the others go on. What is
//! different from kubectl is on purpose: each change is told once, a blocked pod with who blocks it and what to do, and
//! a node counts as drained only when a fresh list proves it.

mod arguments;
mod command;
pub(crate) mod document;
mod dry_run;
mod ending;
mod job;
pub(crate) mod options;
mod panel;
mod sight;
mod story;
#[cfg(test)]
pub(crate) mod testing;
mod trouble;
pub(crate) mod words;

use std::process::ExitCode;

use cluster::Cluster;
use drain::view::NodeView;

pub(crate) use arguments::DrainArguments;
pub(crate) use options::owner;
pub(crate) use trouble::span;

use crate::interrupt::{Interrupt, Interrupts};
use crate::kubectl::flags::DryRun;
use crate::screen::{self, Screen};
use command::Command;
use document::{Document, of_job};
use options::Options;

/// Drains the nodes. Exit code 0 when all of them are drained, 130 after Ctrl-C, else 1.
pub(crate) fn run(arguments: &DrainArguments) -> anyhow::Result<ExitCode> {
    let options = Options::from(arguments)?;
    crate::in_runtime(async {
        let mut interrupts = Interrupts::watch()?;
        let found = tokio::select! {
            found = arguments.nodes.find("drain", &options.nodes) => found?,
            signal = interrupts.next() => return Ok(nothing_was_changed(signal)),
        };
        match options.dry_run {
            DryRun::None => real(&options, found, interrupts).await,
            DryRun::Client | DryRun::Server => tokio::select! {
                ended = dry_run::run(&options, found) => ended,
                signal = interrupts.next() => Ok(nothing_was_changed(signal)),
            },
        }
    })
}

async fn real(
    options: &Options,
    (cluster, nodes): (Cluster, Vec<NodeView>),
    mut interrupts: Interrupts,
) -> anyhow::Result<ExitCode> {
    let mut command = Command::new(&cluster, &nodes, options, Screen::new(options.is_json));
    let signal = tokio::select! {
        () = command.work() => None,
        signal = interrupts.next() => Some(signal),
    };
    if signal.is_some() {
        command.interrupt();
        tokio::select! {
            () = command.run() => {}
            _ = interrupts.next() => screen::say("interrupted again: what was under way is unknown"),
        }
    }
    let all = command.sum_up();
    if options.is_json {
        print(&command.jobs().iter().map(of_job).collect::<Vec<_>>())?;
    }
    Ok(match signal {
        Some(signal) => signal.exit_code(),
        None if all => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    })
}

fn print(document: &[Document]) -> anyhow::Result<()> {
    screen::line(&serde_json::to_string_pretty(document)?);
    Ok(())
}

fn nothing_was_changed(signal: Interrupt) -> ExitCode {
    screen::say("interrupted: nothing has been changed");
    signal.exit_code()
}
