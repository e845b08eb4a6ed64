//! Where the record is: on `/persist`, and for a command without a record in `/run` alone.

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use runtime::{AgentContext, error_chain};

use crate::record::OperationRecord;

/// The record's two places.
#[derive(Debug)]
pub(crate) struct RecordFiles {
    context: AgentContext,
    /// Nothing while `/persist` cannot even be opened.
    persistent: Option<Publisher<OperationRecord>>,
    /// Emptied by a boot. While there is one, it is the newer.
    volatile: Publisher<OperationRecord>,
}

impl RecordFiles {
    /// A `/persist` that cannot be opened is opened later: an operator may need this device to reboot all the same.
    ///
    /// # Errors
    /// `/run` cannot be used.
    pub(crate) fn open(context: &AgentContext) -> Result<Self, PublishError> {
        let volatile =
            Publisher::open(context.root(), context.name(), Persistence::Volatile, context.lock())?;
        let persistent = open_persistent(context);
        if let Err(error) = &persistent {
            tracing::error!("{}; no command is accepted but one `--without-record`", error_chain(error));
        }
        Ok(Self { context: context.clone(), persistent: persistent.ok(), volatile })
    }

    /// The record that counts.
    pub(crate) fn get(&self) -> Option<OperationRecord> {
        let key = TopicKey::global();
        let of_this_boot = |record: &&OperationRecord| record.boot_id == self.context.boot_id();
        let volatile = self.volatile.get(&key).filter(of_this_boot);
        volatile.or_else(|| self.persistent.as_ref()?.get(&key)).cloned()
    }

    /// Puts it where it belongs.
    ///
    /// # Errors
    /// The place takes nothing.
    pub(crate) fn put(&mut self, record: &OperationRecord) -> Result<(), PublishError> {
        let key = TopicKey::global();
        if record.is_without() {
            self.volatile.publish(&key, record)?;
            return Ok(());
        }
        let Some(persistent) = &mut self.persistent else {
            // What it holds may be newer than what is known here: the caller has to begin anew from it.
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

    /// `/persist` was opened: what it holds is known.
    pub(crate) const fn is_known(&self) -> bool {
        self.persistent.is_some()
    }
}

fn open_persistent(context: &AgentContext) -> Result<Publisher<OperationRecord>, PublishError> {
    Publisher::open(context.root(), context.name(), Persistence::Persistent, context.lock())
}
