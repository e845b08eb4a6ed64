//! Giving a command: with a counter that nobody has used.

use std::time::Duration;

use anyhow::{Context, bail};
use pubsub::Root;
use schemas::{DeviceOpsCmd, Operation, agent};

use super::Commands;
use super::standing::{Stand, Standing};
use crate::peers;
use crate::waiting::{SOON, until};

/// How long device-op may take to record the first counter. It has to be awake and to sync two files.
const FIRST_COUNTER: Duration = Duration::from_secs(10);

/// A command that stands now.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) command: DeviceOpsCmd,
    /// device-op has it in its record.
    pub(super) is_accepted: bool,
    /// Another operation that is served before it.
    pub(super) first: Option<(Operation, u32)>,
}

/// Gives the command.
///
/// # Errors
/// device-op does not run; somebody else is the controller; the same operation is pending; no counter is left; a file
/// cannot be read or written.
pub(super) async fn give(root: &Root, operation: Operation) -> anyhow::Result<Given> {
    peers::require(root, agent::ZEDAGENT)?;
    let mut commands = Commands::open(root, operation)?;
    let standing = Standing::read(root, operation).context("nobody knows what is commanded now")?;
    if let Some(refusal) = &standing.refused {
        bail!("nobody knows what is pending, zedagent neither: {refusal}");
    }
    refuse_pending(&standing, operation)?;
    let counter = next_counter(&standing).with_context(|| no_counter_left(root, operation))?;
    if standing.recorded.is_none() {
        commands.publish(0, false)?;
        wait_for_first_counter(root, operation).await?;
    }
    let command = commands.publish(counter, true)?;
    drop(commands);
    let taken = || Standing::read(root, operation).ok().filter(|seen| seen.has_accepted(operation, counter));
    let seen = until(Standing::folders(root), SOON, taken).await;
    Ok(Given { command, is_accepted: seen.is_some(), first: seen.and_then(|seen| seen.ahead_of(operation)) })
}

/// One more than any that was used; nothing if there is no greater number.
fn next_counter(standing: &Standing) -> Option<u32> {
    let published = standing.published.as_ref().map_or(0, |command| command.counter);
    published.max(standing.recorded.unwrap_or(0)).checked_add(1)
}

/// A command on top of one that is pending would only begin its drain anew. After a failure it is a new try.
fn refuse_pending(standing: &Standing, operation: Operation) -> anyhow::Result<()> {
    let (counter, words) = match standing.of(operation) {
        Stand::Nothing | Stand::Failed(_) => return Ok(()),
        Stand::Given(counter) => (counter, "zedagent has not taken it yet".to_owned()),
        Stand::Accepted(counter) => (counter, standing.words(operation)),
    };
    bail!(
        "{operation} {counter} is commanded already, and {words}; `ebb status` follows it, `ebb cancel {operation}` \
         takes it back"
    );
}

/// The first command that a device ever sees is only recorded: it may be an old one.
async fn wait_for_first_counter(root: &Root, operation: Operation) -> anyhow::Result<()> {
    let recorded = || Standing::read(root, operation).ok()?.recorded;
    if until(Standing::folders(root), FIRST_COUNTER, recorded).await.is_none() {
        bail!(
            "no {operation} was commanded: zedagent has not recorded the first counter within {} s; see its log and \
             `ebb status`, and try again",
            FIRST_COUNTER.as_secs()
        );
    }
    Ok(())
}

fn no_counter_left(root: &Root, operation: Operation) -> String {
    format!(
        "{operation} has used the last counter, {}; to begin at 1 again remove {} first, then {}",
        u32::MAX,
        root.join(format!("/run/controller/DeviceOpsCmd/{operation}.json")).display(),
        root.join(format!("/persist/status/{}", operation.counter_file())).display()
    )
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
