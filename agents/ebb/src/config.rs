//! `ebb config`: shows the settings of this device's agents, the origin of each, and the problems that were found; an
//! example with all of them.

mod document;
mod example;
mod text;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::peers;
use runtime::settings::{Origin, Problem, load, settings_files};
use runtime::{AgentFlags, Loaded};
use schemas::{Agent, ConfigItemValueMap, NodeDrainReport, agent};

use kubectl_ebb::screen;

/// Exit code for an invalid flag, the same as an agent's.
const BAD_FLAG: u8 = 2;

/// Arguments of `ebb config`.
#[derive(Args, Debug)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print every setting with its value and its origin; problems come first
    Show(View),
    /// Print the problems of the settings; exit code 1 if there are any
    Check(View),
    /// Print a settings file with every key, its meaning and its default, all of it as comments
    Example,
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

/// Prints settings or problems. Exit code 2 for an invalid flag, as for an agent.
pub(crate) fn run(arguments: &ConfigArguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::Show(view) => show(view),
        Verb::Check(view) => check(view),
        Verb::Example => {
            let flags = AgentFlags::default();
            screen::lines(example::lines(&load(&flags.root(), &flags, None).shown()));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn show(view: &View) -> anyhow::Result<ExitCode> {
    let loaded = read(&view.flags);
    let running = running(&view.flags.root(), &loaded);
    if view.json {
        screen::json(&document::of_settings(&loaded, running))?;
    } else {
        screen::lines(text::settings(&loaded, &running));
    }
    Ok(bad_flags(&loaded).unwrap_or(ExitCode::SUCCESS))
}

fn check(view: &View) -> anyhow::Result<ExitCode> {
    let loaded = read(&view.flags);
    let files = settings_files(&view.flags.root(), &view.flags);
    let running = running(&view.flags.root(), &loaded);
    if view.json {
        screen::json(&document::of_problems(&loaded, &files, running))?;
    } else {
        screen::lines(text::problems(&loaded, files.len(), &running));
    }
    let code = if loaded.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(bad_flags(&loaded).unwrap_or(code))
}

/// Loads the settings as an agent that starts now would. If the controller's file cannot be read, that is added to the
/// problems.
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
                in_effect: "none of the controller's settings".to_owned(),
            });
            loaded
        }
    }
}

/// The messages of the running zedkube about the same files, with the values that it kept: a file that becomes invalid
/// while an agent runs changes nothing in that agent.
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
