//! The two files of the record: on `/persist`, and in `/run` alone for a command without a record.

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use runtime::{AgentContext, LatePublisher, NotWritten};

use crate::record::OperationRecord;

/// Publishers of the record on `/persist` and in `/run`.
#[derive(Debug)]
pub(crate) struct RecordFiles {
    context: AgentContext,
    /// On `/persist`. An operator may need this device to reboot although it cannot be used.
    persistent: LatePublisher<OperationRecord>,
    /// The record in `/run`, which a boot empties. If it exists, it is newer than the one on `/persist`.
    volatile: Publisher<OperationRecord>,
}

impl RecordFiles {
    /// Opens both files.
    ///
    /// # Errors
    /// `/run` cannot be used.
    pub(crate) fn open(context: &AgentContext) -> Result<Self, PublishError> {
        let volatile =
            Publisher::open(context.root(), context.name(), Persistence::Volatile, context.lock())?;
        let persistent =
            LatePublisher::open(context, "no command is accepted except `ebb reboot --without-record`");
        Ok(Self { context: context.clone(), persistent, volatile })
    }

    /// The record that is in effect: the one of this boot in `/run`, otherwise the one on `/persist`.
    pub(crate) fn get(&self) -> Option<OperationRecord> {
        let of_this_boot = |record: &&OperationRecord| record.boot_id == self.context.boot_id();
        let volatile = self.volatile.get(&TopicKey::global()).filter(of_this_boot);
        volatile.or_else(|| self.persistent.get()).cloned()
    }

    /// Writes the record to `/persist`, or to `/run` if it holds a command without a record.
    ///
    /// # Errors
    /// The file cannot be written, or `/persist` can be used only since this call.
    pub(crate) fn put(&mut self, record: &OperationRecord) -> Result<(), NotWritten> {
        let key = TopicKey::global();
        if record.is_without() {
            self.volatile.publish(&key, record)?;
            return Ok(());
        }
        self.persistent.put(Some(record).filter(|record| !record.is_empty()))?;
        if self.volatile.get(&key).is_some() {
            self.volatile.unpublish(&key)?;
        }
        Ok(())
    }
}
