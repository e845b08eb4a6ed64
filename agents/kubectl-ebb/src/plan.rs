//! `ebb plan NODE…`: shows what a drain with `ebb drain`'s flags would do now and what would block it.
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
use serde::Serialize;

use crate::drain::DrainArguments;
use crate::drain::document::{BlockedDocument, PodDocument, of_blocked, of_line};
use crate::drain::forecast::Forecast;
pub use crate::drain::forecast::Permits;
use crate::drain::options::{Options, policy};
use crate::kubectl::nodes::NodeArguments;
use crate::screen;

/// Arguments of `ebb plan`.
#[derive(Args, Debug)]
#[command(mut_arg("dry_run", |flag| flag.hide(true)))]
pub struct PlanArguments {
    #[command(flatten)]
    drain: Box<DrainArguments>,
    /// Print JSON, like -o json
    #[arg(long)]
    json: bool,
}

/// The plan of one node.
#[derive(Clone, Debug)]
pub struct NodePlan {
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

/// Prints the plan of the nodes. Exit code 0 when each of them would be drained, 1 when something would hold a drain up.
pub fn run(arguments: &PlanArguments) -> anyhow::Result<ExitCode> {
    crate::in_runtime(async { arguments.show(&arguments.of_nodes().await?) })
}

impl PlanArguments {
    /// The choice of nodes.
    pub(crate) fn nodes(&self) -> &NodeArguments {
        &self.drain.nodes
    }

    /// True if no node is named, and none chosen by its labels.
    pub fn names_no_node(&self) -> bool {
        let nodes = &self.drain.nodes;
        nodes.nodes.is_empty() && nodes.selector.as_ref().is_none_or(String::is_empty)
    }

    /// True if flags say how to drain, or choose a cluster by the parts of a kubeconfig.
    ///
    /// # Errors
    /// Flags that contradict each other.
    pub fn has_flags_about_nodes(&self) -> anyhow::Result<bool> {
        Ok(policy(&self.drain)? != policy(&DrainArguments::none()?)? || self.drain.nodes.chooses_cluster())
    }

    /// The kubeconfig that a flag names.
    pub fn kubeconfig(&self) -> Option<&PathBuf> {
        self.drain.nodes.kubeconfig.as_ref()
    }

    /// The plan of `ebb drain` for these nodes, with the same flags and the same kubeconfig.
    ///
    /// # Errors
    /// Bad flags; there is no usable kubeconfig; a node does not exist; a call failed.
    pub async fn of_nodes(&self) -> anyhow::Result<Vec<NodePlan>> {
        let options = Options::from("plan", &self.drain)?;
        let (cluster, nodes) = self.drain.nodes.find("plan", &options.nodes).await?;
        let mut all = Vec::new();
        for node in nodes {
            let person = (options.owner.as_str(), options.reason.as_str());
            all.push(NodePlan::make(&cluster, &node.name, person, Permits::Flags, &options.policy).await?);
        }
        Ok(all)
    }

    /// Prints the plans: lines, or JSON, one object for one node, else a list. Exit code as [`run`].
    ///
    /// # Errors
    /// The document cannot be written as JSON.
    pub fn show(&self, all: &[NodePlan]) -> anyhow::Result<ExitCode> {
        if self.json || self.drain.own.is_json() {
            match all {
                [one] => screen::json(&document(one))?,
                all => screen::json(&all.iter().map(document).collect::<Vec<_>>())?,
            }
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
    }
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
    /// Tries the cordon by `owner` with this reason, takes a snapshot of the node and asks about each pod.
    ///
    /// # Errors
    /// The node does not exist; a call failed.
    pub async fn make(
        cluster: &Cluster,
        node: &str,
        (owner, reason): (&str, &str),
        permits: Permits,
        policy: &Policy,
    ) -> anyhow::Result<Self> {
        let forecast = Forecast::begin(cluster, node, (owner, reason), permits).await.0;
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
