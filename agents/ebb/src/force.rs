//! `ebb force`: an operator's word that overrides a drain.
//!
//! It writes the override file of the node; zedkube takes it, and this says what became of it. `complete` lets the
//! device go down WITHOUT a drain.

mod beside_hung;
mod delete_pods;
mod fates;
mod left;
mod override_file;
mod result;
mod without_zedkube;

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use pubsub::Root;
use schemas::{DrainOverride, DrainRequester, DrainStatus, agent};
use serde::Serialize;

use crate::place::{Place, reason};
use crate::{journal, peers, screen};

use delete_pods::DeletePodsArguments;
use override_file::{OverrideFile, Taken};
use result::Became;
use without_zedkube::apply_without_zedkube;

/// What `ebb force` takes.
#[derive(Args, Debug)]
pub(crate) struct ForceArguments {
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Let the device go down although the node is NOT drained: the standing requests are answered COMPLETE
    Complete {
        /// Whose request is answered; without it everybody's
        #[arg(long = "for", value_name = "AGENT")]
        requester: Option<Requester>,
        #[command(flatten)]
        why: Why,
    },
    /// Switch drains off until the next boot: operations go on WITHOUT a drain
    Disable {
        #[command(flatten)]
        why: Why,
    },
    /// Switch drains on again
    Enable {
        #[command(flatten)]
        why: Why,
    },
    /// Delete the pods of this node at once with grace 0: their containers may still run, and a volume be used twice
    DeletePods(Box<DeletePodsArguments>),
}

#[derive(Args, Debug)]
struct Why {
    /// Why: shown by `ebb status` and in the log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    place: Place,
}

/// Whose request.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Requester {
    /// A reboot, shutdown or poweroff
    DeviceOp,
    /// An image
    Baseos,
}

/// The answer as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(rename = "Override")]
    order: &'a DrainOverride,
    #[serde(flatten)]
    became: &'a Became,
}

/// Gives the order and says what became of it. Exit code 1 if it was refused or not taken.
pub(crate) fn run(arguments: &ForceArguments) -> anyhow::Result<ExitCode> {
    let (status, requested_by, why) = match &arguments.order {
        Order::Complete { requester, why } => (DrainStatus::Complete, requested_by(*requester), why),
        Order::Disable { why } => (DrainStatus::NotSupported, DrainRequester::None, why),
        Order::Enable { why } => (DrainStatus::NotRequested, DrainRequester::None, why),
        Order::DeletePods(arguments) => return delete_pods::run(arguments),
    };
    let order = DrainOverride { status, requested_by, reason: why.reason.clone(), by: peers::user() };
    let root = why.place.root()?;
    let became = apply(&root, &order)?;
    let document = Document { order: &order, became: &became };
    why.place.answer(&became.line, &document)?;
    if became.is_undrained {
        screen::say("WARNING: the device may go down now although this node is NOT drained");
    }
    match became.taken {
        Taken::Applied => Ok(ExitCode::SUCCESS),
        Taken::Refused | Taken::Not => bail!("{}", became.hint),
    }
}

fn requested_by(requester: Option<Requester>) -> DrainRequester {
    match requester {
        None => DrainRequester::None,
        Some(Requester::DeviceOp) => DrainRequester::DeviceOp,
        Some(Requester::Baseos) => DrainRequester::Update,
    }
}

fn apply(root: &Root, order: &DrainOverride) -> anyhow::Result<Became> {
    // Another `ebb force` must not write between our look at the folder and our file.
    let lock = peers::speak_as(root, agent::EBB)?;
    journal::record(root, &told(order));
    if !peers::runs(root, agent::ZEDKUBE)
        && let Some(became) = crate::in_runtime(apply_without_zedkube(root, order))?
    {
        return Ok(became);
    }
    peers::require(root, agent::ZEDKUBE)?;
    let mut file = OverrideFile::new(root)?;
    let before = result::report(root);
    file.write(order)?;
    drop(lock);
    let became = crate::in_runtime(async { Ok(result::wait(root, order, &file, before.as_ref()).await) })?;
    if became.taken == Taken::Not
        && let Some(passed) = beside_hung::let_pass(root, order, &file)?
    {
        return Ok(passed);
    }
    Ok(became)
}

fn told(order: &DrainOverride) -> String {
    format!(
        "kube override: Status {} RequestedBy {} by {}: {}",
        order.status.code(),
        order.requested_by.code(),
        order.by,
        order.reason
    )
}
