//! `ebb force`: an operator overrides the drain of this node.
//!
//! The verb writes the override file of the node, waits until zedkube has taken it, and prints the result. `complete`
//! lets the device go down WITHOUT a drain.

mod delete_pods;
mod result;

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use pubsub::{LockError, Root};
use runtime::drain_order::{Detour, OverrideFile, Taken, let_pass};
use runtime::liveness::hung_for;
use runtime::zedbox::check_zedbox;
use runtime::{AgentFlags, StartError, peers};
use schemas::{Agent, DrainOrder, DrainOverride, DrainRequester, DrainStatus, age, agent};
use serde::Serialize;

use crate::operator::{OperatorFlags, journal, reason};
use crate::screen;

use delete_pods::DeletePodsArguments;
use result::OrderResult;

pub(crate) use result::{left_words, whose};

/// Arguments of `ebb force`.
#[derive(Args, Debug)]
pub(crate) struct ForceArguments {
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Let the device go down although the node is NOT drained: answer the active drain requests with COMPLETE
    Complete {
        /// Agent whose request is answered; default: all requests
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
    /// Delete the pods of this node at once with grace period 0: their containers may still run, and a volume may be
    /// used twice
    DeletePods(Box<DeletePodsArguments>),
}

#[derive(Args, Debug)]
struct Why {
    /// Reason, shown by `ebb status` and in the log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    place: OperatorFlags,
}

/// Agent whose request is meant.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Requester {
    /// The request for a reboot, shutdown or poweroff
    DeviceOp,
    /// The request for a new image
    Baseos,
}

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(rename = "Override")]
    order: &'a DrainOverride,
    #[serde(flatten)]
    result: &'a OrderResult,
}

/// Gives the order and prints the result. Exit code 1 if the order was refused or not taken.
pub(crate) fn run(arguments: &ForceArguments) -> anyhow::Result<ExitCode> {
    let (status, requested_by, why) = match &arguments.order {
        Order::Complete { requester, why } => (DrainStatus::Complete, requested_by(*requester), why),
        Order::Disable { why } => (DrainStatus::NotSupported, DrainRequester::None, why),
        Order::Enable { why } => (DrainStatus::NotRequested, DrainRequester::None, why),
        Order::DeletePods(arguments) => return delete_pods::run(arguments),
    };
    let order = DrainOverride { status, requested_by, reason: why.reason.clone(), by: peers::user() };
    let root = why.place.root()?;
    let result = apply(&root, &order)?;
    let document = Document { order: &order, result: &result };
    why.place.answer(&result.line, &document)?;
    if result.is_undrained {
        screen::say("WARNING: the device may go down now although this node is NOT drained");
    }
    match result.taken {
        Taken::Applied => Ok(ExitCode::SUCCESS),
        Taken::Refused | Taken::Not => bail!("{}", result.hint),
    }
}

fn requested_by(requester: Option<Requester>) -> DrainRequester {
    match requester {
        None => DrainRequester::None,
        Some(Requester::DeviceOp) => DrainRequester::DeviceOp,
        Some(Requester::Baseos) => DrainRequester::Update,
    }
}

fn apply(root: &Root, order: &DrainOverride) -> anyhow::Result<OrderResult> {
    // Another `ebb force` must not write between our check of the folder and our file.
    let lock = peers::speak_as(root, agent::EBB)?;
    journal(root, &journal_text(order));
    if !peers::runs(root, Agent::Zedkube)
        && let Some(result) = crate::in_runtime(apply_without_zedkube(root, order))?
    {
        return Ok(result);
    }
    peers::require(root, Agent::Zedkube)?;
    let mut file = OverrideFile::new(root)?;
    let before = peers::report(root);
    write(&mut file, order)?;
    drop(lock);
    let result = crate::in_runtime(async { Ok(result::wait(root, order, &file, before.as_ref()).await) })?;
    if result.taken == Taken::Not
        && let Some(passed) = beside_hung(root, order, &file)?
    {
        return Ok(passed);
    }
    Ok(result)
}

fn write(file: &mut OverrideFile, order: &DrainOverride) -> anyhow::Result<()> {
    if let Some(Detour { broken, error, folder }) = file.write(order)? {
        let (broken, folder) = (broken.display(), folder.display());
        screen::say(&format!("{broken} cannot be written to ({error}): the order goes by way of {folder}"));
    }
    Ok(())
}

/// Writes the override file and applies it as zedkube would: this process holds zedkube's lock for one step. `None` if
/// zedkube has just started and holds its lock: then zedkube takes the order.
///
/// # Errors
/// No zedkube of ours has run in this boot, so no agent would read the answer; or the file cannot be written.
async fn apply_without_zedkube(root: &Root, order: &DrainOverride) -> anyhow::Result<Option<OrderResult>> {
    if peers::report(root).is_none() {
        bail!(
            "nothing would happen: zedkube does not run here and has not run in this boot; start it with \
             `ebb zedkube`, then give the order again"
        );
    }
    let flags = AgentFlags {
        root: root.path().to_owned(),
        beside_zedbox: check_zedbox(root).is_err(),
        ..AgentFlags::default()
    };
    let zedkube = match runtime::Agent::start(agent::ZEDKUBE, &flags).await {
        Ok(zedkube) => zedkube,
        Err(StartError::Lock { source: LockError::Held { .. }, .. }) => return Ok(None),
        Err(error) => return Err(error).context("cannot apply the order without zedkube"),
    };
    let mut file = OverrideFile::new(root)?;
    write(&mut file, order)?;
    if let Err(error) = zedkube::take_override(zedkube.context()).await {
        let fate =
            if file.take_back() { "the order is taken back" } else { "zedkube may still apply the order" };
        return Err(error).context(fate);
    }
    Ok(Some(result::now(root, order, &file)))
}

/// Applies an order to complete while zedkube hangs and takes no override: lets the active requests pass the gate of
/// each agent that asks, without zedkube. `None` if it is another order, or if zedkube does not hang.
///
/// # Errors
/// The order cannot be taken back, or the gate files cannot be written: then the override file stays, and zedkube
/// applies it when it runs again.
fn beside_hung(
    root: &Root,
    order: &DrainOverride,
    file: &OverrideFile,
) -> anyhow::Result<Option<OrderResult>> {
    let (Some(DrainOrder::Complete(_)), Some(silent)) = (order.order(), hung_for(root, agent::ZEDKUBE))
    else {
        return Ok(None);
    };
    let whose = let_pass(root, order, file)?;
    let age = age(u64::try_from(silent.as_millis()).unwrap_or(u64::MAX));
    let hangs = format!("zedkube hangs: its touch file is {age} old");
    if whose.is_empty() {
        return Ok(Some(OrderResult {
            taken: Taken::Not,
            line: format!("{hangs}; there is no request that could pass without it"),
            hint: "give the command (`ebb reboot`), then this order again; or restart zedkube, then give it again".to_owned(),
            is_undrained: false,
            left: Vec::new(),
        }));
    }
    let whose: Vec<&str> = whose.into_iter().map(Agent::name).collect();
    let line = format!(
        "{hangs}; {}'s request passes without it, this once: this node is NOT drained; which pods are left on it is not \
         known",
        whose.join("'s and ")
    );
    Ok(Some(OrderResult {
        taken: Taken::Applied,
        line,
        hint: String::new(),
        is_undrained: true,
        left: Vec::new(),
    }))
}

fn journal_text(order: &DrainOverride) -> String {
    format!(
        "kube override: Status {} RequestedBy {} by {}: {}",
        order.status.code(),
        order.requested_by.code(),
        order.by,
        order.reason
    )
}
