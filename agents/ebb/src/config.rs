//! `ebb config`: the settings that the agents of this device have, where each comes from, and what is wrong with them.

mod document;
mod telling;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::peers;
use runtime::settings::{Origin, Problem, load, settings_files};
use runtime::{AgentFlags, Loaded};
use schemas::{Agent, ConfigItemValueMap, NodeDrainReport, agent};
use serde::Serialize;

use crate::screen;

/// What a program exits with for a mistake on the command line.
const BAD_FLAG: u8 = 2;

/// What `ebb config` takes.
#[derive(Args, Debug)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print every setting with its value and where it comes from; what is wrong comes first
    Show(View),
    /// Print what is wrong with the settings; exit code 1 if anything is
    Check(View),
}

#[derive(Args, Debug)]
#[command(mut_arg("log_format", |flag| flag.hide(true)), mut_arg("beside_zedbox", |flag| flag.hide(true)))]
struct View {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: AgentFlags,
}

/// Prints settings or problems. A bad flag is exit code 2, as it is for an agent.
pub(crate) fn run(arguments: &ConfigArguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::Show(view) => show(view),
        Verb::Check(view) => check(view),
    }
}

fn show(view: &View) -> anyhow::Result<ExitCode> {
    let loaded = read(&view.flags);
    let running = running(&view.flags.root(), &loaded);
    if view.json {
        print(&document::of_settings(&loaded, running))?;
    } else {
        screen::line(telling::settings(&loaded, &running).trim_end());
    }
    Ok(bad_flags(&loaded).unwrap_or(ExitCode::SUCCESS))
}

fn check(view: &View) -> anyhow::Result<ExitCode> {
    let loaded = read(&view.flags);
    let files = settings_files(&view.flags.root(), &view.flags);
    let running = running(&view.flags.root(), &loaded);
    if view.json {
        print(&document::of_problems(&loaded, &files, running))?;
    } else {
        screen::line(telling::problems(&loaded, files.len(), &running).trim_end());
    }
    let code = if loaded.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(bad_flags(&loaded).unwrap_or(code))
}

/// The settings as an agent that starts now would have them. A controller's file that cannot be read is one more
/// problem.
fn read(flags: &AgentFlags) -> Loaded {
    let root = flags.root();
    let controller =
        read_item::<ConfigItemValueMap>(&root, agent::ZEDAGENT, Persistence::Volatile, &TopicKey::global());
    match controller {
        Ok(controller) => load(&root, flags, controller.as_ref()),
        Err(refusal) => {
            let mut loaded = load(&root, flags, None);
            loaded.problems.push(Problem {
                origin: Origin::File { path: refusal.path, line: None },
                key: String::new(),
                value: refusal.reason,
                accepted: refusal.accepted,
                in_effect: "nothing of what the controller says".to_owned(),
            });
            loaded
        }
    }
}

/// What the zedkube that runs says of the same places, with the values that it kept: a file that becomes bad while an agent
/// runs changes nothing in that agent.
fn running(root: &Root, loaded: &Loaded) -> Vec<String> {
    if loaded.problems.is_empty() || !peers::runs(root, Agent::Zedkube) {
        return Vec::new();
    }
    let key = TopicKey::global();
    let report = read_item::<NodeDrainReport>(root, agent::ZEDKUBE, Persistence::Volatile, &key);
    let refused = report.ok().flatten().map(|report| report.refused).unwrap_or_default();
    let is_problem = |path: &str| {
        let places = loaded.problems.iter().map(|problem| problem.origin.to_string());
        places.into_iter().any(|place| place.starts_with(path))
    };
    refused.into_iter().filter(|refused| is_problem(&refused.path)).map(|refused| refused.reason).collect()
}

fn bad_flags(loaded: &Loaded) -> Option<ExitCode> {
    (!loaded.bad_flags().is_empty()).then(|| ExitCode::from(BAD_FLAG))
}

fn print(document: &impl Serialize) -> anyhow::Result<()> {
    screen::line(&serde_json::to_string_pretty(document).context("cannot write JSON")?);
    Ok(())
}
