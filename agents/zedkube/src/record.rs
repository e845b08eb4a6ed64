//! What a restarted zedkube goes on from, in `ROOT/run/zedkube/DrainRecord/global.json`.

use drain::Moment;
use pubsub::{AgentLock, Persistence, PublishError, Publisher, Root, TopicKey};
use runtime::retry::pause_after;
use runtime::shortened;
use schemas::{Topic, agent};
use serde::{Deserialize, Serialize};
use session::phase::Failed;
use session::{Answer, Phase, Record, Request};

/// Version of the record. A record of another one is not read: the drain that is asked for begins anew.
const VERSION: u32 = 2;

/// Bytes that are kept of the text of a failure when a record is too long: it is for people, and the log has all of it.
const LONGEST_TEXT: usize = 1024;

/// Attempts that are kept then, the newest: the setting `drain.attempts` allows 100.
const MOST_ATTEMPTS: usize = 32;

/// What is on disk. Its only reader is zedkube itself, and people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DrainRecord {
    /// [`VERSION`] of the writer.
    schema_version: u32,
    /// The boot that it is of.
    boot_id: String,
    /// UUID of the drain.
    drain_id: String,
    /// What the session goes on from.
    record: Record,
}

impl Topic for DrainRecord {
    const NAME: &'static str = "DrainRecord";
}

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
        if kept.boot_id != self.boot_id || kept.schema_version != VERSION {
            tracing::info!("the DrainRecord is of another boot or version and says nothing");
            return None;
        }
        if !kept.record.makes_sense() {
            tracing::warn!("the DrainRecord does not make sense; a drain that is asked for begins anew");
            return None;
        }
        Some(Found { record: kept.record.clone(), drain_id: kept.drain_id.clone() })
    }

    /// Writes it durably. After an error call [`RecordFile::failed`].
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
            // Trying it again and again would not make it shorter.
            Err(error) if error.is_for_good() => {
                if !was_cut {
                    tracing::warn!("{error}; so it goes without what can be found out anew");
                }
                self.is_cut = true;
                self.file.publish(&key, &bounded(value))?;
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

/// A record that fits its file, whatever it has to tell: without what a restarted zedkube finds out anew or does not decide
/// by. Who asks, what was answered, what an operator has ordered and every deadline stay.
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
