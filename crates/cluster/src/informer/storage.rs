//! What is known of the volumes of the node's pods: their claims, volumes and drivers, which were read by name, and the
//! watches on VolumeAttachments and Nodes.
//!
//! A watch would show the claims and volumes of the whole cluster. What they say that a decision needs does not change: a
//! bound claim stays bound to its volume. So each is read once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drain::storage::{AttachmentView, Attachments, ClaimView, Storage};
use drain::{Moment, PodView, retry};
use futures::stream::BoxStream;

use super::shared::{SharedWatch, SharedWatches};
use super::watching::{Source, Update};
use crate::failure::ApiFailure;
use crate::storage::{named_claims, without_attachments};
use crate::store::Key;
use crate::wire::Cluster;

/// Limit of claims that are remembered after their pods have gone. Above it, claims are forgotten that no pod of the
/// node names any more and whose volume is not attached here.
const MOST_REMEMBERED: usize = 1_000;

/// Pause before a claim that is not bound, or a volume that could not be read, is read again.
const INCOMPLETE: Duration = Duration::from_secs(30);

/// The storage part of snapshots, and the watches that it comes from.
#[derive(Debug)]
pub(super) struct StorageStores {
    node: String,
    /// Claims, volumes and drivers of the pods that are or were on the node.
    known: Storage,
    /// A read was answered, or refused for long enough.
    is_read: bool,
    /// Number of reads in a row that have failed.
    failures: u32,
    /// What was not complete is read again from then on.
    again: Moment,
    attachments: Watched<AttachmentView>,
    peers: Watched<bool>,
}

/// One watch, and the refusal if it has not listed.
#[derive(Debug)]
struct Watched<V> {
    watch: Arc<SharedWatch<V>>,
    refusal: Option<ApiFailure>,
}

impl<V: PartialEq + Send + Sync + 'static> Watched<V> {
    fn of(watch: Arc<SharedWatch<V>>) -> Self {
        Self { watch, refusal: None }
    }

    /// Notes a refusal. What is known stays known: once a watch has listed, a refusal only makes it late.
    fn refuse(&mut self, failure: &ApiFailure) -> bool {
        let is_new = !self.watch.read().is_synced() && self.refusal.as_ref() != Some(failure);
        if is_new {
            self.refusal = Some(failure.clone());
        }
        is_new
    }

    /// True if the watch has listed once, or was refused for long enough.
    fn is_settled(&self) -> bool {
        self.watch.read().is_synced() || self.refusal.is_some()
    }
}

impl StorageStores {
    /// Begins the watches, or joins them if they run already.
    pub(super) fn begin(node: &str, shared: &SharedWatches, cluster: &Cluster) -> Self {
        Self {
            node: node.to_owned(),
            known: Storage::default(),
            is_read: false,
            failures: 0,
            again: Moment(0),
            attachments: Watched::of(shared.attachments(cluster)),
            peers: Watched::of(shared.peers(cluster)),
        }
    }

    pub(super) fn updates(&self) -> [BoxStream<'static, Update>; 2] {
        [self.attachments.watch.updates(Source::Attachments), self.peers.watch.updates(Source::Peers)]
    }

