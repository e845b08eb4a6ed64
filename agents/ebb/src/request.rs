//! `ebb request`: a person asks that this node be drained and held drained, for work on the machine.
//!
//! It writes topic NodeDrainRequest of agent `ebb`; zedkube answers. `ebb cancel` withdraws it.

mod following;
mod withdraw;

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use pubsub::{Persistence, Publisher, Root, TopicKey, read_item};
use runtime::clock;
use schemas::{DrainRequester, DrainStatus, GoTime, Member, NodeDrainReport, NodeDrainRequest, agent};
use serde::Serialize;

use crate::place::{Place, reason};
use crate::{journal, peers};

pub(crate) use withdraw::withdraw;

/// What `ebb request` takes.
#[derive(Args, Debug)]
pub(crate) struct RequestArguments {
    /// Why: shown by `ebb status`
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Wait for the answer; exit code 1 if the drain fails
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    place: Place,
}

/// The answer as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(flatten)]
    request: &'a NodeDrainRequest,
    by: String,
}

/// Asks, and with `--wait` waits for the answer.
pub(crate) fn run(arguments: &RequestArguments) -> anyhow::Result<ExitCode> {
    let root = arguments.place.root()?;
    let context = arguments.reason.clone().unwrap_or_else(|| format!("ebb:{}", peers::user()));
    let request = ask(&root, context)?;
    journal::record(
        &root,
        &format!(
            "NodeDrainRequest published: {} for {}, {}",
            request.context,
            peers::user(),
            request.requested_at
        ),
    );
    if arguments.wait {
        return crate::in_runtime(following::follow(&root, &request, &arguments.place));
    }
    let line = format!(
        "drain requested ({}): zedkube drains this node and holds it drained until `ebb cancel` or the next boot, which \
         give the node back; `ebb status` follows it",
        request.context
    );
    arguments.place.answer(&line, &Document { request: &request, by: peers::user() })?;
    Ok(ExitCode::SUCCESS)
}

/// Publishes the request.
///
/// # Errors
/// zedkube does not run, or would not drain; a request stands; it cannot be written.
fn ask(root: &Root, context: String) -> anyhow::Result<NodeDrainRequest> {
    peers::require(root, agent::ZEDKUBE)?;
    // A report that cannot be read is zedkube's to mend, and it can be asked all the same.
    let report: Result<Option<NodeDrainReport>, _> =
        read_item(root, agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global());
    let report = report.ok().flatten();
    if let Some(report) = &report {
        refuse_what_would_not_drain(report)?;
    }
    let lock = peers::speak_as(root, agent::EBB)?;
    let standing = standing(root)?;
    if let Some(standing) = &standing {
        refuse_standing(standing, report.as_ref())?;
    }
    let request = NodeDrainRequest {
        requested_at: new_name(clock::wall(), standing.as_ref()),
        requested_by: DrainRequester::None,
        context,
    };
    let mut requests = Publisher::open(root, agent::EBB, Persistence::Volatile, &lock)?;
    requests.publish(&TopicKey::global(), &request)?;
    Ok(request)
}

/// Our request as it stands, if any.
///
/// # Errors
/// The file cannot be read.
fn standing(root: &Root) -> anyhow::Result<Option<NodeDrainRequest>> {
    read_item(root, agent::EBB, Persistence::Volatile, &TopicKey::global())
        .context("nobody knows what is asked for now; remove that file: without it nothing is")
}

fn refuse_what_would_not_drain(report: &NodeDrainReport) -> anyhow::Result<()> {
    if let Some(disabled) = &report.disabled {
        bail!("drains are switched off ({}); `ebb force enable` switches them on", disabled.by);
    }
    if report.member == Member::No {
        bail!(
            "this device is in no cluster, so there is nothing to drain; setting `cluster.mode` says otherwise"
        );
    }
    Ok(())
}

/// A request that failed may be made anew: its new time makes it another one.
fn refuse_standing(standing: &NodeDrainRequest, report: Option<&NodeDrainReport>) -> anyhow::Result<()> {
    let NodeDrainRequest { requested_at, requested_by, context } = standing;
    if *requested_by != DrainRequester::None {
        bail!(
            "a file that is no request of a person stands in our folder (RequestedBy {}); remove it first",
            requested_by.code()
        );
    }
    let line = report.and_then(|report| report.line_of(agent::EBB, *requested_at));
    let answer = line.map(|line| line.answer).unwrap_or_default();
    if answer.is_failed() {
        return Ok(());
    }
    let answered = if answer == DrainStatus::Unknown { "not answered yet" } else { "answered COMPLETE" };
    bail!(
        "a drain is requested already ({context}, {requested_at}), {answered}; `ebb status` follows it, `ebb cancel` \
         withdraws it"
    );
}

/// The time is the request's name: a wall clock that stands still or jumped back must not give the same one again.
fn new_name(wall: Timestamp, standing: Option<&NodeDrainRequest>) -> GoTime {
    let now = GoTime::from(wall);
    if standing.is_some_and(|standing| standing.requested_at == now) {
        return wall.saturating_add(jiff::SignedDuration::from_nanos(1)).map_or(now, GoTime::from);
    }
    now
}
