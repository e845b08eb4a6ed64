//! `ebb freeze`, `ebb unfreeze`: hold back the commands of all sources.
//!
//! The verbs write topic CommandFreeze of agent `ebb`, on `/persist`; device-op and baseos obey it. An operation that
//! is being carried out goes on, and `--now` lets one command pass.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use pubsub::{Persistence, Publisher, Root, TopicKey, read_item};
use runtime::clock;
use runtime::peers;
use schemas::{CommandFreeze, GoTime, SCHEMA_VERSION, agent};

use crate::operator::{OperatorFlags, journal, reason};

/// Arguments of `ebb freeze`.
#[derive(Args, Debug)]
pub(crate) struct FreezeArguments {
    /// Time at which the freeze ends, such as 2026-11-30T06:00:00Z; default: it lasts until `ebb unfreeze`
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    /// Reason, shown for each command that the freeze holds back
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    place: OperatorFlags,
}

/// Arguments of `ebb unfreeze`.
#[derive(Args, Debug)]
pub(crate) struct UnfreezeArguments {
    #[command(flatten)]
    place: OperatorFlags,
}

/// Begins a freeze, or changes its end and reason.
pub(crate) fn freeze(arguments: &FreezeArguments) -> anyhow::Result<ExitCode> {
    let root = arguments.place.root()?;
    let wall = clock::wall();
    if let Some(until) = arguments.until.filter(|until| *until <= wall) {
        bail!("{until} has passed: it is {wall} by this device's clock; give a later time");
    }
    let freeze = CommandFreeze {
        schema_version: SCHEMA_VERSION,
        since: GoTime::from(wall),
        until: arguments.until.map_or(GoTime::ZERO, GoTime::from),
        by: peers::user(),
        reason: arguments.reason.clone(),
    };
    let lock = peers::speak_as(&root, agent::EBB)?;
    Publisher::open(&root, agent::EBB, Persistence::Persistent, &lock)?
        .publish(&TopicKey::global(), &freeze)
        .context("commands are NOT frozen")?;
    journal(&root, &format!("CommandFreeze: commands are frozen {}", summary(&freeze)), &freeze.reason);
    let line = format!(
        "commands are frozen {}: no command of any source begins; an operation that is being carried out goes on; \
         `ebb unfreeze` ends the freeze, `--now` lets one command pass",
        summary(&freeze)
    );
    arguments.place.answer(&line, &freeze)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn unfreeze(arguments: &UnfreezeArguments) -> anyhow::Result<ExitCode> {
    let root = arguments.place.root()?;
    let freeze = read(&root);
    if matches!(freeze, Ok(None)) {
        bail!("commands are not frozen");
    }
    let lock = peers::speak_as(&root, agent::EBB)?;
    Publisher::<CommandFreeze>::open(&root, agent::EBB, Persistence::Persistent, &lock)?
        .unpublish(&TopicKey::global())
        .context("commands are still frozen")?;
    // An unreadable freeze is deleted as well.
    let freeze = freeze.ok().flatten().unwrap_or_default();
    journal(&root, &format!("CommandFreeze: taken off by {}", peers::user()), "");
    let line = "commands are not frozen any more: the held ones begin, `ebb commands` lists them";
    arguments.place.answer(line, &freeze)?;
    Ok(ExitCode::SUCCESS)
}

/// The freeze, if it is active at this time. An unreadable one is ignored here: device-op reports it in its status.
pub(crate) fn in_effect(root: &Root, wall: Timestamp) -> Option<CommandFreeze> {
    let freeze = read(root).ok().flatten();
    freeze.filter(|freeze| freeze.stands(GoTime::from(wall)))
}

/// End, author and reason of a freeze: `until 2026-11-30T06:00:00Z (by alice: stocktaking)`.
pub(crate) fn summary(freeze: &CommandFreeze) -> String {
    let CommandFreeze { until, by, reason, .. } = freeze;
    let until = until.set().map_or_else(
        || "until `ebb unfreeze`".to_owned(),
        |until| until.strftime("until %FT%TZ").to_string(),
    );
    format!("{until} (by {by}: {reason})")
}

fn read(root: &Root) -> Result<Option<CommandFreeze>, pubsub::Refusal> {
    read_item(root, agent::EBB, Persistence::Persistent, &TopicKey::global())
}

fn until(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "accepted: a time with its zone, such as 2026-11-30T06:00:00Z".to_owned())
}
