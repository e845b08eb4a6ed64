//! The command line of the plugin.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::called::{PLUGIN_COMPLETE, called_as};
use crate::cancel::CancelArguments;
use crate::command::{CommandArguments, UpdateArguments};
use crate::cordon::CordonArguments;
use crate::drain::DrainArguments;
use crate::kubectl::nodes::NodeArguments;
use crate::plan::PlanArguments;
use crate::seen::SeenArguments;
use crate::uncordon::UncordonArguments;

/// What `--version` says: scripts/package names the commit and its date.
pub const VERSION: &str = match option_env!("EBB_VERSION") {
    Some(version) => version,
    None => concat!(env!("CARGO_PKG_VERSION"), " (not built by scripts/package, which names the commit)"),
};

/// Drains nodes as `kubectl drain` does, with a reason for every wait; reboots, updates and shuts down the devices
/// behind them.
///
/// Other verbs about one device (its status, its poweroff) are typed there: `ebb status`.
#[derive(Debug, Parser)]
#[command(name = "kubectl-ebb", bin_name = "kubectl ebb", version = VERSION, max_term_width = 100)]
#[command(arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// A verb about the nodes of a cluster.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what the nodes are doing and why, those first that somebody has to look at; changes nothing
    #[command(args_override_self = true)]
    Nodes(SeenArguments),
    /// Show for nodes what holds up their drains, what to do, and who has cordoned them; changes nothing
    #[command(args_override_self = true)]
    Why(SeenArguments),
    /// Show what a Node and its Events still know of its drains; changes nothing
    #[command(args_override_self = true)]
    History(SeenArguments),
    /// Show what a drain of nodes would do now and what would block it; changes nothing
    #[command(args_override_self = true)]
    Plan(PlanArguments),
    /// Cordon nodes and evict their pods, as `kubectl drain` does
    #[command(args_override_self = true)]
    Drain(Box<DrainArguments>),
    /// Mark nodes as unschedulable
    #[command(args_override_self = true)]
    Cordon(CordonArguments),
    /// Mark nodes as schedulable
    #[command(args_override_self = true)]
    Uncordon(UncordonArguments),
    /// Drain nodes, then reboot their devices; ebb on each device does it
    #[command(args_override_self = true)]
    Reboot(CommandArguments),
    /// Drain nodes, then stop the applications of their devices, which stay up; ebb on each device does it
    #[command(args_override_self = true)]
    Shutdown(CommandArguments),
    /// Drain nodes, then have their devices activate an image and reboot into it; ebb on each device does it
    #[command(args_override_self = true)]
    Update(UpdateArguments),
    /// Have devices drain their nodes and keep them drained, for maintenance; ebb on each device does it
    #[command(args_override_self = true)]
    Request(CommandArguments),
    /// Take back what `reboot`, `shutdown`, `update` and `request` have commanded
    #[command(args_override_self = true)]
    Cancel(CancelArguments),
    /// Print the program by which kubectl completes `kubectl ebb`
    ///
    /// kubectl's own completion has to be on. The program needs this name, and a folder of the PATH, for example:
    /// kubectl ebb completion > ~/.local/bin/kubectl_complete-ebb; chmod +x ~/.local/bin/kubectl_complete-ebb
    Completion,
    /// Answer a TAB
    #[command(name = COMPLETE, hide = true, disable_help_flag = true)]
    Complete(CompleteArguments),
}

impl Verb {
    /// The choice of nodes, of a verb that has one.
    pub(crate) fn nodes(&self) -> Option<&NodeArguments> {
        match self {
            Self::Nodes(seen) | Self::Why(seen) | Self::History(seen) => Some(&seen.nodes),
            Self::Plan(plan) => Some(plan.nodes()),
            Self::Drain(drain) => Some(&drain.nodes),
            Self::Cordon(cordon) => Some(&cordon.nodes),
            Self::Uncordon(uncordon) => Some(&uncordon.nodes),
            Self::Reboot(command) | Self::Shutdown(command) | Self::Request(command) => Some(&command.nodes),
            Self::Update(update) => Some(&update.command.nodes),
            Self::Cancel(cancel) => Some(&cancel.nodes),
            Self::Completion | Self::Complete(_) => None,
        }
    }
}

/// Arguments of the hidden verb that answers a TAB.
#[derive(Args, Debug)]
pub struct CompleteArguments {
    /// The words that are typed; the last one is to be completed
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    pub(crate) words: Vec<String>,
}

