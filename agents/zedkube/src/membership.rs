//! What was known of the cluster before this start: whether this device is a member, and whether others have slots.

use pubsub::{AgentLock, Persistence, PublishError, Publisher, Root, TopicKey};
use schemas::{KnownHolders, Membership, OtherHolders, SCHEMA_VERSION, agent};
use session::Member;
use session::slots::Others;

use crate::report::member_of;

/// What is kept over a boot: `global.json` of the topics Membership and KnownHolders in `ROOT/persist/status/zedkube`.
#[derive(Debug)]
pub(crate) struct Stored {
    membership: Publisher<Membership>,
    holders: Publisher<KnownHolders>,
}

impl Stored {
    /// Opens it, with what was stored.
    pub(crate) fn open(root: &Root, lock: &AgentLock) -> Result<Self, PublishError> {
        let membership = Publisher::open(root, agent::ZEDKUBE, Persistence::Persistent, lock)?;
        let holders = Publisher::open(root, agent::ZEDKUBE, Persistence::Persistent, lock)?;
        Ok(Self { membership, holders })
    }

    /// What was stored; unknown if nothing was.
    pub(crate) fn member(&self) -> Member {
        match self.membership.get(&TopicKey::global()).map(|stored| stored.member) {
            Some(schemas::Member::Yes) => Member::Yes,
            Some(schemas::Member::No) => Member::No,
            Some(schemas::Member::Unknown) | None => Member::Unknown,
        }
    }

    /// What was stored; unknown if nothing was.
    pub(crate) fn others(&self) -> Others {
        self.holders.get(&TopicKey::global()).map_or(Others::Unknown, |stored| others(stored.others))
    }

    /// A membership was stored.
    pub(crate) fn exists(&self) -> bool {
        self.membership.get(&TopicKey::global()).is_some()
    }

    /// Stores what differs.
    pub(crate) fn store(&mut self, member: Member, others: Others) -> Result<(), PublishError> {
        let key = TopicKey::global();
        if member != self.member() || !self.exists() {
            let value = Membership { schema_version: SCHEMA_VERSION, member: member_of(member) };
            self.membership.publish(&key, &value)?;
        }
        if others != self.others() {
            let value = KnownHolders { schema_version: SCHEMA_VERSION, others: others_of(others) };
            self.holders.publish(&key, &value)?;
        }
        Ok(())
    }
}

/// What is known of other holders, in the words of the wire.
pub(crate) fn others_of(others: Others) -> OtherHolders {
    match others {
        Others::Unknown => OtherHolders::Unknown,
        Others::Nobody => OtherHolders::Nobody,
        Others::Hold => OtherHolders::Hold,
    }
}

/// The same, from the words of the wire.
pub(crate) fn others(stored: OtherHolders) -> Others {
    match stored {
        OtherHolders::Unknown => Others::Unknown,
        OtherHolders::Nobody => Others::Nobody,
        OtherHolders::Hold => Others::Hold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_there_after_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
        let open = || Stored::open(&root, &lock).unwrap();
        assert_eq!(
            (open().member(), open().others(), open().exists()),
            (Member::Unknown, Others::Unknown, false)
        );
        for (member, others) in
            [(Member::Yes, Others::Hold), (Member::Yes, Others::Nobody), (Member::No, Others::Unknown)]
        {
            open().store(member, others).unwrap();
            assert_eq!((open().member(), open().others(), open().exists()), (member, others, true));
        }
    }
}
