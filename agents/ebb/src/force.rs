//! `ebb force`: an operator overrides the drain of this node.
//!
//! The verb writes the override file of the node, waits until zedkube has taken it, and prints the result. `complete`
//! lets the device go down WITHOUT a drain: if no zedkube works that could take the file, each request that stands
//! passes the gate of its agent.

mod delete_pods;
mod result;

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use pubsub::{AgentLock, Root};
use runtime::drain_order::{Detour, OverrideFile, Taken, let_none_pass, let_pass};
use runtime::peers;
use schemas::{Agent, DrainOrder, DrainOverride, DrainRequester, DrainStatus, agent};
use serde::Serialize;

use crate::operator::{OperatorFlags, journal, reason, zedkube_hangs};
use kubectl_ebb::screen;

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
    journal(root, &journal_text(order), &order.reason);
    if order.order() == Some(DrainOrder::Enable) && let_none_pass(root, &lock)? {
        screen::say("no request passes without zedkube any more");
    }
    if let Some(trouble) = absence(root) {
        return without_zedkube(root, order, &lock, &trouble);
    }
    peers::require(root, Agent::Zedkube)?;
    let mut file = OverrideFile::new(root)?;
    let before = peers::report(root);
    write(&mut file, order)?;
    drop(lock);
    let result =
        kubectl_ebb::in_runtime(async { Ok(result::wait(root, order, &file, before.as_ref()).await) })?;
    let trouble = || absence(root).or_else(|| zedkube_hangs(root));
    if result.taken == Taken::Not
        && let Some(trouble) = trouble()
    {
        file.withdraw().context("cannot remove the file of the override, which zedkube has not taken")?;
        return without_zedkube(root, order, &peers::speak_as(root, agent::EBB)?, &trouble);
    }
    Ok(result)
}

fn absence(root: &Root) -> Option<String> {
    (!peers::runs(root, Agent::Zedkube)).then(|| "zedkube does not run".to_owned())
}

fn write(file: &mut OverrideFile, order: &DrainOverride) -> anyhow::Result<()> {
    if let Some(Detour { broken, error, folder }) = file.write(order)? {
        let (broken, folder) = (broken.display(), folder.display());
        screen::say(&format!("{broken} cannot be written to ({error}): the order goes by way of {folder}"));
    }
    Ok(())
}

/// Applies an order that zedkube cannot take: `complete` lets the active requests pass the gates of the agents that ask.
///
/// # Errors
/// It is another order, or there is no request. A pass cannot be written.
fn without_zedkube(
    root: &Root,
    order: &DrainOverride,
    lock: &AgentLock,
    trouble: &str,
) -> anyhow::Result<OrderResult> {
    let Some(DrainOrder::Complete(_)) = order.order() else {
        bail!(
            "{trouble}, and only zedkube switches drains off and on: start it again (`ebb zedkube`), then give the order \
             again"
        );
    };
    let whose: Vec<&str> = let_pass(root, order, lock)?.into_iter().map(Agent::name).collect();
    if whose.is_empty() {
        bail!(
            "{trouble}, and there is no request that could pass without it: give the command (`ebb reboot`), then this \
             order again; or start zedkube again (`ebb zedkube`)"
        );
    }
    let line = format!(
        "{trouble}; {}'s request passes without it, this once: this node is NOT drained; which pods are left on it is not \
         known",
        whose.join("'s and ")
    );
    Ok(OrderResult { taken: Taken::Applied, line, hint: String::new(), is_undrained: true, left: Vec::new() })
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
