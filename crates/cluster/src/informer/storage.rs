//! Store of all objects that the watches have shown about volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drain::PodView;
use drain::storage::{AttachmentView, Attachments, ClaimView, Storage, VolumeView};
use futures::stream::BoxStream;

use super::shared::{SharedWatch, SharedWatches};
use super::watching::{Source, Update};
use crate::failure::ApiFailure;
use crate::storage::{named_claims, without_attachments};
use crate::store::{Key, Store};
use crate::wire::Cluster;

/// Limit of claims that are remembered after their pods have gone. Above it, claims are forgotten that no pod of the
/// node names any more and whose volume is not attached here.
const MOST_REMEMBERED: usize = 1_000;

/// The five watches of storage, and the objects that pods of the node have used since the watches began.
#[derive(Debug)]
pub(super) struct StorageStores {
    node: String,
    claims: Watched<ClaimView>,
    volumes: Watched<VolumeView>,
    attachments: Watched<AttachmentView>,
    drivers: Watched<bool>,
    peers: Watched<bool>,
    used: Used,
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
            claims: Watched::of(shared.claims(cluster)),
            volumes: Watched::of(shared.volumes(cluster)),
            attachments: Watched::of(shared.attachments(cluster)),
            drivers: Watched::of(shared.drivers(cluster)),
            peers: Watched::of(shared.peers(cluster)),
            used: Used::default(),
        }
    }

    pub(super) fn updates(&self) -> [BoxStream<'static, Update>; 5] {
        [
            self.claims.watch.updates(Source::Claims),
            self.volumes.watch.updates(Source::Volumes),
            self.attachments.watch.updates(Source::Attachments),
            self.drivers.watch.updates(Source::Drivers),
            self.peers.watch.updates(Source::Peers),
        ]
    }

    /// Notes that the objects of this watch have changed: it has listed, whatever was refused before.
    pub(super) fn note_change(&mut self, source: Source) {
        match source {
            Source::Claims => self.claims.refusal = None,
            Source::Volumes => self.volumes.refusal = None,
            Source::Attachments => self.attachments.refusal = None,
            Source::Drivers => self.drivers.refusal = None,
            Source::Peers => self.peers.refusal = None,
            Source::Node | Source::Pods | Source::Budgets => {}
        }
    }

    /// Notes that the server has refused this watch for long enough. True if that changes the content.
    pub(super) fn refuse(&mut self, source: Source, failure: &ApiFailure) -> bool {
        match source {
            Source::Claims => self.claims.refuse(failure),
            Source::Volumes => self.volumes.refuse(failure),
            Source::Attachments => self.attachments.refuse(failure),
            Source::Drivers => self.drivers.refuse(failure),
            Source::Peers => self.peers.refuse(failure),
            Source::Node | Source::Pods | Source::Budgets => false,
        }
    }

    /// True once claims, volumes and attachments have each been listed or refused for long enough. The other two are not
    /// waited for: an unknown driver counts as one that attaches, and whether another node takes pods only decides
    /// whether a volume is waited for there.
    pub(super) fn is_settled(&self) -> bool {
        self.claims.is_settled() && self.volumes.is_settled() && self.attachments.is_settled()
    }

    /// The storage part of a snapshot, for these pods and those that were here before.
    pub(super) fn view(&mut self, pods: &[PodView]) -> Storage {
        self.used.see(pods, &self.claims.watch.read(), &self.volumes.watch.read());
        self.used.forget(pods, &self.node, self.attachments.watch.read().objects(), MOST_REMEMBERED);
        Storage {
            claims_unreadable: self.claims.refusal.as_ref().map(|failure| failure.text().to_owned()),
            claims: self.claims(),
            volumes: self.used.volumes.values().flatten().cloned().collect(),
            drivers_without_attach: self
                .drivers
                .watch
                .read()
                .keys_of(&true)
                .map(|(_, name)| name.clone())
                .collect(),
            attachments: self.attachments(),
            missing_volumes: Vec::new(),
            peer_takes_pods: self.peer_takes_pods(),
        }
    }

    /// The claims that pods name or have named; a claim that was never seen counts as not bound.
    fn claims(&self) -> Vec<ClaimView> {
        let is_listed = self.claims.watch.read().is_synced();
        let missing = |(namespace, name): &Key| ClaimView {
            namespace: namespace.clone(),
            name: name.clone(),
            ..ClaimView::default()
        };
        let view = |(key, claim): (&Key, &Option<ClaimView>)| {
            claim.clone().or_else(|| is_listed.then(|| missing(key)))
        };
        self.used.claims.iter().filter_map(view).collect()
    }

    /// The attachments to this node, and to any node those of volumes that its pods use or have used.
    fn attachments(&self) -> Attachments {
        if let Some(failure) = &self.attachments.refusal {
            return without_attachments(failure);
        }
        let is_used = |volume: &String| self.used.volumes.contains_key(volume);
        let is_wanted = |attachment: &&AttachmentView| {
            attachment.node == self.node || attachment.volume.as_ref().is_some_and(is_used)
        };
        Attachments::Listed(self.attachments.watch.read().objects().filter(is_wanted).cloned().collect())
    }

    fn peer_takes_pods(&self) -> Option<bool> {
        let peers = self.peers.watch.read();
        peers.is_synced().then(|| peers.keys_of(&true).any(|(_, name)| *name != self.node))
    }
}

