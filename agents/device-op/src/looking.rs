//! Reading what the sources command, and what an operator says beside them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pubsub::{Persistence, Root, Subscription, TopicKey, read_item};
use runtime::plain_text::one_line;
use schemas::{ActionRecord, CancelCommand, CommandFreeze, DeviceOpsCmd, GoTime, Operation, Source, agent};

use crate::facts::{Commanded, Freeze, Kind, all_kinds};

/// So much is kept of the time that a source gives with its command; nobody decides by it.
const MOST_TIME: usize = 64;

/// So much is repeated of what an operator wrote.
const MOST_WORDS: usize = 512;

/// The command of this source, from its file: a subscription cannot tell an absent item from one that is just being
/// written.
pub(crate) fn command(root: &Root, (source, operation): Kind) -> Commanded {
    let Ok(key) = TopicKey::parse(operation.name()) else {
        return Commanded::Unreadable;
    };
    match read_item::<DeviceOpsCmd>(root, source.agent(), Persistence::Volatile, &key) {
        Ok(Some(command)) => {
            let ops_time = one_line(&command.ops_time, MOST_TIME);
            // An operator's words count from an operator only.
            let is_person = source == Source::Person;
            let now = command.now && is_person;
            let without_record = command.without_record && is_person && operation == Operation::Reboot;
            Commanded::Given(DeviceOpsCmd { ops_time, now, without_record, ..command })
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

/// The counters that an operator has taken back for other sources. A file that cannot be read takes nothing back.
pub(crate) fn cancelled(root: &Root) -> BTreeMap<Kind, u32> {
    let counter = |kind: Kind| {
        let key = TopicKey::parse(&CancelCommand::key(kind.0, kind.1)).ok()?;
        let item = read_item::<CancelCommand>(root, agent::EBB, Persistence::Volatile, &key);
        let command = item.inspect_err(|refusal| tracing::debug!("{refusal}")).ok()??;
        Some(command.counter)
    };
    all_kinds().filter_map(|kind| Some((kind, counter(kind)?))).collect()
}

/// The brake, if it is on at this time of the wall clock. One that cannot be read holds: nobody knows who put it on.
pub(crate) fn freeze(root: &Root, wall: Timestamp) -> Option<Freeze> {
    match read_item::<CommandFreeze>(root, agent::EBB, Persistence::Persistent, &TopicKey::global()) {
        Ok(freeze) => frozen(&freeze?, wall),
        Err(refusal) => {
            let words = format!(
                "{refusal}: commands count as frozen; `ebb unfreeze` removes that file, `--now` passes one command"
            );
            Some(Freeze { words, ends_in_ms: None })
        }
    }
}

fn frozen(freeze: &CommandFreeze, wall: Timestamp) -> Option<Freeze> {
    if !freeze.stands(GoTime::from(wall)) {
        return None;
    }
    let CommandFreeze { until, by, reason, .. } = freeze;
    // At least one, so that nobody looks again at once, and in vain.
    let left = |until: Timestamp| u64::try_from(until.duration_since(wall).as_millis()).unwrap_or(0).max(1);
    let ends_in_ms = until.set().map(left);
    let until = until.set().map_or_else(String::new, |until| until.strftime(" until %FT%TZ").to_string());
    let (by, reason) = (one_line(by, MOST_WORDS), one_line(reason, MOST_WORDS));
    let words = format!(
        "commands are frozen{until} (by {by}: {reason}); `ebb unfreeze` ends that, `--now` passes one command"
    );
    Some(Freeze { words, ends_in_ms })
}

/// What nodeagent began last. One that cannot be read proves nothing.
pub(crate) fn acted(root: &Root) -> Option<ActionRecord> {
    let record = read_item(root, agent::NODEAGENT, Persistence::Persistent, &TopicKey::global());
    record.inspect_err(|refusal| tracing::warn!("{refusal}")).ok().flatten()
}

/// Commands for operations that there are not.
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
