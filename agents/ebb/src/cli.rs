//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use runtime::AgentFlags;
use schemas::Agent;

use crate::cancel::CancelArguments;
use crate::commands::CommandsArguments;
use crate::config::ConfigArguments;
use crate::cordon::CordonArguments;
use crate::drain::DrainArguments;
use crate::force::ForceArguments;
use crate::freeze::{FreezeArguments, UnfreezeArguments};
use crate::operation::OperationArguments;
use crate::parent::{ChildArguments, RunArguments};
use crate::plan::PlanArguments;
use crate::request::RequestArguments;
use crate::slots::SlotsArguments;
use crate::topic::TopicArguments;
use crate::uncordon::UncordonArguments;
use crate::update::UpdateArguments;

/// Agents that make sure that a clustered edge node is drained before it goes down.
///
/// A controller asks for a reboot, a shutdown or an update; zedkube cordons the node and moves its pods away, and
/// until it says COMPLETE the other agents hold the operation back. Everything is a file: look with
/// `cat /run/zedkube/NodeDrainStatus/global.json | jq .`
#[derive(Debug, Parser)]
#[command(name = "ebb", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say in plain words where this node is and why
    Status(StatusArguments),
    /// Say what a drain of nodes, or of this device, would do now, and what would block it; nothing is changed
    #[command(args_override_self = true)]
    Plan(PlanArguments),
    /// Cordon nodes and move their pods away, as `kubectl drain` does
    #[command(args_override_self = true)]
    Drain(Box<DrainArguments>),
    /// Let no new pods come to nodes
    #[command(args_override_self = true)]
    Cordon(CordonArguments),
    /// Let pods come to nodes again
    #[command(args_override_self = true)]
    Uncordon(UncordonArguments),
    /// Drain this node, then reboot the device; --cancel takes it back
    Reboot(OperationArguments),
    /// Drain this node, then stop its applications; the device stays up
    Shutdown(OperationArguments),
    /// Drain this node, then switch the device off; --cancel takes it back
    Poweroff(OperationArguments),
    /// Drain this node, then activate an image; --revert takes it back
    Update(UpdateArguments),
    /// Drain this node and hold it drained, for work on the machine
    Request(RequestArguments),
    /// Withdraw what `ebb request` asked for, or take a reboot, shutdown, poweroff or update back
    Cancel(CancelArguments),
    /// List the commands of all sources, and what has become of each
    Commands(CommandsArguments),
    /// Let no command of any source begin until a time, or until `ebb unfreeze`
    Freeze(FreezeArguments),
    /// Let commands begin again
    Unfreeze(UnfreezeArguments),
    /// Override the drain of this node: let the device go down WITHOUT one
    Force(ForceArguments),
    /// Show or free the slots: which nodes of the group may be down for a drain
    Slots(SlotsArguments),
    /// Show or check the settings of the agents
    Config(ConfigArguments),
    /// Look at the topics of any agent, or write one: for debugging
    Topic(TopicArguments),
    /// Show the whole path on an in-memory cluster: a reboot command, a drain, the reboot
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
    /// Run the agent that cordons and drains this node
    Zedkube(AgentFlags),
    /// Run the agent that holds reboot, shutdown and poweroff back (EVE's zedagent)
    #[command(name = "device-op", alias = "zedagent")]
    DeviceOp(AgentFlags),
    /// Run the agent that carries reboot, shutdown and poweroff out
    Nodeagent(AgentFlags),
    /// Run the agent that holds new images back (EVE's baseosmgr)
    #[command(alias = "baseosmgr")]
    Baseos(AgentFlags),
    /// Run the agents as child processes and restart them, where no service manager does
    Run(RunArguments),
    /// Run one agent as a child process of `ebb run`
    #[command(hide = true)]
    Child(ChildArguments),
}

/// What `ebb status` takes.
#[derive(Args, Debug)]
pub(crate) struct StatusArguments {
    /// Folder that stands for `/`
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Print all that is known as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `ebb demo` takes.
#[cfg(feature = "demo")]
#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Stay up, so that another terminal can look and cancel; Ctrl-C ends it
    #[arg(long)]
    pub(crate) hold: bool,
    /// How many pods have to leave the node
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(crate) pods: u16,
}

/// The name of the link that makes the binary a plugin of kubectl.
const PLUGIN: &str = "kubectl-ebb";

