//! What a restarted zedkube goes on from, in `ROOT/run/zedkube/DrainRecord/global.json`.

mod bounds;
mod read;
mod write;

use drain::Moment;
use pubsub::{AgentLock, Persistence, PublishError, Publisher, Root, TopicKey};
use runtime::retry::pause_after;
use schemas::{DrainRecord, SCHEMA_VERSION, agent};
use session::Record;

/// The record on disk.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: Publisher<DrainRecord>,
    boot_id: String,
    failures: u32,
}

/// A record of this boot: what to go on from.
#[derive(Debug)]
pub(crate) struct Found {
    /// The state.
    pub(crate) record: Record,
    /// UUID of the drain.
    pub(crate) drain_id: String,
}

impl RecordFile {
    /// Opens it, with what a process before this one left.
    pub(crate) fn open(root: &Root, lock: &AgentLock, boot_id: &str) -> Result<Self, PublishError> {
        let file = Publisher::open(root, agent::ZEDKUBE, Persistence::Volatile, lock)?;
        Ok(Self { file, boot_id: boot_id.to_owned(), failures: 0 })
    }

    /// The record of this boot, if there is one that can be read. One of another boot says nothing: cordon and slot
    /// are on the server.
    pub(crate) fn found(&self) -> Option<Found> {
        let kept = self.file.get(&TopicKey::global())?;
        if kept.boot_id != self.boot_id || kept.schema_version != SCHEMA_VERSION {
            tracing::info!("the DrainRecord is of another boot or version and says nothing");
            return None;
        }
        let record = read::record(kept);
        if record.is_none() {
            tracing::warn!("the DrainRecord does not make sense; a drain that is asked for begins anew");
        }
        record.map(|record| Found { record, drain_id: kept.drain_id.clone() })
    }

    /// Writes it durably. After an error call [`RecordFile::failed`].
    pub(crate) fn write(&mut self, record: &Record, drain_id: &str) -> Result<(), PublishError> {
        let value = DrainRecord {
            schema_version: SCHEMA_VERSION,
            boot_id: self.boot_id.clone(),
            drain_id: drain_id.to_owned(),
            ..write::record(record)
        };
        let key = TopicKey::global();
        match self.file.publish(&key, &value) {
            // Trying it again and again would not make it shorter.
            Err(error) if error.is_for_good() => {
                tracing::warn!("{error}; so it goes without what can be found out anew");
                self.file.publish(&key, &bounds::bounded(value))?
            }
            published => published?,
        };
        self.failures = 0;
        Ok(())
    }

    /// It could not be written: when to try again.
    pub(crate) fn failed(&mut self, now: Moment) -> Moment {
        self.failures = self.failures.saturating_add(1);
        now + pause_after(self.failures)
    }
}

#[cfg(test)]
mod tests;
