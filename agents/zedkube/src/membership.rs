//! The stored membership: what was known of it before this start.

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use runtime::{AgentContext, error_chain};
use schemas::{Membership, agent};
use session::Member;

use crate::report::member_of;

/// The membership on disk, in `ROOT/persist/status/zedkube/Membership/global.json`.
#[derive(Debug)]
pub(crate) struct Stored {
    context: AgentContext,
    /// Nothing while the disk does not let us in: the membership is for the next boot, and this one can do without.
    topic: Option<Publisher<Membership>>,
}

impl Stored {
    /// Opens it, with what was stored.
    pub(crate) fn open(context: &AgentContext) -> Result<Self, PublishError> {
        let topic = match open(context) {
            Ok(topic) => Some(topic),
            Err(error @ PublishError::Store { .. }) => {
                tracing::error!("what was stored of the membership cannot be read: {}", error_chain(&error));
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self { context: context.clone(), topic })
    }

    fn stored(&self) -> Option<&Membership> {
        self.topic.as_ref()?.get(&TopicKey::global())
    }

    /// What was stored; unknown if nothing was.
    pub(crate) fn member(&self) -> Member {
        match self.stored().map(|stored| stored.member) {
            Some(schemas::Member::Yes) => Member::Yes,
            Some(schemas::Member::No) => Member::No,
            Some(schemas::Member::Unknown) | None => Member::Unknown,
        }
    }

    /// Something was stored, or may have been: nobody could look.
    pub(crate) fn exists(&self) -> bool {
        self.topic.is_none() || self.stored().is_some()
    }

    /// Stores the membership if it differs.
    pub(crate) fn store(&mut self, member: Member) -> Result<(), PublishError> {
        if self.stored().is_some() && member == self.member() {
            return Ok(());
        }
        let value = Membership { schema_version: schemas::SCHEMA_VERSION, member: member_of(member) };
        let topic = match self.topic.take() {
            Some(topic) => topic,
            None => open(&self.context)?,
        };
        self.topic.insert(topic).publish(&TopicKey::global(), &value).map(|_| ())
    }
}

fn open(context: &AgentContext) -> Result<Publisher<Membership>, PublishError> {
    Publisher::open(context.root(), agent::ZEDKUBE, Persistence::Persistent, context.lock())
}
