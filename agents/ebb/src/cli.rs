//! The command line.

mod help;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use kubectl_ebb::called::called_as;
use kubectl_ebb::cli::{COMPLETE, CompleteArguments, VERSION, levels};
use kubectl_ebb::cordon::CordonArguments;
use kubectl_ebb::drain::DrainArguments;
use runtime::AgentFlags;
use schemas::Agent;

use crate::cancel::CancelArguments;
use crate::commands::CommandsArguments;
use crate::completion::CompletionArguments;
use crate::config::ConfigArguments;
use crate::daemonset::DaemonsetArguments;
#[cfg(feature = "demo")]
use crate::demo::DemoArguments;
use crate::force::ForceArguments;
use crate::freeze::{FreezeArguments, UnfreezeArguments};
use crate::history::HistoryArguments;
use crate::hold::HoldArguments;
use crate::metrics::MetricsArguments;
use crate::operation::OperationArguments;
use crate::parent::{ChildArguments, RunArguments};
use crate::plan::DevicePlanArguments;
use crate::report::ReportArguments;
use crate::request::RequestArguments;
use crate::setup::SetupArguments;
use crate::slots::SlotsArguments;
use crate::topic::TopicArguments;
use crate::uncordon::DeviceUncordonArguments;
use crate::update::UpdateArguments;

/// Agents that make sure that a clustered edge node is drained before it goes down.
///
/// A controller asks for a reboot, a shutdown or an update. zedkube cordons the node and evicts its pods; the other
/// agents hold the operation back until zedkube reports COMPLETE. All state is in files, for example: `cat
/// /run/zedkube/NodeDrainStatus/global.json | jq .`
#[derive(Debug, Parser)]
#[command(name = "ebb", version = VERSION, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what is wrong with this node, what to type, and how far its drain is
    ///
    /// Exit codes: 0 idle, drained, or only waiting for the maintenance window; 1 the files do not tell (an agent does
    /// not run, a file is refused); 3 in progress; 4 no right to read the files; 5 something holds the drain up, or would
    /// hold the next one up; 6 failed; 7 the device goes down without a drain, or will.
    Status(StatusArguments),
    /// List the drains of this device, or tell the story of one
    ///
    /// zedkube keeps the last 50 drains in /persist/status/zedkube/drains, a file for each: who asked, every pod, refusal and
    /// outage, the operation, and the way back.
    History(HistoryArguments),
    /// Write one drain as a page for a browser, to look at or to send to somebody
    ///
    /// The page shows how the drain ended, what held it up, every pod on a time axis, and the whole story. It is one
    /// file that needs no network and runs no scripts.
    Report(ReportArguments),
    /// Print the metrics of this device for Prometheus
    ///
    /// ebb-metrics.timer writes them into a file for node_exporter's textfile collector. What each metric means:
    /// docs/operations/metrics.md.
    Metrics(MetricsArguments),
    /// Show what a drain of nodes, or of this device's node, would do now and what would block it; changes nothing
    #[command(args_override_self = true)]
    Plan(DevicePlanArguments),
    /// Cordon nodes and evict their pods, as `kubectl drain` does
    #[command(args_override_self = true)]
    Drain(Box<DrainArguments>),
    /// Mark nodes as unschedulable
    #[command(args_override_self = true)]
    Cordon(CordonArguments),
    /// Mark nodes as schedulable
    #[command(args_override_self = true)]
    Uncordon(DeviceUncordonArguments),
    /// Drain this node, then reboot the device; --cancel takes it back
    Reboot(OperationArguments),
    /// Drain this node, then stop its applications; the device stays up
    Shutdown(OperationArguments),
    /// Drain this node, then switch the device off; --cancel takes it back
    Poweroff(OperationArguments),
    /// Drain this node, then activate an image; --revert takes it back
    Update(UpdateArguments),
    /// Drain this node and keep it drained, for maintenance of the machine
    Request(RequestArguments),
    /// Withdraw the request of `ebb request`, or take back a reboot, shutdown, poweroff or update
    Cancel(CancelArguments),
    /// List the commands of all sources, each with its state
    Commands(CommandsArguments),
    /// Hold back the commands of all sources, until a time or until `ebb unfreeze`
    Freeze(FreezeArguments),
    /// End a freeze: the commands that it held back begin
    Unfreeze(UnfreezeArguments),
    /// Override the drain of this node: let the device go down WITHOUT one
    Force(ForceArguments),
    /// Show or release slots: they limit how many nodes of a group are down for a drain at once
    Slots(SlotsArguments),
    /// Show or check the settings of the agents, or print an example with all of them
    Config(ConfigArguments),
    /// Put ebb into service on this machine, look whether it is, or take it out of service
    ///
    /// It says what it has found and what it would do; with --yes it does it. Exit codes: 0 all is well, 1 something is
    /// missing or wrong.
    Setup(SetupArguments),
    /// Show the items of any agent's topics (for debugging)
    Topic(TopicArguments),
    /// Demonstrate a reboot command, the drain and the reboot, on a cluster in memory
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
    /// Run the agent that cordons and drains this node
    Zedkube(AgentFlags),
    /// Run the agent that holds back reboot, shutdown and poweroff until the node is drained (EVE's zedagent)
    #[command(name = "device-op", alias = "zedagent")]
    DeviceOp(AgentFlags),
    /// Run the agent that carries out reboot, shutdown and poweroff
    Nodeagent(AgentFlags),
    /// Run the agent that holds back new images until the node is drained (EVE's baseosmgr)
    #[command(alias = "baseosmgr")]
    Baseos(AgentFlags),
    /// Run the agent that commands a drained reboot when the host needs one (settings `sentinel.*`)
    Sentinel(AgentFlags),
    /// Run the agents as child processes and restart them, on hosts without a service manager
    Run(RunArguments),
    /// Keep a shutdown of this machine back until its node is drained; ebb-hold.service runs it
    Hold(HoldArguments),
    /// Print the script with which a shell completes verbs, flags and names of nodes
    ///
    /// bash: `source <(ebb completion bash)`; zsh: `source <(ebb completion zsh)`; fish: `ebb completion fish | source`.
    Completion(CompletionArguments),
    /// Answer a TAB
    #[command(name = COMPLETE, hide = true, disable_help_flag = true)]
    Complete(CompleteArguments),
    /// Put ebb on a node, start it and remove it, for the DaemonSet
    #[command(hide = true)]
    Daemonset(DaemonsetArguments),
    /// Run one agent as a child process of `ebb run`
    #[command(hide = true)]
    Child(ChildArguments),
}

