//! The progress of a command, for a program beside device-op (`ebb`): read from the source's file, the counter file,
//! and device-op's record.

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

/// The reason why there is no command to take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NothingToTakeBack {
    /// The command was taken back before.
    #[error("{operation} {counter} is taken back already; `ebb status` shows the progress")]
    Already {
        /// That of the command.
        operation: Operation,
        /// The counter of its command.
        counter: u32,
    },
    /// No command of this operation is pending.
    #[error("there is no {operation} to take back: none is pending (`ebb status`)")]
    NonePending {
        /// The one that was asked for.
        operation: Operation,
    },
}

/// Snapshot of the files of one command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationFiles {
    /// The source's command.
    pub published: Option<DeviceOpsCmd>,
    /// The counter that counts as done for device-op; None also if the file holds none.
    pub recorded: Option<u32>,
    /// The commands that device-op has accepted and not finished.
    pub record: OperationRecord,
    /// The reason why the counter or the record is not known.
    pub refused: Option<Refusal>,
    /// What device-op published last; the default without a file.
    pub shown: DeviceOpStatus,
    /// What nodeagent published last; the default without a file.
    pub action: DeviceAction,
}

/// The progress of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationStatus {
    /// Nothing is to happen: there is no command, or it is done or taken back.
    Nothing,
    /// The command is published and not accepted yet.
    Given(u32),
    /// The command is accepted and not done.
    Accepted(u32),
    /// The command is accepted, has failed, and waits for the next attempt. A new command is attempted at once.
    Failed(u32),
}

/// The result of a take-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    /// The command is over and was not carried out.
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
        let mut files = Self { published: published(root, kind)?, ..Self::default() };
        match record(root) {
            Ok(record) => files.record = record.unwrap_or_default(),
            Err(refusal) => files.refused = Some(refusal),
        }
        match Counters::known_from(&files.record).recorded(root, kind) {
            Ok(recorded) => files.recorded = recorded,
            Err(refusal) => {
                files.refused.get_or_insert(refusal);
            }
        }
        files.shown = shown(root, agent::ZEDAGENT);
        files.action = shown(root, agent::NODEAGENT);
        Ok(files)
    }

    /// The folders to watch for changes of these files.
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

    /// The progress of this command.
    pub fn of(&self, kind: Kind) -> OperationStatus {
        let accepted = self.record.latest(kind).map(|accepted| accepted.counter);
        let given =
            self.published.as_ref().filter(|command| command.desired_state).map(|command| command.counter);
        match (given, accepted) {
            // If no counter is recorded, the first command is only recorded.
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

    /// True if device-op's record holds this command. The counter file alone proves nothing: it may hold the counter
    /// of a command that was not carried out.
    pub fn has_accepted(&self, kind: Kind, counter: u32) -> bool {
        self.record.latest(kind).is_some_and(|accepted| accepted.counter == counter)
    }

    /// True if device-op has only recorded this command, because it may be an old one.
    pub fn has_only_recorded(&self, kind: Kind, counter: u32) -> bool {
        let line = self.record.ended(kind).filter(|line| line.state == CommandState::Recorded);
        line.is_some_and(|line| line.counter == counter)
    }

    /// True if nodeagent has reached this state with this command.
    pub fn is(&self, state: DeviceActionState, (source, operation): Kind, counter: u32) -> bool {
        let action = &self.action;
        (action.state, action.command, action.counter, action.source)
            == (state, Some(operation), counter, source)
    }

    /// The counter for the source's next command: one more than any used so far. None if there is no greater number.
    pub fn next_counter(&self, kind: Kind) -> Option<u32> {
        let published = self.published.as_ref().map_or(0, |command| command.counter);
        let ended = self.record.ended(kind).map_or(0, |line| line.counter);
        published.max(self.recorded.unwrap_or(0)).max(ended).checked_add(1)
    }

    /// The counter of the command that can be taken back. A shutdown or a dry run that is done can be taken back,
    /// too, because the device still runs: that withdraws its drain request.
    ///
    /// # Errors
    /// No command is pending.
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

    /// The result of a take-back of this counter; None while it is not known.
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

    /// The counter of the source's last command, if that command failed.
    fn failed_counter(&self, kind: Kind) -> Option<u32> {
        let failed = self.record.ended(kind).filter(|line| line.state == CommandState::Failed);
        failed.map(|line| line.counter)
    }

    /// The operation that is served first, if it is not this one.
    pub fn ahead_of(&self, operation: Operation) -> Option<(Operation, u32)> {
        let current = self.record.current().filter(|current| current.operation != operation);
        current.map(|current| (current.operation, current.counter))
    }

    /// The other sources whose command for this operation is served at the same time.
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

    /// The progress of an accepted command, in words.
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

/// A status that an agent publishes. Used for texts only, so a file that cannot be read counts as empty.
fn shown<T: Topic + Default>(root: &Root, agent: &str) -> T {
    let item = read_item(root, agent, Persistence::Volatile, &TopicKey::global());
    item.ok().flatten().unwrap_or_default()
}

fn published(root: &Root, (source, operation): Kind) -> Result<Option<DeviceOpsCmd>, Refusal> {
    read_item(root, source.agent(), Persistence::Volatile, &TopicKey::of_operation(operation))
}

/// The record, as device-op reads it: a record in `/run` is newer than the one on `/persist`.
fn record(root: &Root) -> Result<Option<OperationRecord>, Refusal> {
    let read = |persistence| read_item(root, agent::ZEDAGENT, persistence, &TopicKey::global());
    read(Persistence::Volatile)?.map_or_else(|| read(Persistence::Persistent), |record| Ok(Some(record)))
}

#[cfg(test)]
mod tests;
