//! Cordons and uncordons our node, one write after the other.
//!
//! One task carries the writes out in their order and never gives one up half-way: an uncordon that overtook a cordon
//! would leave the cordon behind.

use std::sync::{Arc, Mutex, PoisonError};

use cluster::ApiFailure;
use cluster::cordon::{
    CordonFailure, Cordoned, PriorCordon, Uncordoned, adopt, cordon_in_group, mark_without_slot, uncordon,
};
use drain::cordon::Ownerless;
use session::event::CallError;
use session::{Event, OWNER};
use tokio::sync::mpsc;

use crate::link::{Link, call_error};

/// Capacity of the queue. The session never has more than a cordon and an uncordon waiting.
const QUEUE: usize = 16;

/// A write to our own Node.
#[derive(Debug)]
pub(crate) enum Write {
    /// Cordon the node.
    Cordon {
        /// The event that answers this write carries the same serial.
        serial: u32,
        /// Name of the node.
        node: String,
        /// The text for annotation `ebb.dev/cordon-reason`.
        reason: String,
    },
    /// Remove our cordon.
    Uncordon {
        /// The event that answers this write carries the same serial.
        serial: u32,
        /// Name of the node.
        node: String,
    },
    /// Mark the node's cordon as ours.
    Adopt {
        /// The event that answers this write carries the same serial.
        serial: u32,
        /// Name of the node.
        node: String,
        /// Whose the cordon is taken to be.
        whose: Ownerless,
    },
    /// Mark our cordon of the node as one that takes no slot.
    MarkWithoutSlot {
        /// The event that answers this write carries the same serial.
        serial: u32,
        /// Name of the node.
        node: String,
    },
}

/// Handle of the task that writes.
#[derive(Clone, Debug)]
pub(crate) struct NodeWrites {
    queue: mpsc::Sender<Write>,
    proof: Arc<Mutex<Option<Cordoned>>>,
}

