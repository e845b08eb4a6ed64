//! Gives a command, with a counter that no earlier command of a person has used.

use std::time::Duration;

use anyhow::{Context, bail};
use device_op::facts::Kind;
use device_op::operation_files::{OperationFiles, OperationStatus};
use pubsub::Root;
use runtime::peers;
use schemas::{Agent, DeviceOpsCmd, Operation, Source};

use super::{CommandOptions, OPERATOR, publish};
use crate::waiting::{SOON, until};

/// Limit for device-op to record the first counter: it must wake up and sync two files.
const FIRST_COUNTER: Duration = Duration::from_secs(10);

/// Limit for the acceptance of a command that needs no record: device-op tries its broken disk first, which takes long.
const WITHOUT_RECORD: Duration = Duration::from_secs(15);

/// A command that is active now.
#[derive(Debug)]
pub(super) struct ActiveCommand {
    pub(super) command: DeviceOpsCmd,
    /// True if device-op has taken it: it is in device-op's record.
    pub(super) is_accepted: bool,
    /// True if device-op took it for an old command, recorded the counter, and will not carry it out.
    is_only_recorded: bool,
    /// Another operation that device-op serves before it.
    pub(super) first: Option<(Operation, u32)>,
    /// Other sources that want the same operation.
    pub(super) served_too: Vec<(Source, u32)>,
}

/// Gives the command.
///
/// # Errors
/// device-op does not run; another process is writing as `ebb`; the same operation is pending; no counter is left; a
/// file cannot be read or written.
pub(super) async fn give(
    root: &Root,
    operation: Operation,
    options: CommandOptions,
    why: &str,
) -> anyhow::Result<ActiveCommand> {
    peers::require(root, Agent::DeviceOp)?;
    let kind = (OPERATOR, operation);
    let files = read(root, kind, options)?;
    // The counter of a command that is overwritten here may never have been recorded, so read it before.
    let least = files.next_counter(kind).with_context(|| no_counter_left(root, kind))?;
    if files.recorded.is_none() && !options.without_record {
        let first = DeviceOpsCmd { counter: 0, ..DeviceOpsCmd::default() };
        publish(root, operation, |_| Ok(first))?;
        wait_for_first_counter(root, kind).await?;
    }
    let mut given = give_once(root, kind, options, why, least).await?;
    if given.is_only_recorded {
        // device-op has just begun to keep counters by source, and took the command for an old one: give it again.
        given = give_once(root, kind, options, why, least).await?;
    }
    Ok(given)
}

/// Gives the command once, with a counter of at least `least`.
async fn give_once(
    root: &Root,
    kind: Kind,
    options: CommandOptions,
    why: &str,
    least: u32,
) -> anyhow::Result<ActiveCommand> {
    let command = publish(root, kind.1, |ops_time| {
        let files = read(root, kind, options)?;
        let next = files.next_counter(kind).with_context(|| no_counter_left(root, kind))?;
        let counter = next.max(least);
        let CommandOptions { now, without_record, not_before } = options;
        let (by, reason) = (peers::user(), why.to_owned());
        Ok(DeviceOpsCmd {
            counter,
            desired_state: true,
            ops_time,
            now,
            without_record,
            not_before,
            by,
            reason,
        })
    })?;
    let counter = command.counter;
    let is_answered =
        |seen: &OperationFiles| seen.has_accepted(kind, counter) || seen.has_only_recorded(kind, counter);
    let look = || OperationFiles::read(root, kind).ok().filter(is_answered);
    let limit = if options.without_record { WITHOUT_RECORD } else { SOON };
    let seen = until(OperationFiles::folders(root, kind.0), limit, look).await;
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

/// Reads the files of the command. Refuses if a new command may not be given now.
fn read(root: &Root, kind: Kind, options: CommandOptions) -> anyhow::Result<OperationFiles> {
    let files = OperationFiles::read(root, kind).context("cannot tell which command is pending")?;
    // With `--without-record` a disk that cannot be read is expected, and no reason to refuse.
    if let Some(refusal) = files.refused.as_ref().filter(|_| !options.without_record) {
        bail!("cannot tell what is pending, and device-op cannot either: {refusal}");
    }
    // A command with more options than the pending one is allowed: it continues the same drain.
    if options == CommandOptions::default() {
        refuse_pending(&files, kind)?;
    }
    Ok(files)
}

/// Refuses a command that is pending already: giving it again would only restart its drain. After a failure it is
/// allowed, as a new try.
fn refuse_pending(files: &OperationFiles, kind: Kind) -> anyhow::Result<()> {
    let (_, operation) = kind;
    let (counter, words) = match files.of(kind) {
        OperationStatus::Nothing | OperationStatus::Failed(_) => return Ok(()),
        OperationStatus::Given(counter) => (counter, "device-op has not taken it yet".to_owned()),
        OperationStatus::Accepted(counter) => (counter, files.words(operation)),
    };
    bail!(
        "{operation} {counter} is commanded already, and {words}; `ebb status` follows it, `ebb cancel {operation}` \
         takes it back"
    );
}

/// Waits until device-op has recorded the first counter. device-op only records the first command that it ever sees,
/// because that may be an old one.
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
