//! Topic ActionRecord in `/persist`: the durable proof that nodeagent began a command.
//!
//! The file has no backup, because an older record is about another command. nodeagent also runs where the file
//! cannot be written.

use pubsub::store::remove_durably;
use pubsub::{Persistence, Root, StoreError, TopicKey};
use runtime::{clock, error_chain, read_or_none, write_persistent};
use schemas::{ActionRecord, agent};

use crate::facts::DurableRecord;

/// Pause before a record that could not be removed is removed again, in milliseconds.
const FORGET_AGAIN_MS: u64 = 30_000;

#[derive(Debug)]
pub(crate) struct RecordFile {
    root: Root,
    refused: Option<(ActionRecord, String)>,
    /// The record could not be removed: when to try again, in milliseconds of this boot's clock.
    kept_until: Option<u64>,
}

impl RecordFile {
    pub(crate) fn new(root: &Root) -> Self {
        Self { root: root.clone(), refused: None, kept_until: None }
    }

    /// The record on disk, the record whose last write failed, and when to remove one again.
    pub(crate) fn look(&self) -> DurableRecord {
        let key = TopicKey::global();
        let on_disk = read_or_none(&self.root, agent::NODEAGENT, Persistence::Persistent, &key);
        DurableRecord { on_disk, refused: self.refused.clone(), kept_until: self.kept_until }
    }

    /// Writes the record. The next snapshot shows whether the write failed.
    pub(crate) fn write(&mut self, record: &ActionRecord) {
        let written = write_persistent(&self.root, agent::NODEAGENT, record);
        if written.is_ok() {
            self.kept_until = None;
        }
        self.refused = written.err().map(|error| {
            let error = format!("ActionRecord: {}", error_chain(&error));
            tracing::error!("{error}");
            (record.clone(), error)
        });
    }

    /// Removes the record, and forgets a failed write, so that the next record is written again.
    pub(crate) fn forget(&mut self) -> Result<(), StoreError> {
        self.refused = None;
        let folder = self.root.folder::<ActionRecord>(agent::NODEAGENT, Persistence::Persistent);
        let removed = if folder.exists() {
            remove_durably(&folder, &TopicKey::global().file_name()).map(|_| ())
        } else {
            Ok(())
        };
        self.kept_until = removed.as_ref().err().map(|_| clock::now().after(FORGET_AGAIN_MS));
        removed
    }
}
