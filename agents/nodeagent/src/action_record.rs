//! The durable proof that a command was begun: topic ActionRecord, in `/persist`.
//!
//! It has no backup: the one before it is about another command. nodeagent runs as well where it cannot be written.

use pubsub::store::{create_folder, remove_durably, write_durably};
use pubsub::{Backup, Persistence, Root, StoreError, TopicKey, read_item};
use runtime::error_chain;
use schemas::{ActionRecord, agent, to_bytes};

use crate::progress::DurableRecord;

/// The proof of this device.
#[derive(Debug)]
pub(crate) struct RecordFile {
    root: Root,
    refused: Option<(ActionRecord, String)>,
}

impl RecordFile {
    pub(crate) fn new(root: &Root) -> Self {
        Self { root: root.clone(), refused: None }
    }

    /// What is known of it.
    pub(crate) fn look(&self) -> DurableRecord {
        let key = TopicKey::global();
        let on_disk = read_item(&self.root, agent::NODEAGENT, Persistence::Persistent, &key);
        let on_disk = on_disk.unwrap_or_else(|refusal| {
            tracing::debug!("{refusal}");
            None
        });
        DurableRecord { on_disk, refused: self.refused.clone() }
    }

    /// Writes it. That it cannot be written is seen by the next look.
    pub(crate) fn write(&mut self, record: &ActionRecord) {
        let folder = self.root.folder::<ActionRecord>(agent::NODEAGENT, Persistence::Persistent);
        let name = TopicKey::global().file_name();
        let written = create_folder(&folder)
            .and_then(|()| write_durably(&folder, &name, &to_bytes(record), Backup::None));
        self.refused = written.err().map(|error| {
            let error = format!("ActionRecord: {}", error_chain(&error));
            tracing::error!("{error}");
            (record.clone(), error)
        });
    }

    /// Removes it. Nothing was refused any more: the next record is tried again.
    pub(crate) fn forget(&mut self) -> Result<(), StoreError> {
        self.refused = None;
        let folder = self.root.folder::<ActionRecord>(agent::NODEAGENT, Persistence::Persistent);
        if !folder.exists() {
            return Ok(());
        }
        remove_durably(&folder, &TopicKey::global().file_name()).map(|_| ())
    }
}
