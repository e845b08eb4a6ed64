//! Giving a command: with a counter that this operator's commands have not used.

use std::time::Duration;

use anyhow::{Context, bail};
use device_op::facts::Kind;
use device_op::standing::{OperationFiles, OperationStatus};
use pubsub::Root;
use runtime::peers;
use schemas::{Agent, DeviceOpsCmd, Operation, Source};

use super::{OPERATOR, Words, publish};
use crate::waiting::{SOON, until};

/// How long device-op may take to record the first counter. It has to be awake and to sync two files.
const FIRST_COUNTER: Duration = Duration::from_secs(10);

/// A command that stands now.
#[derive(Debug)]
pub(super) struct ActiveCommand {
    pub(super) command: DeviceOpsCmd,
    /// device-op has it in its record.
    pub(super) is_accepted: bool,
    /// device-op took it for an old one.
    is_only_recorded: bool,
    /// Another operation that is served before it.
    pub(super) first: Option<(Operation, u32)>,
    /// Other sources that have commanded the same.
    pub(super) served_too: Vec<(Source, u32)>,
}

/// Gives the command.
///
/// # Errors
/// device-op does not run; somebody else writes as the operator just now; the same operation is pending; no counter is
/// left; a file cannot be read or written.
pub(super) async fn give(root: &Root, operation: Operation, words: Words) -> anyhow::Result<ActiveCommand> {
    peers::require(root, Agent::DeviceOp)?;
    let kind = (OPERATOR, operation);
    let standing = read(root, kind, words)?;
    // Of a command that is overwritten here nobody may ever have recorded the counter.
    let least = standing.next_counter(kind).with_context(|| no_counter_left(root, kind))?;
    if standing.recorded.is_none() && !words.without_record {
        let first = DeviceOpsCmd { counter: 0, ..DeviceOpsCmd::default() };
        publish(root, operation, |_| Ok(first))?;
        wait_for_first_counter(root, kind).await?;
    }
    let mut given = give_once(root, kind, words, least).await?;
    if given.is_only_recorded {
        // device-op has just begun to tell sources apart, and took it for one that stood before.
        given = give_once(root, kind, words, least).await?;
    }
    Ok(given)
}

/// With a counter of at least this.
async fn give_once(root: &Root, kind: Kind, words: Words, least: u32) -> anyhow::Result<ActiveCommand> {
    let command = publish(root, kind.1, |ops_time| {
        let standing = read(root, kind, words)?;
        let next = standing.next_counter(kind).with_context(|| no_counter_left(root, kind))?;
        let counter = next.max(least);
        let Words { now, without_record } = words;
        Ok(DeviceOpsCmd { counter, desired_state: true, ops_time, now, without_record })
    })?;
    let counter = command.counter;
    let is_answered =
        |seen: &OperationFiles| seen.has_accepted(kind, counter) || seen.has_only_recorded(kind, counter);
    let look = || OperationFiles::read(root, kind).ok().filter(is_answered);
    let seen = until(OperationFiles::folders(root, kind.0), SOON, look).await;
    let is = |answer: fn(&OperationFiles, Kind, u32) -> bool| {
        seen.as_ref().is_some_and(|seen| answer(seen, kind, counter))
    };
    Ok(ActiveCommand {
        command,
        is_accepted: is(OperationFiles::has_accepted),
        is_only_recorded: is(OperationFiles::has_only_recorded),
        first: seen.as_ref().and_then(|seen| seen.ahead_of(kind.1)),
        served_too: seen.as_ref().map_or_else(Vec::new, |seen| seen.served_too(kind)),
    })
}

/// What stands now, if a command may be given on top of it.
fn read(root: &Root, kind: Kind, words: Words) -> anyhow::Result<OperationFiles> {
    let standing = OperationFiles::read(root, kind).context("nobody knows what is commanded now")?;
    // On a disk that cannot be read that is what the operator's word is for.
    if let Some(refusal) = standing.refused.as_ref().filter(|_| !words.without_record) {
        bail!("nobody knows what is pending, device-op neither: {refusal}");
    }
    // With more words it is more than what is pending, and goes on with the same drain.
    if words == Words::default() {
        refuse_pending(&standing, kind)?;
    }
    Ok(standing)
}

/// A command on top of one that is pending would only begin its drain anew. After a failure it is a new try.
fn refuse_pending(standing: &OperationFiles, kind: Kind) -> anyhow::Result<()> {
    let (_, operation) = kind;
    let (counter, words) = match standing.of(kind) {
        OperationStatus::Nothing | OperationStatus::Failed(_) => return Ok(()),
        OperationStatus::Given(counter) => (counter, "device-op has not taken it yet".to_owned()),
        OperationStatus::Accepted(counter) => (counter, standing.words(operation)),
    };
    bail!(
        "{operation} {counter} is commanded already, and {words}; `ebb status` follows it, `ebb cancel {operation}` \
         takes it back"
    );
}

/// The first command that a device ever sees is only recorded: it may be an old one.
async fn wait_for_first_counter(root: &Root, kind: Kind) -> anyhow::Result<()> {
    let recorded = || OperationFiles::read(root, kind).ok()?.recorded;
    if until(OperationFiles::folders(root, kind.0), FIRST_COUNTER, recorded).await.is_none() {
        bail!(
            "no {} was commanded: device-op has not recorded the first counter within {} s; see its log and \
             `ebb status`, and try again",
            kind.1,
            FIRST_COUNTER.as_secs()
        );
    }
    Ok(())
}

fn no_counter_left(root: &Root, (source, operation): Kind) -> String {
    let counter_file = format!("{}/{}", source.counter_folder(), operation.counter_file());
    format!(
        "{operation} has used the last counter, {}; to begin at 1 again remove {} first, then {}",
        u32::MAX,
        root.join(format!("/run/{}/DeviceOpsCmd/{operation}.json", source.agent())).display(),
        root.join(counter_file).display()
    )
}
