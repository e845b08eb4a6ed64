//! What was known of the cluster before this start: whether this device is a member, whether others have slots, and which
//! node may still carry our cordon or slot.

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use runtime::{AgentContext, error_chain};
use schemas::{KnownHolders, Member, Membership, OtherHolders, OwnCordon, SCHEMA_VERSION, Topic, agent};
use session::state::Remembered;

/// What is kept over a boot: `global.json` of the topics Membership, KnownHolders and OwnCordon in
/// `ROOT/persist/status/zedkube`.
#[derive(Debug)]
pub(crate) struct Stored {
    membership: Kept<Membership>,
    holders: Kept<KnownHolders>,
    cordon: Kept<OwnCordon>,
}

impl Stored {
    /// Opens it, with what was stored.
    pub(crate) fn open(context: &AgentContext) -> Result<Self, PublishError> {
        Ok(Self {
            membership: Kept::open(context)?,
            holders: Kept::open(context)?,
            cordon: Kept::open(context)?,
        })
    }

    /// What was stored; unknown if nothing was.
    pub(crate) fn member(&self) -> Member {
        self.membership.get().map(|stored| stored.member).unwrap_or_default()
    }

    /// What was stored; unknown if nothing was.
    pub(crate) fn others(&self) -> OtherHolders {
        self.holders.get().map(|stored| stored.others).unwrap_or_default()
    }

    /// A membership was stored, or may have been: nobody could look.
    pub(crate) fn exists(&self) -> bool {
        self.membership.topic.is_none() || self.membership.get().is_some()
    }

    /// The node that may still carry our cordon or slot.
    pub(crate) fn remembered(&self) -> Option<Remembered> {
        let stored = self.cordon.get()?;
        (!stored.node.is_empty())
            .then(|| Remembered { node: stored.node.clone(), node_uid: stored.node_uid.clone() })
    }

    /// Stores the node that may still carry our cordon or slot if it differs; no node is no item.
    pub(crate) fn store_cordon(&mut self, remembered: Option<&Remembered>) -> Result<(), PublishError> {
        if self.remembered().as_ref() == remembered {
            return Ok(());
        }
        match remembered {
            Some(Remembered { node, node_uid }) => self.cordon.publish(&OwnCordon {
                schema_version: SCHEMA_VERSION,
                node: node.clone(),
                node_uid: node_uid.clone(),
            }),
            None => self.cordon.unpublish(),
        }
    }

    /// Stores what differs of the membership and of other holders.
    pub(crate) fn store(&mut self, member: Member, others: OtherHolders) -> Result<(), PublishError> {
        if member != self.member() || self.membership.get().is_none() {
            self.membership.publish(&Membership { schema_version: SCHEMA_VERSION, member })?;
        }
        if others != self.others() {
            self.holders.publish(&KnownHolders { schema_version: SCHEMA_VERSION, others })?;
        }
        Ok(())
    }
}

/// One topic that is kept.
#[derive(Debug)]
struct Kept<T> {
    context: AgentContext,
    /// Nothing while the disk does not let us in: what is kept is for the next boot, and this one can do without.
    topic: Option<Publisher<T>>,
}

impl<T: Topic> Kept<T> {
    fn open(context: &AgentContext) -> Result<Self, PublishError> {
        let topic = match Self::publisher(context) {
            Ok(topic) => Some(topic),
            Err(error @ PublishError::Store { .. }) => {
                tracing::error!("what was stored of {} cannot be read: {}", T::NAME, error_chain(&error));
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self { context: context.clone(), topic })
    }

    fn publisher(context: &AgentContext) -> Result<Publisher<T>, PublishError> {
        Publisher::open(context.root(), agent::ZEDKUBE, Persistence::Persistent, context.lock())
    }

    fn get(&self) -> Option<&T> {
        self.topic.as_ref()?.get(&TopicKey::global())
    }

    fn publish(&mut self, value: &T) -> Result<(), PublishError> {
        self.opened()?.publish(&TopicKey::global(), value).map(|_| ())
    }

    fn unpublish(&mut self) -> Result<(), PublishError> {
        self.opened()?.unpublish(&TopicKey::global()).map(|_| ())
    }

    /// Opens it now where it could not be opened before.
    fn opened(&mut self) -> Result<&mut Publisher<T>, PublishError> {
        let topic = match self.topic.take() {
            Some(topic) => topic,
            None => Self::publisher(&self.context)?,
        };
        Ok(self.topic.insert(topic))
    }
}
