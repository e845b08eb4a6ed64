//! What stands of a command, for a program beside device-op: its source's file, the recorded counter, and device-op's own
//! record.

use std::path::PathBuf;

use pubsub::{Persistence, Refusal, Root, TopicKey, read_item};
use schemas::{
    CommandState, DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DeviceOpsCmd, Operation,
    Source, Topic, agent,
};
use thiserror::Error;

use crate::counters::Counters;
use crate::facts::Kind;
use crate::record::OperationRecord;

/// Why there is nothing to take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NothingToTakeBack {
    /// It was taken back before.
    #[error("{operation} {counter} is taken back already; `ebb status` says how far that is")]
    Already {
        /// The operation.
        operation: Operation,
        /// Its counter.
        counter: u32,
    },
    /// No such command stands.
    #[error("there is no {operation} to take back: none is pending (`ebb status`)")]
    NonePending {
        /// The operation.
        operation: Operation,
    },
}

/// One look at the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationFiles {
    /// The source's command.
    pub published: Option<DeviceOpsCmd>,
    /// The counter that counts as done; nothing as well if the file holds none, as device-op takes it.
    pub recorded: Option<u32>,
    /// What device-op has accepted and not finished.
    pub record: OperationRecord,
    /// Why counter or record are not known.
    pub refused: Option<Refusal>,
    /// How device-op shows it.
    pub shown: DeviceOpStatus,
    /// What nodeagent is doing.
    pub action: DeviceAction,
}

/// What there is of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationStatus {
    /// Nothing that is to happen: nothing at all, done, or taken back.
    Nothing,
    /// Commanded, and not accepted yet.
    Given(u32),
    /// Accepted, and not done.
    Accepted(u32),
    /// Accepted, failed, and waiting for the next try; a new command tries at once.
    Failed(u32),
}

/// What has become of a take-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    /// Nothing of the command is left.
    Done,
    /// nodeagent has passed the point of no return.
    TooLate,
}

impl OperationFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// The source's command cannot be read.
    pub fn read(root: &Root, kind: Kind) -> Result<Self, Refusal> {
        let mut standing = Self { published: published(root, kind)?, ..Self::default() };
        match record(root) {
            Ok(record) => standing.record = record.unwrap_or_default(),
            Err(refusal) => standing.refused = Some(refusal),
        }
        match Counters::known_from(&standing.record).recorded(root, kind) {
            Ok(recorded) => standing.recorded = recorded,
            Err(refusal) => {
                standing.refused.get_or_insert(refusal);
            }
        }
        standing.shown = shown(root, agent::ZEDAGENT);
        standing.action = shown(root, agent::NODEAGENT);
        Ok(standing)
    }

    /// The folders whose changes change it.
    pub fn folders(root: &Root, source: Source) -> [PathBuf; 6] {
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
    pub fn of(&self, kind: Kind) -> OperationStatus {
        let accepted = self.record.latest(kind).map(|accepted| accepted.counter);
        let given =
            self.published.as_ref().filter(|command| command.desired_state).map(|command| command.counter);
        match (given, accepted) {
            // Without a recorded counter the first command is only recorded.
            (Some(given), accepted)
                if accepted != Some(given) && self.recorded.is_some_and(|recorded| recorded != given) =>
            {
                OperationStatus::Given(given)
            }
            (_, None) => OperationStatus::Nothing,
            (_, Some(counter)) if self.record.failed.is_some() => OperationStatus::Failed(counter),
            (_, Some(counter)) if self.is(DeviceActionState::Done, kind, counter) => OperationStatus::Nothing,
            (_, Some(counter)) => OperationStatus::Accepted(counter),
        }
    }

    /// device-op has this command in its record: a counter alone may be recorded and nothing done.
    pub fn has_accepted(&self, kind: Kind, counter: u32) -> bool {
        self.record.latest(kind).is_some_and(|accepted| accepted.counter == counter)
    }

    /// device-op has taken this command for an old one.
    pub fn has_only_recorded(&self, kind: Kind, counter: u32) -> bool {
        let line = self.record.ended(kind).filter(|line| line.state == CommandState::Recorded);
        line.is_some_and(|line| line.counter == counter)
    }

    /// nodeagent is that far with this command.
    pub fn is(&self, state: DeviceActionState, (source, operation): Kind, counter: u32) -> bool {
        let action = &self.action;
        (action.state, action.command, action.counter, action.source)
            == (state, Some(operation), counter, source)
    }

    /// The counter of the source's next command: one more than any that was used. Nothing if there is no greater number.
    pub fn next_counter(&self, kind: Kind) -> Option<u32> {
        let published = self.published.as_ref().map_or(0, |command| command.counter);
        let ended = self.record.ended(kind).map_or(0, |line| line.counter);
        published.max(self.recorded.unwrap_or(0)).max(ended).checked_add(1)
    }

    /// The counter of the command that stands and can be taken back. A command that is carried out and whose device still
    /// runs (a shutdown, a dry run) stands, too: its drain request goes with it.
    ///
    /// # Errors
    /// No command stands.
    pub fn counter_to_take_back(&self, kind: Kind) -> Result<u32, NothingToTakeBack> {
        let (_, operation) = kind;
        let accepted = self.record.latest(kind).map(|accepted| accepted.counter);
        match (self.of(kind), &self.published, accepted) {
            (OperationStatus::Given(counter), _, _) => Ok(counter),
            (_, Some(published), None) if published.desired_state && self.refused.is_some() => {
                Ok(published.counter)
            }
            (_, Some(published), Some(_)) if published.desired_state => Ok(published.counter),
            (_, None, Some(accepted)) => Ok(accepted),
            (_, Some(published), Some(_)) => {
                Err(NothingToTakeBack::Already { operation, counter: published.counter })
            }
            (_, _, None) => {
                let failed = self.failed_counter(kind);
                failed.ok_or(NothingToTakeBack::NonePending { operation })
            }
        }
    }

    /// What has become of a take-back of this counter; nothing as long as nobody can tell.
    pub fn after_take_back(&self, kind: Kind, counter: u32) -> Option<TakenBack> {
        match self.record.latest(kind) {
            None if self.recorded == Some(counter) && self.failed_counter(kind).is_none() => {
                Some(TakenBack::Done)
            }
            None => None,
            Some(accepted) => {
                let is_acting = self.is(DeviceActionState::Acting, kind, accepted.counter);
                is_acting.then_some(TakenBack::TooLate)
            }
        }
    }

    /// The counter of the source's last command, if that has failed.
    fn failed_counter(&self, kind: Kind) -> Option<u32> {
        let failed = self.record.ended(kind).filter(|line| line.state == CommandState::Failed);
        failed.map(|line| line.counter)
    }

    /// The operation that is served first, if it is another one.
    pub fn ahead_of(&self, operation: Operation) -> Option<(Operation, u32)> {
        let current = self.record.current().filter(|current| current.operation != operation);
        current.map(|current| (current.operation, current.counter))
    }

    /// The other sources whose command of this operation is served at the same time.
    pub fn served_too(&self, (source, operation): Kind) -> Vec<(Source, u32)> {
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
    pub fn words(&self, operation: Operation) -> String {
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

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
