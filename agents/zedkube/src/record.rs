//! The record on disk from which a restarted zedkube goes on: `ROOT/run/zedkube/DrainRecord/global.json`.

use drain::Moment;
use pubsub::{AgentLock, Persistence, PublishError, Publisher, Root, TopicKey};
use runtime::retry::pause_after;
use runtime::shortened;
use schemas::{Topic, agent};
use serde::{Deserialize, Serialize};
use session::phase::Failed;
use session::{Answer, Phase, Record, Request};

/// Version of the record. A record of another version is ignored, and a requested drain begins again.
const VERSION: u32 = 2;

/// If a record is too long: bytes that are kept of an error text. The text is for people, and the log has all of it.
const LONGEST_TEXT: usize = 1024;

/// If a record is too long: number of attempts that are kept, the newest; the setting `drain.attempts` allows 100.
const MOST_ATTEMPTS: usize = 32;

/// The content of the file. Only zedkube itself, and people, read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DrainRecord {
    /// [`VERSION`] of the writer.
    schema_version: u32,
    /// The boot in which the record was written.
    boot_id: String,
    /// UUID of the drain.
    drain_id: String,
    /// The state from which the session goes on.
    record: Record,
}

impl Topic for DrainRecord {
    const NAME: &'static str = "DrainRecord";
}

/// The file of the record.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: Publisher<DrainRecord>,
    boot_id: String,
    failures: u32,
    /// The last record was too long, and parts were left out. Logged once.
    is_cut: bool,
}

/// The record of this boot, as an earlier process left it.
#[derive(Debug)]
pub(crate) struct Found {
    /// The state from which the session goes on.
    pub(crate) record: Record,
    /// UUID of the drain.
    pub(crate) drain_id: String,
}

impl RecordFile {
    /// Opens the file, and reads what an earlier process has left.
    pub(crate) fn open(root: &Root, lock: &AgentLock, boot_id: &str) -> Result<Self, PublishError> {
        let file = Publisher::open(root, agent::ZEDKUBE, Persistence::Volatile, lock)?;
        Ok(Self { file, boot_id: boot_id.to_owned(), failures: 0, is_cut: false })
    }

    /// The record of this boot, if there is a valid one. A record of another boot does not count, because the cordon and
    /// the slot are on the API server.
    pub(crate) fn found(&self) -> Option<Found> {
        let kept = self.file.get(&TopicKey::global())?;
        if kept.boot_id != self.boot_id || kept.schema_version != VERSION {
            tracing::info!("the DrainRecord is of another boot or version and is ignored");
            return None;
        }
        if !kept.record.makes_sense() {
            tracing::warn!("the DrainRecord is not valid and is ignored; a requested drain begins again");
            return None;
        }
        Some(Found { record: kept.record.clone(), drain_id: kept.drain_id.clone() })
    }

    /// Writes the record durably. After an error the caller has to call [`RecordFile::failed`].
    pub(crate) fn write(&mut self, record: &Record, drain_id: &str) -> Result<(), PublishError> {
        let value = DrainRecord {
            schema_version: VERSION,
            boot_id: self.boot_id.clone(),
            drain_id: drain_id.to_owned(),
            record: record.clone(),
        };
        let key = TopicKey::global();
        let published = self.file.publish(&key, &value);
        let was_cut = std::mem::take(&mut self.is_cut);
        match published {
            // The record is too long; a second try would not make it shorter.
            Err(error) if error.is_for_good() => {
                if !was_cut {
                    tracing::warn!("{error}; so parts that zedkube can find out again are left out");
                }
                self.is_cut = true;
                self.file.publish(&key, &bounded(value))?;
            }
            published => drop(published?),
        }
        self.failures = 0;
        Ok(())
    }

    /// Notes that the record could not be written, and gives the time of the next try. If the record on disk still has a
    /// COMPLETE that was taken back, a restarted zedkube would publish it, so the file is removed, which is possible on
    /// a full disk. Without a record the drain begins again.
    pub(crate) fn failed(&mut self, record: &Record, now: Moment) -> Moment {
        if self.tells_too_much(record) {
            match self.file.unpublish(&TopicKey::global()) {
                Ok(_) => {
                    tracing::warn!(
                        "removed the DrainRecord: the disk takes no new one, and it holds a COMPLETE that was taken back"
                    );
                }
                Err(error) => tracing::debug!("the DrainRecord cannot be removed either: {error}"),
            }
        }
        self.failures = self.failures.saturating_add(1);
        now + pause_after(self.failures)
    }

    /// The record on disk has a COMPLETE that was taken back.
    fn tells_too_much(&self, record: &Record) -> bool {
        let Some(kept) = self.file.get(&TopicKey::global()) else { return false };
        let is_taken_back = |told: &Request| {
            let same =
                |now: &&Request| now.requester == told.requester && now.requested_at == told.requested_at;
            told.answer == Answer::Complete
                && record.requests.iter().find(same).is_some_and(|now| now.answer == Answer::None)
        };
        kept.record.requests.iter().any(is_taken_back)
    }
}

/// A record that fits its file: without parts that a restarted zedkube finds out again or that decide nothing. Requests,
/// answers, an operator's orders and all deadlines stay.
fn bounded(mut value: DrainRecord) -> DrainRecord {
    let record = &mut value.record;
    if let Phase::Failed(Failed::Cordon(text) | Failed::Drain(text)) = &mut record.phase {
        *text = shortened(std::mem::take(text), LONGEST_TEXT);
    }
    let attempts = &mut record.session.attempts;
    attempts.drain(..attempts.len().saturating_sub(MOST_ATTEMPTS));
    for attempt in attempts {
        attempt.error = shortened(std::mem::take(&mut attempt.error), LONGEST_TEXT);
    }
    value
}

#[cfg(test)]
mod tests;
