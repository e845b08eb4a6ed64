//! What a restarted zedkube goes on from, in `ROOT/run/zedkube/DrainRecord/global.json`.

mod bounds;
mod read;
mod write;

use drain::Moment;
use pubsub::{AgentLock, Persistence, PublishError, Publisher, Root, TopicKey};
use runtime::retry::pause_after;
use schemas::{DrainRecord, SCHEMA_VERSION, agent};
use session::{Answer, Record, Request};

/// The record on disk.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: Publisher<DrainRecord>,
    boot_id: String,
    failures: u32,
    /// The last one was too long, and is without some things. Said once.
    is_cut: bool,
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
        Ok(Self { file, boot_id: boot_id.to_owned(), failures: 0, is_cut: false })
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
        let published = self.file.publish(&key, &value);
        let was_cut = std::mem::take(&mut self.is_cut);
        match published {
            // Trying it again and again would not make it shorter.
            Err(error) if error.is_for_good() => {
                if !was_cut {
                    tracing::warn!("{error}; so it goes without what can be found out anew");
                }
                self.is_cut = true;
                self.file.publish(&key, &bounds::bounded(value))?;
            }
            published => drop(published?),
        }
        self.failures = 0;
        Ok(())
    }

    /// It could not be written: when to try again. What is on disk must not tell more than is true: a restarted zedkube
    /// would show a COMPLETE that was taken back. Without a record it begins anew. A file can be removed from a full disk.
    pub(crate) fn failed(&mut self, record: &Record, now: Moment) -> Moment {
        if self.tells_too_much(record) {
            match self.file.unpublish(&TopicKey::global()) {
                Ok(_) => {
                    tracing::warn!("the DrainRecord is removed: it tells a COMPLETE that was taken back");
                }
                Err(error) => tracing::debug!("nor can the DrainRecord be removed: {error}"),
            }
        }
        self.failures = self.failures.saturating_add(1);
        now + pause_after(self.failures)
    }

    /// Somebody was told COMPLETE on disk who is not any more.
    fn tells_too_much(&self, record: &Record) -> bool {
        let Some(kept) = self.file.get(&TopicKey::global()).and_then(read::record) else { return false };
        let is_taken_back = |told: &Request| {
            let same =
                |now: &&Request| now.requester == told.requester && now.requested_at == told.requested_at;
            told.answer == Answer::Complete
                && record.requests.iter().find(same).is_some_and(|now| now.answer == Answer::None)
        };
        kept.requests.iter().any(is_taken_back)
    }
}

#[cfg(test)]
mod tests;
