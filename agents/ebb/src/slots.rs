//! `ebb slots`: who may be down for a drain, in the ConfigMap that the nodes of this device's group share.

mod list;
mod map;
mod release;
mod sight;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use runtime::AgentFlags;
use runtime::flags::Assignment;

use crate::device::Device;
use release::Which;

pub(crate) use map::give_back;

/// What `ebb slots` takes.
#[derive(Args, Debug)]
pub(crate) struct SlotsArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say who has a slot, and what those nodes look like now
    List {
        #[command(flatten)]
        common: Box<Common>,
    },
    /// Free the slot of a node that will not give it back itself
    Release {
        #[command(flatten)]
        which: Which,
        /// Also a slot that is in use: two nodes may then be down at once
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Box<Common>,
    },
}

/// Which ConfigMap, and how the answer is printed.
#[derive(Args, Debug)]
#[command(mut_arg("log_format", |flag| flag.hide(true)), mut_arg("beside_zedbox", |flag| flag.hide(true)))]
struct Common {
    /// The group of nodes; else setting slots.group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The namespace of the ConfigMap; else setting slots.namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print the answer as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: AgentFlags,
}

impl Common {
    /// The device, with the ConfigMap that the flags name.
    fn device(&self) -> anyhow::Result<Device> {
        let mut flags = self.flags.clone();
        for (key, value) in [("slots.group", &self.group), ("slots.namespace", &self.namespace)] {
            let set = |value: &String| Assignment { key: key.to_owned(), value: value.clone() };
            flags.set.extend(value.as_ref().map(set));
        }
        Device::read(&flags)
    }
}

/// Shows or frees slots. Exit code 1 if the slots cannot be read or changed, or if a slot is in use.
pub(crate) fn run(arguments: &SlotsArguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::List { common } => crate::in_runtime(list::run(common)),
        Verb::Release { which, force, common } => crate::in_runtime(release::run(which, *force, common)),
    }
}