/// Hidden verb that answers a TAB, with the name that cobra gives it.
pub const COMPLETE: &str = "__complete";

/// Verbs that imitate kubectl's. Like kubectl they exit with 1 for invalid arguments.
const KUBECTL_VERBS: [&str; 4] = ["drain", "cordon", "uncordon", "plan"];

/// Verbs that the plugin alone has, or that `ebb` on a device has too, with rules of their own.
const PLUGIN_VERBS: [&str; 8] =
    ["reboot", "shutdown", "update", "request", "cancel", "nodes", "why", "history"];

const AFTER_HELP: &str = "\
Examples:
  kubectl ebb nodes                           what each node is doing, and why
  kubectl ebb why NODE                        what holds its drain up, and what to do
  kubectl ebb plan NODE --ignore-daemonsets   what this drain would do, and what would block it
  kubectl ebb drain NODE --ignore-daemonsets  as kubectl drain, with a reason for every wait
  kubectl ebb uncordon NODE                   the node takes pods again
  kubectl ebb reboot NODE --wait              its device drains the node, then reboots
  kubectl ebb cancel NODE                     takes that back

Exit codes: 0 done; 1 refused, failed or invalid arguments, as kubectl; 2 no such verb; 130 after Ctrl-C.";

/// Parses the arguments of the plugin; the first is the name under which it was called.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Verb, clap::Error> {
    if called_as(&arguments) == Some(PLUGIN_COMPLETE) {
        arguments.insert(1, COMPLETE.into());
    }
    let parsed = definition().try_get_matches_from(levels(arguments));
    let matches = parsed.map_err(|mut error| {
        if error.kind() == ErrorKind::InvalidSubcommand {
            let hint = "a verb about one device is typed on it: `ebb VERB`".to_owned();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
        }
        error
    })?;
    Cli::from_arg_matches(&matches).map(|cli| cli.verb)
}

/// The definition of all verbs and flags of the plugin.
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Exit code for invalid arguments: 1 for the verbs that imitate kubectl's, else 2.
pub fn usage_code(arguments: &[OsString]) -> u8 {
    if is_kubectl_verb(arguments) { 1 } else { 2 }
}

/// Exit code of the plugin for invalid arguments: 1 for all its verbs, else 2.
pub(crate) fn plugin_usage_code(arguments: &[OsString]) -> u8 {
    if is_one_of(&PLUGIN_VERBS, arguments) { 1 } else { usage_code(arguments) }
}

/// Joins kubectl's `-v 2`, `-v2` and `--v 2` into `-v=2`. Our `-v` has an optional value, so clap accepts it only with
/// `=`.
pub fn levels(arguments: Vec<OsString>) -> Vec<OsString> {
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
    is_one_of(&KUBECTL_VERBS, arguments)
}

fn is_one_of(verbs: &[&str], arguments: &[OsString]) -> bool {
    let verb = arguments.get(1).and_then(|verb| verb.to_str());
    verb.is_some_and(|verb| verbs.contains(&verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn the_level_of_a_log_is_read_as_kubectl_reads_it() {
        for (given, expected) in [
            ("kubectl-ebb drain -v n", Some(None)),
            ("kubectl-ebb drain n -v", Some(None)),
            ("kubectl-ebb drain n --verbose", Some(None)),
            ("kubectl-ebb drain n -v=2", Some(Some(2))),
            ("kubectl-ebb drain -v 0 n", Some(Some(0))),
            ("kubectl-ebb drain -v4 n", Some(Some(4))),
            ("kubectl-ebb drain --v 4 n", Some(Some(4))),
            ("kubectl-ebb drain --v=4 n -n x --namespace=y --request-timeout=30s", Some(Some(4))),
            ("kubectl-ebb drain n -- 4", None),
        ] {
            let Verb::Drain(drain) = parse(given.split(' ').map(OsString::from).collect()).unwrap() else {
                panic!("{given}");
            };
            assert_eq!((drain.own.verbose, drain.nodes.nodes[0].as_str()), (expected, "n"), "{given}");
        }
    }

    #[test]
    fn kubectl_asks_for_completions_through_a_link() {
        let of = |words: &[&str]| parse(words.iter().map(OsString::from).collect());
        assert!(matches!(of(&["/usr/bin/kubectl_complete-ebb", ""]), Ok(Verb::Complete(_))));
        let error = of(&["/usr/bin/kubectl-ebb", "status"]).unwrap_err().to_string();
        assert!(error.contains("a verb about one device is typed on it"), "{error}");
    }
}
