//! `ebb plan [NODE…]`: shows what a drain would do now and what would block it; for the named nodes with `ebb drain`'s
//! flags, without a name for this device's node with the agents' settings.
//!
//! Changes nothing: the API server is asked about each pod in dry-run mode.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Parser};
use cluster::{Cluster, full_snapshot, trial};
use drain::volumes::StorageIndex;
use drain::{Policy, Snapshot, plan};
use runtime::AgentFlags;
use runtime::flags::{Assignment, assignment};
use serde::Serialize;
use session::OWNER;

use crate::device::Device;
use crate::drain::DrainArguments;
use crate::drain::document::{BlockedDocument, PodDocument, of_blocked, of_line};
use crate::drain::options::{Options, policy};
use crate::forecast::{Forecast, Permits};
use crate::screen;

/// Arguments of `ebb plan`.
#[derive(Args, Debug)]
#[command(mut_arg("dry_run", |flag| flag.hide(true)))]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    drain: Box<DrainArguments>,
    /// Print JSON, like -o json
    #[arg(long)]
    json: bool,
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

#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub(crate) snapshot: Snapshot,
    pub(crate) forecast: Forecast,
    /// For each pod of the snapshot, its order and the volumes that must be detached.
    pub(crate) extras: Vec<Extra>,
}

/// Facts about a pod that the drain engine's line does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// Pods with a higher order are evicted later.
    pub(crate) order: i32,
    /// Names of its PersistentVolumes.
    pub(crate) volumes: Vec<String>,
}

