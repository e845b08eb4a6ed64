//! The two files of the record: on `/persist`, and in `/run` alone for a command without a record.

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use runtime::{AgentContext, error_chain};

use crate::record::OperationRecord;

/// Publishers of the record on `/persist` and in `/run`.
#[derive(Debug)]
pub(crate) struct RecordFiles {
    context: AgentContext,
    /// None while `/persist` cannot be opened.
    persistent: Option<Publisher<OperationRecord>>,
    /// The record in `/run`, which a boot empties. If it exists, it is newer than the one on `/persist`.
    volatile: Publisher<OperationRecord>,
}

impl RecordFiles {
    /// Opens both files. A `/persist` that cannot be opened is no error: it is opened later, because an operator may
    /// need this device to reboot all the same.
    ///
    /// # Errors
    /// `/run` cannot be used.
    pub(crate) fn open(context: &AgentContext) -> Result<Self, PublishError> {
        let volatile =
            Publisher::open(context.root(), context.name(), Persistence::Volatile, context.lock())?;
        let persistent = open_persistent(context);
        if let Err(error) = &persistent {
            tracing::error!(
                "{}; no command is accepted except `ebb reboot --without-record`",
                error_chain(error)
            );
        }
        Ok(Self { context: context.clone(), persistent: persistent.ok(), volatile })
    }

    /// The record that is in effect: the one of this boot in `/run`, otherwise the one on `/persist`.
    pub(crate) fn get(&self) -> Option<OperationRecord> {
        let key = TopicKey::global();
        let of_this_boot = |record: &&OperationRecord| record.boot_id == self.context.boot_id();
        let volatile = self.volatile.get(&key).filter(of_this_boot);
        volatile.or_else(|| self.persistent.as_ref()?.get(&key)).cloned()
    }

    /// Writes the record to `/persist`, or to `/run` if it holds a command without a record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn put(&mut self, record: &OperationRecord) -> Result<(), PublishError> {
        let key = TopicKey::global();
        if record.is_without() {
            self.volatile.publish(&key, record)?;
            return Ok(());
        }
        let Some(persistent) = &mut self.persistent else {
            // The record on disk may be newer than the caller's: the caller must resume from it.
            self.persistent = Some(open_persistent(&self.context)?);
            return Ok(());
        };
        if record.is_empty() {
            persistent.unpublish(&key)?;
        } else {
            persistent.publish(&key, record)?;
        }
        if self.volatile.get(&key).is_some() {
            self.volatile.unpublish(&key)?;
        }
        Ok(())
    }

    /// True once `/persist` was opened, so that the record on it is known.
    pub(crate) const fn is_known(&self) -> bool {
        self.persistent.is_some()
    }
}

fn open_persistent(context: &AgentContext) -> Result<Publisher<OperationRecord>, PublishError> {
    Publisher::open(context.root(), context.name(), Persistence::Persistent, context.lock())
}
