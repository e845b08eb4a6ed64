//! What zedkube keeps about the cluster over a boot: whether this device is a member, whether other nodes had slots, and
//! which node may still carry our cordon or slot.

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use runtime::{AgentContext, error_chain};
use schemas::{KnownHolders, Member, Membership, OwnCordon, SCHEMA_VERSION, Topic, agent};
use session::state::Remembered;

/// The stored values: `global.json` of the topics Membership, KnownHolders and OwnCordon in
/// `ROOT/persist/status/zedkube`.
#[derive(Debug)]
pub(crate) struct Stored {
    membership: Kept<Membership>,
    holders: Kept<KnownHolders>,
    cordon: Kept<OwnCordon>,
}

impl Stored {
    /// Opens the three topics and reads them.
    pub(crate) fn open(context: &AgentContext) -> Result<Self, PublishError> {
        Ok(Self {
            membership: Kept::open(context)?,
            holders: Kept::open(context)?,
            cordon: Kept::open(context)?,
        })
    }

    /// The stored membership; unknown if none was stored.
    pub(crate) fn member(&self) -> Member {
        self.membership.get().map(|stored| stored.member).unwrap_or_default()
    }

    /// Which other nodes had slots; unknown if nothing was stored.
    pub(crate) fn holders(&self) -> KnownHolders {
        self.holders.get().cloned().unwrap_or_default()
    }

    /// True if a membership was stored, or may have been because the disk cannot be read.
    pub(crate) fn exists(&self) -> bool {
        self.membership.topic.is_none() || self.membership.get().is_some()
    }

    /// The node that may still carry our cordon or slot.
    pub(crate) fn remembered(&self) -> Option<Remembered> {
        let OwnCordon { node, node_uid, cluster_uid, .. } = self.cordon.get()?.clone();
        let cluster = Some(cluster_uid).filter(|uid| !uid.is_empty());
        (!node.is_empty()).then_some(Remembered { node, node_uid, cluster })
    }

    /// Stores the node that may still carry our cordon or slot, if it differs; without a node the item is removed.
    pub(crate) fn store_cordon(&mut self, remembered: Option<&Remembered>) -> Result<(), PublishError> {
        if self.remembered().as_ref() == remembered {
            return Ok(());
        }
        match remembered {
            Some(Remembered { node, node_uid, cluster }) => self.cordon.publish(&OwnCordon {
                schema_version: SCHEMA_VERSION,
                node: node.clone(),
                node_uid: node_uid.clone(),
                cluster_uid: cluster.clone().unwrap_or_default(),
            }),
            None => self.cordon.unpublish(),
        }
    }

    /// True if a person has removed the file of the node that may still carry our cordon or slot.
    pub(crate) fn is_cordon_forgotten(&mut self) -> bool {
        self.cordon.was_removed()
    }

    /// True if a person has removed the file of the other holders.
    pub(crate) fn are_holders_forgotten(&mut self) -> bool {
        self.holders.was_removed()
    }

    /// Stores the membership and the other holders, if they differ. Every renewal of an entry changes the version of the
    /// table; that alone is not worth a write.
    pub(crate) fn store(&mut self, member: Member, known: KnownHolders) -> Result<(), PublishError> {
        if member != self.member() || self.membership.get().is_none() {
            self.membership.publish(&Membership { schema_version: SCHEMA_VERSION, member })?;
        }
        let stored = self.holders();
        let (schema_version, table_version) = (stored.schema_version, stored.table_version.clone());
        if (KnownHolders { schema_version, table_version, ..known.clone() }) != stored {
            self.holders.publish(&KnownHolders { schema_version: SCHEMA_VERSION, ..known })?;
        }
        Ok(())
    }
}

/// One stored topic.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    context: AgentContext,
    /// `None` while the disk cannot be used: the values are for the next boot, and this boot can go on without them.
    topic: Option<Publisher<T>>,
}

impl<T: Topic> Kept<T> {
    pub(crate) fn open(context: &AgentContext) -> Result<Self, PublishError> {
        let topic = match Self::publisher(context) {
            Ok(topic) => Some(topic),
            Err(error @ PublishError::Store { .. }) => {
                tracing::error!("the stored {} cannot be read: {}", T::NAME, error_chain(&error));
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self { context: context.clone(), topic })
    }

    fn publisher(context: &AgentContext) -> Result<Publisher<T>, PublishError> {
        Publisher::open(context.root(), agent::ZEDKUBE, Persistence::Persistent, context.lock())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.topic.as_ref()?.get(&TopicKey::global())
    }

    pub(crate) fn publish(&mut self, value: &T) -> Result<(), PublishError> {
        self.opened()?.publish(&TopicKey::global(), value).map(|_| ())
    }

    pub(crate) fn unpublish(&mut self) -> Result<(), PublishError> {
        self.opened()?.unpublish(&TopicKey::global()).map(|_| ())
    }

    /// True, once, if a person has removed the item.
    fn was_removed(&mut self) -> bool {
        let was_removed = self.topic.as_ref().is_some_and(|topic| topic.was_removed(&TopicKey::global()));
        was_removed && self.unpublish().is_ok()
    }

    /// The open topic; opens it now if that failed before.
    fn opened(&mut self) -> Result<&mut Publisher<T>, PublishError> {
        let topic = match self.topic.take() {
            Some(topic) => topic,
            None => Self::publisher(&self.context)?,
        };
        Ok(self.topic.insert(topic))
    }
}