/// Prints the plan. Exit code 0 when each node would be drained, 1 when something would hold a drain up.
pub(crate) fn run(arguments: &PlanArguments) -> anyhow::Result<ExitCode> {
    let nodes = &arguments.drain.nodes;
    let is_own = nodes.nodes.is_empty() && nodes.selector.as_ref().is_none_or(String::is_empty);
    crate::in_runtime(async {
        let all = if is_own { vec![of_device(arguments).await?] } else { of_nodes(arguments).await? };
        if arguments.json || arguments.drain.own.is_json() {
            print(&all)?;
        } else {
            for (number, node_plan) in all.iter().enumerate() {
                if number > 0 {
                    screen::line("");
                }
                screen::lines(text::render(node_plan));
            }
        }
        let goes = all.iter().all(|node_plan| node_plan.forecast.goes());
        Ok(if goes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Prints JSON: one object for one node, else a list.
fn print(all: &[NodePlan]) -> anyhow::Result<()> {
    match all {
        [one] => screen::json(&document(one)),
        all => screen::json(&all.iter().map(document).collect::<Vec<_>>()),
    }
}

/// The plan of `ebb drain` for these nodes, with the same flags and the same kubeconfig.
async fn of_nodes(arguments: &PlanArguments) -> anyhow::Result<Vec<NodePlan>> {
    let device = &arguments.device;
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
    let options = Options::from(&arguments.drain)?;
    let (cluster, nodes) = arguments.drain.nodes.find("plan", &options.nodes).await?;
    let mut all = Vec::new();
    for node in nodes {
        let person = (options.owner.as_str(), options.reason.as_str());
        let forecast = Forecast::begin(&cluster, &node.name, person, Permits::Flags).await.0;
        all.push(NodePlan::make(&cluster, forecast, &options.policy).await?);
    }
    Ok(all)
}

/// The plan of this device's agents for its own node.
async fn of_device(arguments: &PlanArguments) -> anyhow::Result<NodePlan> {
    let PlanArguments { drain, device: flags, .. } = arguments;
    if policy(drain)? != policy(&DrainArguments::none()?)? || drain.nodes.chooses_cluster() {
        bail!(
            "without NODE the settings of this device say how it is drained (--set KEY=VALUE): the flags of `ebb drain` \
             need a NODE"
        );
    }
    let flags = AgentFlags {
        root: flags.root.clone().unwrap_or_else(|| PathBuf::from("/")),
        config: flags.config.clone(),
        kubeconfig: drain.nodes.kubeconfig.clone(),
        node: flags.node.clone(),
        set: flags.set.clone(),
        ..AgentFlags::default()
    };
    let device = Device::read(&flags)?;
    let cluster = device.reach("plan").await?;
    let name = device.own_node(&cluster).await?.name;
    let forecast = Forecast::begin(&cluster, &name, (OWNER, "ebb plan"), Permits::Settings).await.0;
    NodePlan::make(&cluster, forecast, &device.policy).await
}

impl DrainArguments {
    /// The values of all flags when none is given.
    fn none() -> Result<Self, clap::Error> {
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            drain: DrainArguments,
        }
        Ok(Alone::try_parse_from(["drain"])?.drain)
    }
}

impl NodePlan {
    /// Takes a snapshot of the node and asks about each pod.
    async fn make(cluster: &Cluster, forecast: Forecast, policy: &Policy) -> anyhow::Result<Self> {
        let snapshot = full_snapshot(cluster, &forecast.node).await?;
        if snapshot.node.is_none() {
            bail!("Error from server (NotFound): nodes {:?} not found", forecast.node);
        }
        let trial = trial(cluster, snapshot.clone(), policy).await;
        let index = StorageIndex::of(&snapshot);
        let extras = snapshot.pods.iter().zip(plan(&snapshot, policy)).map(|(pod, planned)| Extra {
            order: planned.order,
            volumes: index.of_pod(pod).into_iter().map(|volume| volume.volume).collect(),
        });
        let extras = extras.collect();
        Ok(Self { snapshot, forecast: Forecast { trial, ..forecast }, extras })
    }
}

/// JSON form of the plan of one node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    name: String,
    cordoned: bool,
    /// Owner of the cordon; null if the node has no owner's annotation.
    cordoned_by: Option<String>,
    /// True if nothing would hold the drain up now.
    goes: bool,
    /// The last line of the text form.
    verdict: String,
    /// Error if the node cannot be cordoned; empty if it can.
    cordon_failure: String,
    pods: Vec<PlannedDocument>,
    blocked: Vec<BlockedDocument>,
    /// `namespace/name` of pods that may come back to this node: they tolerate the cordon, or their owner does not look at
    /// cordons.
    may_return: Vec<String>,
    /// Volumes that are attached to the node and that no pod of it uses.
    attached: Vec<AttachedDocument>,
}

/// One volume that no pod uses.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AttachedDocument {
    volume: String,
    driver: String,
    detail: String,
    /// True if the drain would fail because of it.
    is_stuck: bool,
}

/// One pod of the plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlannedDocument {
    #[serde(flatten)]
    pod: PodDocument,
    order: i32,
    volumes: Vec<String>,
}

fn document(node_plan: &NodePlan) -> Document {
    let node = node_plan.snapshot.node.clone().unwrap_or_default();
    let Forecast { refused_cordon, trial, .. } = &node_plan.forecast;
    let pods = trial.lines.iter().zip(&node_plan.extras);
    let attached = trial.leftovers.iter().map(|left| AttachedDocument {
        volume: left.volume.clone(),
        driver: left.driver.clone(),
        detail: left.obstacle.clone(),
        is_stuck: left.is_stuck,
    });
    Document {
        goes: node_plan.forecast.goes(),
        verdict: node_plan.forecast.verdict(),
        cordon_failure: refused_cordon.clone().unwrap_or_default(),
        may_return: trial.may_return.iter().map(ToString::to_string).collect(),
        attached: attached.collect(),
        pods: pods
            .map(|(line, extra)| PlannedDocument {
                pod: of_line(line, false),
                order: extra.order,
                volumes: extra.volumes.clone(),
            })
            .collect(),
        blocked: trial.blocked.iter().chain(&trial.returning).map(of_blocked).collect(),
        name: node.name,
        cordoned: node.cordoned,
        cordoned_by: node.cordoned_by,
    }
}
