//! The stored membership: what was known of it before this start.

use pubsub::{AgentLock, Persistence, PublishError, Publisher, Root, TopicKey};
use schemas::{Membership, agent};
use session::Member;

use crate::report::member_of;

/// The membership on disk, in `ROOT/persist/status/zedkube/Membership/global.json`.
#[derive(Debug)]
pub(crate) struct Stored(Publisher<Membership>);

impl Stored {
    /// Opens it, with what was stored.
    pub(crate) fn open(root: &Root, lock: &AgentLock) -> Result<Self, PublishError> {
        Publisher::open(root, agent::ZEDKUBE, Persistence::Persistent, lock).map(Self)
    }

    /// What was stored; unknown if nothing was.
    pub(crate) fn member(&self) -> Member {
        match self.0.get(&TopicKey::global()).map(|stored| stored.member) {
            Some(schemas::Member::Yes) => Member::Yes,
            Some(schemas::Member::No) => Member::No,
            Some(schemas::Member::Unknown) | None => Member::Unknown,
        }
    }

    /// Something was stored.
    pub(crate) fn exists(&self) -> bool {
        self.0.get(&TopicKey::global()).is_some()
    }

    /// Stores the membership if it differs.
    pub(crate) fn store(&mut self, member: Member) -> Result<(), PublishError> {
        if member == self.member() && self.exists() {
            return Ok(());
        }
        let value = Membership { schema_version: schemas::SCHEMA_VERSION, member: member_of(member) };
        self.0.publish(&TopicKey::global(), &value).map(|_| ())
    }
}