/// Objects that pods of the node name or have named, in their present or last known state. Watches are not
/// synchronized, so a claim may seem gone while its pod is still there.
#[derive(Debug, Default)]
struct Used {
    /// `None` if the claim was never seen.
    claims: BTreeMap<Key, Option<ClaimView>>,
    volumes: BTreeMap<String, Option<VolumeView>>,
}

impl Used {
    fn see(&mut self, pods: &[PodView], claims: &Store<ClaimView>, volumes: &Store<VolumeView>) {
        for key in named_claims(pods) {
            self.claims.entry(key).or_default();
        }
        for (key, known) in &mut self.claims {
            refresh(known, claims.get(key));
            let volume = known.as_ref().map(|claim| claim.volume.as_str()).filter(|name| !name.is_empty());
            if let Some(volume) = volume
                && !self.volumes.contains_key(volume)
            {
                self.volumes.insert(volume.to_owned(), None);
            }
        }
        for (name, known) in &mut self.volumes {
            refresh(known, volumes.get(&(String::new(), name.clone())));
        }
    }

    /// Forgets objects that are not in use any more, if there are too many.
    fn forget<'a>(
        &mut self,
        pods: &[PodView],
        node: &str,
        attachments: impl Iterator<Item = &'a AttachmentView>,
        most: usize,
    ) {
        if self.claims.len().max(self.volumes.len()) <= most {
            return;
        }
        let named = named_claims(pods);
        let here = attachments.filter(|attachment| attachment.node == node);
        let attached: BTreeSet<&str> = here.filter_map(|attachment| attachment.volume.as_deref()).collect();
        let is_attached = |volume: &str| attached.contains(volume);
        self.claims.retain(|key, claim| {
            named.contains(key) || claim.as_ref().is_some_and(|claim| is_attached(&claim.volume))
        });
        let bound: BTreeSet<&str> =
            self.claims.values().flatten().map(|claim| claim.volume.as_str()).collect();
        self.volumes.retain(|name, _| is_attached(name) || bound.contains(name.as_str()));
    }
}

/// Keeps the newest object that was seen.
fn refresh<V: Clone + PartialEq>(known: &mut Option<V>, seen: Option<&V>) {
    if let Some(seen) = seen
        && known.as_ref() != Some(seen)
    {
        *known = Some(seen.clone());
    }
}

#[cfg(test)]
mod tests;
