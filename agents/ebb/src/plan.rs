//! `ebb plan [NODE…]`: shows what a drain would do now and what would block it; for the named nodes with `ebb drain`'s
//! flags, without a name for this device's node with the agents' settings.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use kubectl_ebb::plan::{NodePlan, Permits, PlanArguments};
use runtime::AgentFlags;
use runtime::flags::{Assignment, assignment};
use session::OWNER;

use crate::device::Device;

/// Arguments of `ebb plan`.
#[derive(Args, Debug)]
pub(crate) struct DevicePlanArguments {
    #[command(flatten)]
    of_nodes: PlanArguments,
    #[command(flatten)]
    device: DeviceFlags,
}

/// The agents' flags, for the plan of this device. `--kubeconfig` is among `ebb drain`'s.
#[derive(Args, Debug)]
#[command(next_help_heading = "Without NODE: this device's own drain")]
struct DeviceFlags {
    /// Folder that is used as the root of the device's files (for tests and containers)
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Settings file that overrides the installed ones; may be given more than once, the last wins
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Name of the Node of this device
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// One setting; may be given more than once, the last wins
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<Assignment>,
}

/// Prints the plan. Exit code 0 when each node would be drained, 1 when something would hold a drain up.
pub(crate) fn run(arguments: &DevicePlanArguments) -> anyhow::Result<ExitCode> {
    let DevicePlanArguments { of_nodes, device } = arguments;
    if of_nodes.names_no_node() {
        return kubectl_ebb::in_runtime(async { of_nodes.show(&[of_device(of_nodes, device).await?]) });
    }
    let is_given = [
        ("--root", device.root.is_some()),
        ("--config", !device.config.is_empty()),
        ("--node", device.node.is_some()),
        ("--set", !device.set.is_empty()),
    ];
    if let Some((flag, _)) = is_given.iter().find(|(_, is_given)| *is_given) {
        bail!(
            "{flag} is about this device's own drain, and NODE about `ebb drain NODE`, which no setting of the device \
             changes: leave one of them out"
        );
    }
    kubectl_ebb::plan::run(of_nodes)
}

/// The plan of this device's agents for its own node.
async fn of_device(of_nodes: &PlanArguments, flags: &DeviceFlags) -> anyhow::Result<NodePlan> {
    if of_nodes.has_flags_about_nodes()? {
        bail!(
            "without NODE the settings of this device say how it is drained (--set KEY=VALUE): the flags of `ebb drain` \
             need a NODE"
        );
    }
    let flags = AgentFlags {
        root: flags.root.clone().unwrap_or_else(|| PathBuf::from("/")),
        config: flags.config.clone(),
        kubeconfig: of_nodes.kubeconfig().cloned(),
        node: flags.node.clone(),
        set: flags.set.clone(),
        ..AgentFlags::default()
    };
    let device = Device::read(&flags)?;
    let cluster = device.reach("plan").await?;
    let name = device.own_node(&cluster).await?.name;
    NodePlan::make(&cluster, &name, (OWNER, "ebb plan"), Permits::Settings, &device.policy).await
}