    /// What is known, if something has to be read by name: a claim of these pods, or its volume; and the pause before
    /// that.
    pub(super) fn to_read<'a>(
        &self,
        pods: impl IntoIterator<Item = &'a PodView>,
        now: Moment,
    ) -> Option<(Storage, Duration)> {
        let claims: BTreeMap<(&str, &str), &str> = self
            .known
            .claims
            .iter()
            .map(|claim| ((claim.namespace.as_str(), claim.name.as_str()), claim.volume.as_str()))
            .collect();
        let volumes: BTreeSet<&str> = self.known.volumes.iter().map(|volume| volume.name.as_str()).collect();
        let is_again = self.again <= now;
        let is_due = |(namespace, name): &Key| match claims.get(&(namespace.as_str(), name.as_str())) {
            None => true,
            Some(volume) => is_again && !volumes.contains(volume),
        };
        let pause = || match self.failures {
            0 => Duration::ZERO,
            failures => retry::pause(failures, None, &self.node),
        };
        named_claims(pods).iter().any(is_due).then(|| (self.known.clone(), pause()))
    }

    /// Takes over what was read by name for these pods.
    pub(super) fn learn(&mut self, read: Storage, now: Moment) {
        let key = |claim: &ClaimView| (claim.namespace.clone(), claim.name.clone());
        let mut claims: BTreeMap<Key, ClaimView> =
            std::mem::take(&mut self.known.claims).into_iter().map(|claim| (key(&claim), claim)).collect();
        claims.extend(read.claims.into_iter().map(|claim| (key(&claim), claim)));
        self.known.claims = claims.into_values().collect();
        self.known.volumes.extend(read.volumes);
        self.known.volumes.sort_by(|a, b| a.name.cmp(&b.name));
        self.known.volumes.dedup_by(|a, b| a.name == b.name);
        self.known.drivers_without_attach.extend(read.drivers_without_attach);
        self.known.drivers_without_attach.sort();
        self.known.drivers_without_attach.dedup();
        self.known.claims_unreadable = None;
        (self.is_read, self.failures, self.again) = (true, 0, now + INCOMPLETE);
    }

    /// Notes that a read by name has failed.
    pub(super) fn note_failure(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes that the objects of this watch have changed: it has listed, whatever was refused before.
    pub(super) fn note_change(&mut self, source: Source) {
        match source {
            Source::Attachments => self.attachments.refusal = None,
            Source::Peers => self.peers.refusal = None,
            Source::Node | Source::Pods | Source::Budgets | Source::Claims => {}
        }
    }

    /// Notes that the server has refused this for long enough. True if that changes the content.
    pub(super) fn refuse(&mut self, source: Source, failure: &ApiFailure) -> bool {
        match source {
            // What is known stays known: a pod whose claims are not known is not evicted.
            Source::Claims if self.is_read && self.known.claims_unreadable.is_none() => false,
            Source::Claims => {
                let text = Some(failure.text().to_owned());
                self.is_read = true;
                std::mem::replace(&mut self.known.claims_unreadable, text.clone()) != text
            }
            Source::Attachments => self.attachments.refuse(failure),
            Source::Peers => self.peers.refuse(failure),
            Source::Node | Source::Pods | Source::Budgets => false,
        }
    }

    /// True once claims and attachments were each read or refused for long enough. Nodes are not waited for: whether
    /// another one takes pods only decides whether a volume is waited for there.
    pub(super) fn is_settled(&self) -> bool {
        self.is_read && self.attachments.is_settled()
    }

    /// The storage part of a snapshot, for these pods and those that were here before.
    pub(super) fn view(&mut self, pods: &[PodView]) -> Storage {
        self.forget(pods, MOST_REMEMBERED);
        Storage {
            attachments: self.attachments(),
            peer_takes_pods: self.peer_takes_pods(),
            ..self.known.clone()
        }
    }

    /// The attachments to this node, and to any node those of volumes that its pods use or have used.
    fn attachments(&self) -> Attachments {
        if let Some(failure) = &self.attachments.refusal {
            return without_attachments(failure);
        }
        let used: BTreeSet<&str> = self.known.claims.iter().map(|claim| claim.volume.as_str()).collect();
        let is_used = |volume: &String| used.contains(volume.as_str());
        let is_wanted = |attachment: &&AttachmentView| {
            attachment.node == self.node || attachment.volume.as_ref().is_some_and(is_used)
        };
        Attachments::Listed(self.attachments.watch.read().objects().filter(is_wanted).cloned().collect())
    }

    fn peer_takes_pods(&self) -> Option<bool> {
        let peers = self.peers.watch.read();
        peers.is_synced().then(|| peers.keys_of(&true).any(|(_, name)| *name != self.node))
    }

    /// Forgets what is not in use any more, if it is too much.
    fn forget(&mut self, pods: &[PodView], most: usize) {
        if self.known.claims.len().max(self.known.volumes.len()) <= most {
            return;
        }
        let named = named_claims(pods);
        let attachments = self.attachments.watch.read();
        let here = attachments.objects().filter(|attachment| attachment.node == self.node);
        let attached: BTreeSet<&str> = here.filter_map(|attachment| attachment.volume.as_deref()).collect();
        self.known.claims.retain(|claim| {
            let key = (claim.namespace.clone(), claim.name.clone());
            named.contains(&key) || attached.contains(claim.volume.as_str())
        });
        let bound: BTreeSet<&str> = self.known.claims.iter().map(|claim| claim.volume.as_str()).collect();
        self.known.volumes.retain(|volume| bound.contains(volume.name.as_str()));
    }
}

#[cfg(test)]
mod tests;
