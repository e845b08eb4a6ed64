//! Reads the commands of the sources, and the operator's files beside them (cancel, freeze).

use std::collections::BTreeMap;

use jiff::Timestamp;
use pubsub::{Persistence, Root, Subscription, TopicKey, read_item};
use runtime::freeze::Freeze;
use runtime::{Settings, read_or_none};
use schemas::{ActionRecord, CancelCommand, DeviceOpsCmd, GoTime, Operation, Source, agent};
use text::one_line;

use crate::facts::{Commanded, Kind, all_kinds};

/// Limit in bytes for the time in a command, which is only displayed.
const MOST_TIME: usize = 64;

/// Limit in bytes for the author of a command, who is only displayed.
const MOST_BY: usize = 64;

/// Limit in bytes for the author's reason. nodeagent cuts the whole reboot reason at 1024 bytes.
const MOST_REASON: usize = 512;

/// Reads the command of this source from its file, not from a subscription: a subscription cannot tell an absent item
/// from one that is being written.
///
/// With `commands.from-cluster` off a command of the cluster counts as taken back, whoever has written its file.
pub(crate) fn command(root: &Root, (source, operation): Kind, settings: &Settings) -> Commanded {
    let key = TopicKey::of_operation(operation);
    match read_item::<DeviceOpsCmd>(root, source.agent(), Persistence::Volatile, &key) {
        Ok(Some(command)) => {
            let ops_time = one_line(&command.ops_time, MOST_TIME);
            // `--now`, `--without-record`, `--at` and the author count only in a command of an operator.
            let is_person = source == Source::Person;
            let by = if is_person { one_line(&command.by, MOST_BY) } else { String::new() };
            let reason =
                if source.gives_reason() { one_line(&command.reason, MOST_REASON) } else { String::new() };
            let now = command.now && is_person;
            let not_before = if is_person { command.not_before } else { GoTime::ZERO };
            let without_record = command.without_record && is_person && operation == Operation::Reboot;
            let desired_state =
                command.desired_state && (source != Source::Cluster || settings.commands.from_cluster);
            Commanded::Given(DeviceOpsCmd {
                desired_state,
                ops_time,
                now,
                without_record,
                not_before,
                by,
                reason,
                ..command
            })
        }
        Ok(None) if has_folder(root, source) => Commanded::Absent,
        Ok(None) => Commanded::NoFolder,
        Err(refusal) => {
            tracing::debug!("{refusal}");
            Commanded::Unreadable
        }
    }
}

fn has_folder(root: &Root, source: Source) -> bool {
    root.folder::<DeviceOpsCmd>(source.agent(), Persistence::Volatile).is_dir()
}

/// The counters that an operator has cancelled on behalf of other sources. A file that cannot be read cancels
/// nothing.
pub(crate) fn cancelled(root: &Root) -> BTreeMap<Kind, u32> {
    let counter = |kind: Kind| {
        let key = TopicKey::parse(&CancelCommand::key(kind.0, kind.1)).ok()?;
        let command = read_or_none::<CancelCommand>(root, agent::EBB, Persistence::Volatile, &key);
        command.map(|command| command.counter)
    };
    all_kinds().filter_map(|kind| Some((kind, counter(kind)?))).collect()
}

/// The freeze, if it is in effect at this time of the wall clock.
pub(crate) fn freeze(root: &Root, wall: Timestamp) -> Option<Freeze> {
    runtime::freeze::freeze(root, wall).map(|freeze| {
        let words = format!("{}, `--now` passes one command", freeze.words);
        Freeze { words, ..freeze }
    })
}

/// The operation that nodeagent began last. A file that cannot be read counts as none.
pub(crate) fn acted(root: &Root) -> Option<ActionRecord> {
    let record = read_item(root, agent::NODEAGENT, Persistence::Persistent, &TopicKey::global());
    record.inspect_err(|refusal| tracing::warn!("{refusal}")).ok().flatten()
}

/// Refusals for commands whose operation does not exist.
pub(crate) fn misnamed(
    commands: &Subscription<DeviceOpsCmd>,
    source: Source,
) -> impl Iterator<Item = String> {
    let unknown = commands.items().keys().filter(|key| Operation::from_name(key.as_str()).is_none());
    unknown.map(move |key| {
        let accepted = Operation::ALL.map(Operation::name).join(", ");
        format!(
            "refused DeviceOpsCmd `{}` of {source}: no such operation; accepted: {accepted}",
            key.as_str().escape_debug()
        )
    })
}
