//! Taking a command back. The operator's own is published as no longer wanted; another source's is named to device-op,
//! for which its counter then counts as done.

use anyhow::{Context, bail};
use device_op::facts::Kind;
use pubsub::{Persistence, Publisher, Root, TopicKey};
use schemas::{CancelCommand, CommandState, DeviceActionState, DeviceOpsCmd, Operation, Source, agent};
use serde::Serialize;

use super::standing::{Stand, Standing};
use super::{OPERATOR, publish};
use crate::peers;
use crate::waiting::{SOON, until};

/// A take-back that was given.
#[derive(Debug)]
pub(super) struct TakenBack {
    pub(super) counter: u32,
    /// When it was given.
    pub(super) ops_time: String,
    pub(super) became: Became,
}

/// What became of a take-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Became {
    /// Nothing of the command is left.
    TakenBack,
    /// nodeagent has passed the point of no return.
    TooLate,
    /// Not known yet: nodeagent has to let go of the command first.
    Pending,
    /// device-op does not run.
    Unread,
}

/// Takes the command back, whether device-op runs or not: it has to be possible whenever a command stands.
///
/// # Errors
/// No such command stands, or only another source's; somebody else writes as the operator just now; a file cannot be
/// read or written.
pub(super) async fn take_back(root: &Root, kind: Kind, why: &str) -> anyhow::Result<TakenBack> {
    let standing = Standing::read(root, kind)
        .context("nobody knows what to take back; remove that file: without it nothing is commanded")?;
    let counter = counter_to_take_back(&standing, kind).or_else(|error| {
        let others = if kind.0 == OPERATOR { others(root, kind.1) } else { Vec::new() };
        if others.is_empty() { Err(error) } else { bail!("{}", not_ours(kind.1, &others)) }
    })?;
    let is_running = peers::runs(root, agent::ZEDAGENT);
    if is_running {
        peers::require(root, agent::ZEDAGENT)?;
    }
    let ops_time = if kind.0 == OPERATOR {
        publish(root, kind.1, |ops_time| Ok(DeviceOpsCmd { counter, ops_time, ..DeviceOpsCmd::default() }))?
            .ops_time
    } else {
        cancel(root, kind, counter, why)?;
        super::now()
    };
    if !is_running {
        return Ok(TakenBack { counter, ops_time, became: Became::Unread });
    }
    let look = || Standing::read(root, kind).ok().and_then(|seen| became(&seen, kind, counter));
    let became = until(Standing::folders(root, kind.0), SOON, look).await.unwrap_or(Became::Pending);
    Ok(TakenBack { counter, ops_time, became })
}

fn cancel(root: &Root, (source, operation): Kind, counter: u32, why: &str) -> anyhow::Result<()> {
    let lock = peers::speak_as(root, agent::EBB)?;
    let mut cancelled = Publisher::open(root, agent::EBB, Persistence::Volatile, &lock)?;
    let command = CancelCommand { counter, by: peers::user(), reason: why.to_owned() };
    cancelled.publish(&TopicKey::parse(&CancelCommand::key(source, operation))?, &command)?;
    Ok(())
}

/// The commands of other sources that stand.
fn others(root: &Root, operation: Operation) -> Vec<(Source, u32)> {
    let stands = |source| {
        let kind = (source, operation);
        let standing = Standing::read(root, kind).ok()?;
        match standing.of(kind) {
            Stand::Given(counter) | Stand::Accepted(counter) | Stand::Failed(counter) => {
                Some((source, counter))
            }
            Stand::Nothing => None,
        }
    };
    Source::ALL.into_iter().filter(|source| *source != OPERATOR).filter_map(stands).collect()
}

fn not_ours(operation: Operation, others: &[(Source, u32)]) -> String {
    let (source, counter) = others.first().copied().unwrap_or_default();
    let there = match source {
        Source::Person => "where it was given",
        Source::Controller => "at the controller",
        Source::Cluster => "at the Node: remove its annotation",
        Source::Host => "at the host: remove what asks for it",
    };
    format!(
        "no operator has commanded a {operation}; {operation} {counter} is one of source {source}: take it back {there}, \
         or here with `ebb cancel {operation} --source {source}` (`ebb commands` lists all)"
    )
}

/// The counter of the command that stands. A command that is carried out and whose device still runs (a shutdown, a
/// dry run) stands, too: its drain request goes with it.
fn counter_to_take_back(standing: &Standing, kind: Kind) -> anyhow::Result<u32> {
    let (_, operation) = kind;
    let published = standing.published.as_ref();
    let accepted = standing.record.latest(kind).map(|accepted| accepted.counter);
    let failed = standing.record.ended(kind).filter(|line| line.state == CommandState::Failed);
    match (standing.of(kind), published, accepted) {
        (Stand::Given(counter), _, _) => Ok(counter),
        (_, Some(published), None) if published.desired_state && standing.refused.is_some() => {
            Ok(published.counter)
        }
        (_, Some(published), Some(_)) if published.desired_state => Ok(published.counter),
        (_, None, Some(accepted)) => Ok(accepted),
        (_, Some(published), Some(_)) => bail!(
            "{operation} {} is taken back already; `ebb status` says how far that is",
            published.counter
        ),
        (_, _, None) => failed
            .map(|line| line.counter)
            .with_context(|| format!("there is no {operation} to take back: none is pending (`ebb status`)")),
    }
}

fn became(seen: &Standing, kind: Kind, counter: u32) -> Option<Became> {
    let is_failed = seen.record.ended(kind).is_some_and(|line| line.state == CommandState::Failed);
    match seen.record.latest(kind) {
        None if seen.recorded == Some(counter) && !is_failed => Some(Became::TakenBack),
        None => None,
        Some(accepted) => {
            let is_acting = seen.is(DeviceActionState::Acting, kind, accepted.counter);
            is_acting.then_some(Became::TooLate)
        }
    }
}

#[cfg(test)]
#[path = "take_back_tests.rs"]
mod tests;