/// Arguments of `ebb status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArguments {
    /// Folder that is used as the root of the device's files (for tests and containers)
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// List every pod of the node and leave nothing out, however long it gets
    #[arg(long)]
    pub(crate) pods: bool,
    /// Draw the screen anew every second, until Ctrl-C; without a terminal, print it at each change
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) watch: bool,
    /// Print the whole status as one JSON object
    #[arg(long, conflicts_with = "pods")]
    pub(crate) json: bool,
}

/// Parses the arguments; the first is the name under which the program was called.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    if let Some((link, agent)) = called_as(&arguments).and_then(|link| Some((link, Agent::from_name(link)?)))
    {
        let definition = of_agent(agent, link);
        let flags = AgentFlags::from_arg_matches(&definition.try_get_matches_from(arguments)?)?;
        return Ok(match agent {
            Agent::Zedkube => Command::Zedkube(flags),
            Agent::DeviceOp => Command::DeviceOp(flags),
            Agent::Nodeagent => Command::Nodeagent(flags),
            Agent::Baseos => Command::Baseos(flags),
            Agent::Sentinel => Command::Sentinel(flags),
        });
    }
    let matches = definition().try_get_matches_from(levels(arguments))?;
    Cli::from_arg_matches(&matches).map(|cli| cli.command)
}

/// The definition of the program that a link with the name of an agent is: its help names the link alone.
fn of_agent(agent: Agent, link: &str) -> clap::Command {
    let verb = Cli::command().find_subcommand(agent.name()).cloned().unwrap_or_default();
    verb.bin_name(link).display_name(link).version(VERSION).max_term_width(100)
}

/// The definition of all verbs and flags.
pub fn definition() -> clap::Command {
    help::grouped(Cli::command())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// What a help says can be typed as it stands.
    #[test]
    fn a_link_is_an_agent() {
        let of = |words: &[&str]| parse(words.iter().map(OsString::from).collect());
        for (link, expected) in [
            ("zedkube", "Zedkube"),
            ("device-op", "DeviceOp"),
            ("zedagent", "DeviceOp"),
            ("nodeagent", "Nodeagent"),
            ("baseos", "Baseos"),
            ("baseosmgr", "Baseos"),
            ("sentinel", "Sentinel"),
        ] {
            let path = format!("/usr/lib/ebb/{link}");
            let parsed = of(&[&path, "--root", "/r"]).unwrap();
            assert!(format!("{parsed:?}").starts_with(expected), "{link}: {parsed:?}");
            let help = of(&[&path, "--help"]).unwrap_err().to_string();
            assert!(help.contains(&format!("\nUsage: {link} [OPTIONS]\n")), "{help}");
            let version = of(&[&path, "--version"]).unwrap_err().to_string();
            assert!(version.starts_with(&format!("{link} ")), "{version}");
            assert!(of(&[&path, "status"]).is_err(), "{link} has no verbs");
        }
        assert!(matches!(of(&["/usr/bin/ebb", "status"]), Ok(Command::Status(_))));
        assert!(of(&[]).is_err());
    }
}