impl NodeWrites {
    /// Starts the task; its answers go to `events`. The task ends when the last handle is dropped. `slots_group` is
    /// [`session::Policy::slots_group`].
    pub(crate) fn start(link: Link, slots_group: Option<String>, events: mpsc::Sender<Event>) -> Self {
        let (queue, mut writes) = mpsc::channel(QUEUE);
        let proof = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&proof);
        tokio::spawn(async move {
            while let Some(write) = writes.recv().await {
                let event = carry_out(&link, slots_group.as_deref(), write, &kept).await;
                if events.send(event).await.is_err() {
                    return;
                }
            }
        });
        Self { queue, proof }
    }

    /// Queues a write.
    pub(crate) fn send(&self, write: Write) {
        if let Err(error) = self.queue.try_send(write) {
            // The session has at most one write of each kind in flight, so the queue cannot be full.
            tracing::error!("cannot queue a write to the node: {error}");
        }
    }

    /// The proof that evictions need: the node is cordoned, by us or by another party. `None` if that is not known.
    pub(crate) fn proof(&self) -> Option<Cordoned> {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn carry_out(
    link: &Link,
    slots_group: Option<&str>,
    write: Write,
    kept: &Mutex<Option<Cordoned>>,
) -> Event {
    let keep = |proof| *kept.lock().unwrap_or_else(PoisonError::into_inner) = proof;
    match write {
        Write::Cordon { serial, node, reason } => {
            tracing::info!("cordonNode: cordoning {node}: {reason}");
            let result = try_cordon(link, &node, &reason, slots_group).await;
            keep(result.as_ref().ok().cloned());
            let result = result
                .map(|proof| session::event::Cordoned {
                    node: proof.node().clone(),
                    before: proof.before() == PriorCordon::Foreign,
                })
                .inspect_err(|call_error| tracing::warn!("cordonNode: {call_error:?}"));
            Event::Cordoned { serial, result }
        }
        Write::Uncordon { serial, node } => {
            keep(None);
            let result = told(try_uncordon(link, &node).await);
            match &result {
                Ok(Uncordoned::StaysCordoned) => tracing::warn!(
                    "cordonNode: {node} stays cordoned: annotation ebb.dev/keep-cordoned is on it, or somebody has \
                     cordoned it after us"
                ),
                Ok(Uncordoned::NotOurs) => tracing::info!("cordonNode: {node} has no cordon of ours"),
                Ok(_) => tracing::info!("cordonNode: {node} is not cordoned by us any more"),
                Err(error) => tracing::warn!("cordonNode: cannot uncordon {node}: {error}"),
            }
            Event::Uncordoned { serial, result: result.map(drop) }
        }
        Write::Adopt { serial, node, whose } => {
            let result = told(try_adopt(link, &node, whose).await);
            match &result {
                Ok(true) => tracing::warn!(
                    "cordonNode: the cordon on {node} had no annotation that says whose it is, and is marked as ours now"
                ),
                Ok(false) => tracing::warn!(
                    "cordonNode: {node} has no cordon of ours: if it is cordoned, that is somebody else's, and stays"
                ),
                Err(error) => tracing::warn!("cordonNode: cannot adopt the cordon on {node}: {error}"),
            }
            Event::Adopted { serial, result }
        }
        Write::MarkWithoutSlot { serial, node } => {
            let result = told(try_mark_without_slot(link, &node).await);
            match &result {
                Ok(()) => tracing::info!(
                    "cordonNode: {node} stays cordoned, and its cordon takes no slot: other nodes may go down beside \
                     it"
                ),
                Err(error) => tracing::warn!("cordonNode: the cordon of {node} still takes a slot: {error}"),
            }
            Event::MarkedWithoutSlot { serial, result }
        }
    }
}

async fn try_cordon(
    link: &Link,
    node: &str,
    reason: &str,
    slots_group: Option<&str>,
) -> Result<Cordoned, CallError> {
    let (cluster, _) = link.cluster().await.map_err(|failure| call_error(&failure))?;
    let cordoned = cordon_in_group(&cluster, node, OWNER, reason, slots_group).await;
    cordoned.map_err(|failure| match failure {
        CordonFailure::Api(failure) => call_error(&failure),
        gone @ CordonFailure::NodeGone { .. } => CallError::Other(gone.to_string()),
    })
}

async fn try_uncordon(link: &Link, node: &str) -> Result<Uncordoned, ApiFailure> {
    uncordon(&link.cluster().await?.0, node, OWNER).await
}

async fn try_mark_without_slot(link: &Link, node: &str) -> Result<(), ApiFailure> {
    mark_without_slot(&link.cluster().await?.0, node, OWNER).await
}

async fn try_adopt(link: &Link, node: &str, whose: Ownerless) -> Result<bool, ApiFailure> {
    let reason = match whose {
        Ownerless::Eves => "EVE's zedkube drained this node for the update to ours",
        Ownerless::Ours => "zedkube has cordoned this node; its annotation was removed",
    };
    adopt(&link.cluster().await?.0, node, OWNER, reason, whose).await
}

/// The result, with the text of its failure.
fn told<T>(result: Result<T, ApiFailure>) -> Result<T, String> {
    result.map_err(|failure| failure.text().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_cluster::{Effect, FakeCluster, Fault};
    use pubsub::Root;
    use runtime::Settings;
    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn an_uncordon_waits_for_the_cordon_before_it() {
        let fake = FakeCluster::start().unwrap();
        fake.node("edge-a").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        std::fs::write(&path, fake.kubeconfig()).unwrap();
        let mut settings = Settings::default();
        settings.cluster.kubeconfig = Some(path);
        let link = Link::new(&Root::new(folder.path()), &settings);
        let (events, mut answers) = mpsc::channel(8);
        let (go, held) = watch::channel(false);
        fake.faults().add(Fault::on("patch", "nodes", Effect::Until(held)));

        let writes = NodeWrites::start(link.clone(), None, events);
        let node = || "edge-a".to_owned();
        writes.send(Write::Cordon { serial: 1, node: node(), reason: String::new() });
        while fake.requests().in_flight("patch", "nodes") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        writes.send(Write::Uncordon { serial: 2, node: node() });
        // An uncordon that does not wait for the cordon would be sent, and answered, meanwhile.
        for _ in 0..10 {
            let (cluster, _) = link.cluster().await.unwrap();
            cluster::list_nodes(&cluster).await.unwrap();
        }
        go.send_replace(true);
        let first = answers.recv().await;
        assert!(matches!(first, Some(Event::Cordoned { serial: 1, result: Ok(_) })), "{first:?}");
        let second = answers.recv().await;
        assert!(matches!(second, Some(Event::Uncordoned { serial: 2, result: Ok(()) })), "{second:?}");
        let found = fake.get("nodes", "", "edge-a").unwrap();
        assert_ne!(found["spec"]["unschedulable"], true, "{found}");
    }
}
