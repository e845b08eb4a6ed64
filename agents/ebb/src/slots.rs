//! `ebb slots`: shows and releases the slots in the ConfigMap that the nodes of this device's group share. A node needs
//! a slot to go down for a drain.

mod forget;
mod list;
mod release;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use drain::view::NodeView;
use runtime::AgentFlags;
use runtime::flags::Assignment;
use session::slot_survey::down_for;
use text::one_line;

use crate::device::Device;
use crate::operator::OperatorFlags;
use kubectl_ebb::drain::span;
use release::SlotOwner;

/// Bytes of an annotation that are shown.
const MOST_BYTES: usize = 100;

/// Arguments of `ebb slots`.
#[derive(Args, Debug)]
pub(crate) struct SlotsArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the nodes that hold a slot, and their state now
    List {
        #[command(flatten)]
        common: Box<Common>,
    },
    /// Release the slot of a node that will not release it itself
    Release {
        #[command(flatten)]
        which: SlotOwner,
        /// Also release a slot that is in use: two nodes may then be down at once
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Box<Common>,
    },
    /// Forget what this device remembers of slots that it cannot see: a cordon or slot of zedkube on a node of another
    /// cluster, and slots that were lost with their table. Their nodes may then go down at the same time as this one
    Forget {
        #[command(flatten)]
        place: OperatorFlags,
    },
}

/// The ConfigMap, and the format of the answer.
#[derive(Args, Debug)]
#[command(mut_arg("log_format", |flag| flag.hide(true)), mut_arg("beside_zedbox", |flag| flag.hide(true)))]
struct Common {
    /// Group of nodes; default: setting slots.group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Namespace of the ConfigMap; default: setting slots.namespace
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

/// Lists, releases or forgets slots. Exit code 1 if the slots cannot be read or changed, or if a slot is in use.
pub(crate) fn run(arguments: &SlotsArguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::List { common } => kubectl_ebb::in_runtime(list::run(common)),
        Verb::Release { which, force, common } => {
            kubectl_ebb::in_runtime(release::run(which, *force, common))
        }
        Verb::Forget { place } => forget::run(place),
    }
}

/// The node with this name, if it exists.
fn node_of<'a>(name: &str, nodes: &'a [NodeView]) -> Option<&'a NodeView> {
    nodes.iter().find(|node| node.name == name)
}

/// State of a node: `Ready, cordoned by zedkube`, `NotReady for 3m05s`.
fn node_state(node: &NodeView) -> String {
    let owner = node.cordoned_by.as_ref().map(|owner| one_line(owner, MOST_BYTES));
    let cordon = match (node.cordoned, owner) {
        (true, Some(owner)) => format!(", cordoned by {owner}"),
        (true, None) => ", cordoned".to_owned(),
        (false, Some(owner)) => format!(", uncordoned by hand, with the mark of {owner}"),
        (false, None) => String::new(),
    };
    let ready = match down_for(node) {
        None => "Ready".to_owned(),
        Some(Duration::ZERO) => "NotReady".to_owned(),
        Some(lasting) => format!("NotReady for {}", span(lasting)),
    };
    format!("{ready}{cordon}")
}

#[cfg(test)]
mod tests {
    use drain::view::Unhealthy;
    use session::slot_survey::is_in_use;

    use super::*;

    fn node(ready: bool, cordoned: bool, by: Option<&str>, condition: Option<(&str, u64)>) -> NodeView {
        NodeView {
            ready,
            cordoned,
            cordoned_by: by.map(str::to_owned),
            unhealthy: condition.map(|(condition, seconds)| Unhealthy {
                condition: condition.to_owned(),
                lasting: Duration::from_secs(seconds),
            }),
            ..NodeView::default()
        }
    }

    #[test]
    fn what_a_node_looks_like_and_whether_its_slot_is_in_use() {
        for (node, in_use, expected) in [
            (node(true, false, None, None), false, "Ready"),
            (node(true, true, Some("zedkube"), None), true, "Ready, cordoned by zedkube"),
            (node(true, true, Some("ebb:eve\u{1b}[2J"), None), false, "Ready, cordoned by ebb:eve [2J"),
            (node(true, true, None, None), false, "Ready, cordoned"),
            (
                node(true, false, Some("zedkube"), None),
                true,
                "Ready, uncordoned by hand, with the mark of zedkube",
            ),
            (node(false, false, None, Some(("NotReady", 185))), true, "NotReady for 3m05s"),
            (node(false, true, None, Some(("NotReady", 0))), true, "NotReady, cordoned"),
            (node(false, false, None, Some(("ReadonlyFilesystem", 9))), true, "NotReady"),
            (node(true, false, None, Some(("ReadonlyFilesystem", 9))), false, "Ready"),
        ] {
            assert_eq!((node_state(&node).as_str(), is_in_use(&node)), (expected, in_use), "{node:?}");
        }
    }
}
