//! What stands of a command: its source's file, the recorded counter, and device-op's own record.

use std::path::{Path, PathBuf};

use device_op::OperationRecord;
use device_op::facts::Kind;
use pubsub::{MAX_FILE_BYTES, Owner, Persistence, Refusal, Root, TopicKey, read_checked, read_item};
use schemas::{
    CommandState, DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DeviceOpsCmd, Operation,
    Source, Topic, agent, parse,
};

/// One look at the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The source's command.
    pub(crate) published: Option<DeviceOpsCmd>,
    /// The counter that counts as done; nothing as well if the file holds none, as device-op takes it.
    pub(crate) recorded: Option<u32>,
    /// What device-op has accepted and not finished.
    pub(crate) record: OperationRecord,
    /// Why counter or record are not known.
    pub(crate) refused: Option<Refusal>,
    /// How device-op shows it.
    pub(crate) shown: DeviceOpStatus,
    /// What nodeagent is doing.
    pub(crate) action: DeviceAction,
}

/// What there is of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Nothing that is to happen: nothing at all, done, or taken back.
    Nothing,
    /// Commanded, and not accepted yet.
    Given(u32),
    /// Accepted, and not done.
    Accepted(u32),
    /// Accepted, failed, and waiting for the next try; a new command tries at once.
    Failed(u32),
}

impl Standing {
    /// Reads the files.
    ///
    /// # Errors
    /// The source's command cannot be read.
    pub(crate) fn read(root: &Root, kind: Kind) -> Result<Self, Refusal> {
        let mut standing = Self { published: published(root, kind)?, ..Self::default() };
        match recorded(root, kind) {
            Ok(recorded) => standing.recorded = recorded,
            Err(refusal) => standing.refused = Some(refusal),
        }
        match record(root) {
            Ok(record) => standing.record = record.unwrap_or_default(),
            Err(refusal) => standing.refused = Some(refusal),
        }
        standing.shown = shown(root, agent::ZEDAGENT);
        standing.action = shown(root, agent::NODEAGENT);
        Ok(standing)
    }

    /// The folders whose changes change it.
    pub(crate) fn folders(root: &Root, source: Source) -> [PathBuf; 6] {
        [
            root.join(source.counter_folder()),
            root.folder::<DeviceOpsCmd>(source.agent(), Persistence::Volatile),
            root.folder::<OperationRecord>(agent::ZEDAGENT, Persistence::Persistent),
            root.folder::<OperationRecord>(agent::ZEDAGENT, Persistence::Volatile),
            root.folder::<DeviceOpStatus>(agent::ZEDAGENT, Persistence::Volatile),
            root.folder::<DeviceAction>(agent::NODEAGENT, Persistence::Volatile),
        ]
    }

    /// What there is of this command.
    pub(crate) fn of(&self, kind: Kind) -> Stand {
        let accepted = self.record.latest(kind).map(|accepted| accepted.counter);
        let given =
            self.published.as_ref().filter(|command| command.desired_state).map(|command| command.counter);
        match (given, accepted) {
            // Without a recorded counter the first command is only recorded.
            (Some(given), accepted)
                if accepted != Some(given) && self.recorded.is_some_and(|recorded| recorded != given) =>
            {
                Stand::Given(given)
            }
            (_, None) => Stand::Nothing,
            (_, Some(counter)) if self.record.failed.is_some() => Stand::Failed(counter),
            (_, Some(counter)) if self.is(DeviceActionState::Done, kind, counter) => Stand::Nothing,
            (_, Some(counter)) => Stand::Accepted(counter),
        }
    }

    /// device-op has this command in its record: a counter alone may be recorded and nothing done.
    pub(crate) fn has_accepted(&self, kind: Kind, counter: u32) -> bool {
        self.record.latest(kind).is_some_and(|accepted| accepted.counter == counter)
    }

    /// device-op has taken this command for an old one.
    pub(crate) fn has_only_recorded(&self, kind: Kind, counter: u32) -> bool {
        let line = self.record.ended(kind).filter(|line| line.state == CommandState::Recorded);
        line.is_some_and(|line| line.counter == counter)
    }

    /// nodeagent is that far with this command.
    pub(crate) fn is(&self, state: DeviceActionState, (source, operation): Kind, counter: u32) -> bool {
        let action = &self.action;
        (action.state, action.command, action.counter, action.source)
            == (state, Some(operation), counter, source)
    }

    /// The operation that is served first, if it is another one.
    pub(crate) fn ahead_of(&self, operation: Operation) -> Option<(Operation, u32)> {
        let current = self.record.current().filter(|current| current.operation != operation);
        current.map(|current| (current.operation, current.counter))
    }

    /// The other sources whose command of this operation is served at the same time.
    pub(crate) fn served_too(&self, (source, operation): Kind) -> Vec<(Source, u32)> {
        let under_way = self.record.handed_over.iter().filter(|_| !self.record.is_done);
        let others = self
            .record
            .waiting
            .iter()
            .chain(under_way)
            .filter(|other| other.operation == operation && other.source != source);
        others.map(|other| (other.source, other.counter)).collect()
    }

    /// In words, how far an accepted command is.
    pub(crate) fn words(&self, operation: Operation) -> String {
        if let Some((other, counter)) = self.ahead_of(operation) {
            return format!("it waits behind {other} {counter}");
        }
        match self.shown.state {
            DeviceOpState::HandedOver => "it is handed over to nodeagent".to_owned(),
            DeviceOpState::Deferred | DeviceOpState::Failed if !self.shown.blocked_by.is_empty() => {
                format!("it is held back: {}", self.shown.blocked_by)
            }
            DeviceOpState::Deferred | DeviceOpState::Failed | DeviceOpState::Idle => {
                "it is held back".to_owned()
            }
        }
    }
}

/// What an agent shows; only words depend on it, so one that cannot be read says nothing.
fn shown<T: Topic + Default>(root: &Root, agent: &str) -> T {
    let item = read_item(root, agent, Persistence::Volatile, &TopicKey::global());
    item.ok().flatten().unwrap_or_default()
}

fn published(root: &Root, (source, operation): Kind) -> Result<Option<DeviceOpsCmd>, Refusal> {
    let key = TopicKey::parse(operation.name());
    key.map_or(Ok(None), |key| read_item(root, source.agent(), Persistence::Volatile, &key))
}

/// As device-op reads it: while there is one in `/run`, that is the newer.
fn record(root: &Root) -> Result<Option<OperationRecord>, Refusal> {
    let read = |persistence| read_item(root, agent::ZEDAGENT, persistence, &TopicKey::global());
    read(Persistence::Volatile)?.map_or_else(|| read(Persistence::Persistent), |record| Ok(Some(record)))
}

/// As device-op reads it: a file without a counter is none.
fn recorded(root: &Root, (source, operation): Kind) -> Result<Option<u32>, Refusal> {
    let path = root.join(Path::new(source.counter_folder()).join(operation.counter_file()));
    let bytes = read_checked(&path, MAX_FILE_BYTES, Owner::RootOrSelf)?;
    Ok(bytes.and_then(|bytes| parse::<DeviceOpsCmd>(&bytes).ok()).map(|command| command.counter))
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
