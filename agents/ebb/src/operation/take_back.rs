//! Taking a command back: the same counter, no longer wanted.

use anyhow::{Context, bail};
use pubsub::Root;
use schemas::{DeviceActionState, DeviceOpsCmd, Operation, agent};
use serde::Serialize;

use super::Commands;
use super::standing::{Stand, Standing};
use crate::peers;
use crate::waiting::{SOON, until};

/// A take-back that was given.
#[derive(Debug)]
pub(super) struct TakenBack {
    pub(super) command: DeviceOpsCmd,
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
/// No such command stands; somebody else is the controller; a file cannot be read or written.
pub(super) async fn take_back(root: &Root, operation: Operation) -> anyhow::Result<TakenBack> {
    let standing = Standing::read(root, operation)
        .context("nobody knows what to take back; remove that file: without it nothing is commanded")?;
    let counter = counter_to_take_back(&standing, operation)?;
    let is_running = peers::runs(root, agent::ZEDAGENT);
    if is_running {
        peers::require(root, agent::ZEDAGENT)?;
    }
    let mut commands = Commands::open(root, operation)?;
    let command = commands.publish(counter, false)?;
    drop(commands);
    if !is_running {
        return Ok(TakenBack { command, became: Became::Unread });
    }
    let look = || Standing::read(root, operation).ok().and_then(|seen| became(&seen, operation, counter));
    let became = until(Standing::folders(root), SOON, look).await.unwrap_or(Became::Pending);
    Ok(TakenBack { command, became })
}

/// The counter of the command that stands. A command that is carried out and whose device still runs (a shutdown, a
/// dry run) stands, too: its drain request goes with it.
fn counter_to_take_back(standing: &Standing, operation: Operation) -> anyhow::Result<u32> {
    let published = standing.published.as_ref();
    let accepted = standing.record.latest(operation).map(|accepted| accepted.counter);
    match (standing.of(operation), published, accepted) {
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
        (_, _, None) => bail!("there is no {operation} to take back: none is pending (`ebb status`)"),
    }
}

fn became(seen: &Standing, operation: Operation, counter: u32) -> Option<Became> {
    match seen.record.latest(operation) {
        None if seen.recorded == Some(counter) => Some(Became::TakenBack),
        None => None,
        Some(accepted) => {
            let is_acting = seen.is(DeviceActionState::Acting, operation, accepted.counter);
            is_acting.then_some(Became::TooLate)
        }
    }
}

#[cfg(test)]
#[path = "take_back_tests.rs"]
mod tests;
