//! What is stored over a boot: the membership, and the node that may still carry our cordon or slot.

use pubsub::{AgentLock, Persistence, PublishError, Publisher, Root, TopicKey};
use schemas::{Membership, OwnCordon, agent};
use session::Member;
use session::state::Remembered;

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

/// The node that may still carry our cordon or slot, in `ROOT/persist/status/zedkube/OwnCordon/global.json`.
#[derive(Debug)]
pub(crate) struct StoredCordon(Option<Publisher<OwnCordon>>);

impl StoredCordon {
    /// Opens it, with what was stored. It is for words only: without it everything else goes on.
    pub(crate) fn open(root: &Root, lock: &AgentLock) -> Self {
        let opened = Publisher::open(root, agent::ZEDKUBE, Persistence::Persistent, lock);
        let opened = opened.inspect_err(|error| {
            tracing::warn!("which node carries our cordon cannot be remembered over a boot: {error}");
        });
        Self(opened.ok())
    }

    /// What was stored.
    pub(crate) fn remembered(&self) -> Option<Remembered> {
        let stored = self.0.as_ref()?.get(&TopicKey::global())?;
        (!stored.node.is_empty())
            .then(|| Remembered { node: stored.node.clone(), node_uid: stored.node_uid.clone() })
    }

    /// Stores it if it differs; nothing remembered is no item.
    pub(crate) fn store(&mut self, remembered: Option<&Remembered>) -> Result<(), PublishError> {
        if self.remembered().as_ref() == remembered {
            return Ok(());
        }
        let Some(publisher) = &mut self.0 else { return Ok(()) };
        let key = TopicKey::global();
        match remembered {
            Some(remembered) => {
                let value = OwnCordon {
                    schema_version: schemas::SCHEMA_VERSION,
                    node: remembered.node.clone(),
                    node_uid: remembered.node_uid.clone(),
                };
                publisher.publish(&key, &value).map(drop)
            }
            None => publisher.unpublish(&key).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordon_is_remembered_over_a_boot_until_it_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
        let ours = Remembered { node: "edge-1".to_owned(), node_uid: "uid".to_owned() };
        let mut stored = StoredCordon::open(&root, &lock);
        assert_eq!(stored.remembered(), None);
        stored.store(None).unwrap();
        stored.store(Some(&ours)).unwrap();
        drop(stored);
        let mut stored = StoredCordon::open(&root, &lock);
        assert_eq!(stored.remembered(), Some(ours));
        stored.store(None).unwrap();
        assert_eq!(StoredCordon::open(&root, &lock).remembered(), None);
        let file = folder.path().join("persist/status/zedkube/OwnCordon/global.json");
        assert!(!file.exists());
    }
}
