//! An agent's record on `/persist`, which may not be usable when the agent starts.

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use schemas::Topic;
use thiserror::Error;

use crate::{AgentContext, error_chain};

/// A publisher of one persistent item that is opened later if `/persist` cannot be used at the start: an agent that ended
/// instead would be started again and again, and could say nothing.
#[derive(Debug)]
pub struct LatePublisher<T: Topic> {
    context: AgentContext,
    /// None while `/persist` cannot be opened.
    publisher: Option<Publisher<T>>,
}

/// Why the item was not written.
#[derive(Debug, Error)]
pub enum NotWritten {
    /// The file cannot be written.
    #[error(transparent)]
    Failed(#[from] PublishError),
    /// The item on disk may be newer than what was to be written: resume from it.
    #[error("the record on /persist could be opened again: {0} reads it and goes on from there")]
    IsBack(String),
}

impl<T: Topic> LatePublisher<T> {
    /// Opens the publisher if `/persist` can be used. Otherwise logs the reason, and what it means for the agent.
    pub fn open(context: &AgentContext, meaning: &str) -> Self {
        let publisher = open(context);
        if let Err(error) = &publisher {
            tracing::error!("{}; {meaning}", error_chain(error));
        }
        Self { context: context.clone(), publisher: publisher.ok() }
    }

    /// The item; None also while `/persist` cannot be used.
    pub fn get(&self) -> Option<&T> {
        self.publisher.as_ref()?.get(&TopicKey::global())
    }

    /// Writes the item, or removes it.
    ///
    /// # Errors
    /// The file cannot be written, or `/persist` can be used only since this call.
    pub fn put(&mut self, item: Option<&T>) -> Result<(), NotWritten> {
        let Some(publisher) = &mut self.publisher else {
            self.publisher = Some(open(&self.context)?);
            return Err(NotWritten::IsBack(self.context.name().to_owned()));
        };
        let key = TopicKey::global();
        match item {
            Some(item) => drop(publisher.publish(&key, item)?),
            None => drop(publisher.unpublish(&key)?),
        }
        Ok(())
    }
}

fn open<T: Topic>(context: &AgentContext) -> Result<Publisher<T>, PublishError> {
    Publisher::open(context.root(), context.name(), Persistence::Persistent, context.lock())
}