/// Verbs that stand in for kubectl's, with its exit code for arguments that make no sense.
const KUBECTL_VERBS: [&str; 4] = ["drain", "cordon", "uncordon", "plan"];

/// What the arguments say; the first is the name under which the program was called.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    let definition = definition(called_as(&arguments));
    let matches = definition.try_get_matches_from(levels(multi_call(arguments)))?;
    Cli::from_arg_matches(&matches).map(|cli| cli.command)
}

/// The exit code for arguments that make no sense.
pub(crate) fn usage_code(arguments: &[OsString]) -> u8 {
    if is_kubectl_verb(arguments) { 1 } else { 2 }
}

/// All verbs and flags; help texts name the program as it was called.
fn definition(called_as: Option<&str>) -> clap::Command {
    let definition = Cli::command();
    if called_as == Some(PLUGIN) { definition.bin_name("kubectl ebb") } else { definition }
}

/// kubectl's `-v 2`, `-v2` and `--v 2` as `-v=2`: here the number may be left out, so it has to hang on the flag.
fn levels(arguments: Vec<OsString>) -> Vec<OsString> {
    if !is_kubectl_verb(&arguments) {
        return arguments;
    }
    let is_level = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut joined: Vec<OsString> = Vec::with_capacity(arguments.len());
    let mut is_literal = false;
    for argument in arguments {
        let text = argument.to_str().filter(|_| !is_literal);
        is_literal |= text == Some("--");
        let before = joined.last().and_then(|last| last.to_str());
        match text {
            Some(level) if is_level(level) && matches!(before, Some("-v" | "--v")) => {
                let level = format!("-v={level}");
                joined.pop();
                joined.push(level.into());
            }
            Some(text) if text.strip_prefix("-v").is_some_and(is_level) => {
                joined.push(format!("-v={}", text.trim_start_matches("-v")).into());
            }
            Some(_) | None => joined.push(argument),
        }
    }
    joined
}

fn is_kubectl_verb(arguments: &[OsString]) -> bool {
    let verb = arguments.get(1).and_then(|verb| verb.to_str());
    verb.is_some_and(|verb| KUBECTL_VERBS.contains(&verb))
}

fn called_as(arguments: &[OsString]) -> Option<&str> {
    arguments.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str())
}

/// The arguments as a subcommand when the binary was called through a link that is named after an agent.
fn multi_call(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if let Some(agent) = called_as(&arguments).and_then(Agent::from_name) {
        arguments.insert(1, OsString::from(agent.name()));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_level_of_a_log_is_read_as_kubectl_reads_it() {
        for (given, expected) in [
            ("ebb drain -v n", Some(None)),
            ("ebb drain n -v", Some(None)),
            ("ebb drain n --verbose", Some(None)),
            ("ebb drain n -v=2", Some(Some(2))),
            ("ebb drain -v 0 n", Some(Some(0))),
            ("ebb drain -v4 n", Some(Some(4))),
            ("ebb drain --v 4 n", Some(Some(4))),
            ("ebb drain --v=4 n -n x --namespace=y --request-timeout=30s", Some(Some(4))),
            ("ebb drain n -- 4", None),
        ] {
            let Command::Drain(drain) = parse(given.split(' ').map(OsString::from).collect()).unwrap() else {
                panic!("{given}");
            };
            assert_eq!((drain.own.verbose, drain.nodes.nodes[0].as_str()), (expected, "n"), "{given}");
        }
    }

    #[test]
    fn a_link_is_an_agent() {
        for (called, expected) in [
            (vec!["/usr/bin/ebb", "status"], vec!["/usr/bin/ebb", "status"]),
            (vec!["/usr/bin/zedkube", "--root", "/r"], vec!["/usr/bin/zedkube", "zedkube", "--root", "/r"]),
            (vec!["baseosmgr"], vec!["baseosmgr", "baseos"]),
            (vec![], vec![]),
        ] {
            let words = |words: Vec<&str>| words.into_iter().map(OsString::from).collect::<Vec<_>>();
            assert_eq!(multi_call(words(called)), words(expected));
        }
        for agent in ["zedkube", "device-op", "zedagent", "nodeagent", "baseos", "baseosmgr"] {
            assert!(Cli::try_parse_from(multi_call(vec![OsString::from(agent)])).is_ok(), "{agent}");
        }
    }
}
