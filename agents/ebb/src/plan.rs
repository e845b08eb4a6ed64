//! `ebb plan [NODE]`: what a drain of this node would do now, and what would block it, by the agents' settings.
//!
//! Nothing is changed: the server is asked about each pod in a dry run.

mod document;
mod telling;

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use cluster::full_look;
use drain::volumes::Shelves;
use drain::{Picture, Policy, plan};
use runtime::AgentFlags;

use crate::device::Device;
use crate::kubectl::nodes::node_name;
use crate::screen;
use crate::trial::{Trial, trial};

/// What `ebb plan` takes.
#[derive(Args, Debug)]
#[command(mut_arg("log_format", |flag| flag.hide(true)), mut_arg("beside_zedbox", |flag| flag.hide(true)))]
pub(crate) struct PlanArguments {
    /// The Node; without it setting node.name, else the Node that is this machine
    #[arg(value_name = "NODE")]
    name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: AgentFlags,
}

/// What would happen to the node.
#[derive(Clone, Debug)]
pub(crate) struct Foreseen {
    pub(crate) picture: Picture,
    pub(crate) trial: Trial,
    /// For each pod of the picture, its order and the volumes that would have to be detached.
    pub(crate) extras: Vec<Extra>,
}

/// What a line of the engine does not tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// Pods of a higher order leave later.
    pub(crate) order: i32,
    /// PersistentVolumes.
    pub(crate) volumes: Vec<String>,
}

/// Prints the plan. Exit code 0 when all pods would go, 1 when something forbids or blocks it.
pub(crate) fn run(arguments: &PlanArguments) -> anyhow::Result<ExitCode> {
    crate::in_runtime(async {
        let device = Device::read(&arguments.flags)?;
        let cluster = device.reach("plan").await?;
        let name = match &arguments.name {
            Some(name) => node_name(name)?,
            None => device.own_node(&cluster).await?.name,
        };
        let picture = full_look(&cluster, &name).await?;
        if picture.node.is_none() {
            bail!("Error from server (NotFound): nodes {name:?} not found");
        }
        let trial = trial(&cluster, picture.clone(), &device.policy).await;
        let foreseen = Foreseen::new(picture, trial, &device.policy);
        let goes = foreseen.obstacles().is_empty();
        if arguments.json {
            let document = document::of(&foreseen);
            screen::line(&serde_json::to_string_pretty(&document).context("cannot write JSON")?);
        } else {
            screen::line(telling::tell(&foreseen).trim_end());
        }
        Ok(if goes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

impl Foreseen {
    fn new(picture: Picture, trial: Trial, policy: &Policy) -> Self {
        let shelves = Shelves::of(&picture);
        let extras = picture.pods.iter().zip(plan(&picture, policy)).map(|(pod, planned)| Extra {
            order: planned.order,
            volumes: shelves.of_pod(pod).into_iter().map(|volume| volume.volume).collect(),
        });
        let extras = extras.collect();
        Self { picture, trial, extras }
    }
}
