//! Volumes of pods that leave, and when each is detached.
//!
//! Decided by state, never by events. A volume counts as attached to a node as long as a VolumeAttachment exists or
//! `node.status.volumesAttached` has its exact name; the latter alone is emptied before the detach has even begun (M6
//! in `docs/reference/measured.md`). A device that goes down with an attached volume keeps it from its next user for
//! minutes, or for ever.
//!
//! What cannot be read proves nothing: a slow list looks like an empty one. So a pod whose claims have not been read is
//! not evicted, and a drain that will not be able to see whether its volumes are detached moves no pod.
//!
//! The final check is about the node: it lists all that is attached there, less what belongs to pods that stay. What
//! the attempt remembers does not count, because every memory of volumes was lost somewhere: in a restart, in the next
//! request, in a drain by another client.

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::plan::Planned;
use crate::policy::{OnDetachTimeout, Policy};
use crate::storage::{Attachments, Storage};
use crate::time::Moment;
use crate::view::{PodId, PodView, Snapshot};

use self::index::NodeVolume;
pub use self::index::{Attachment, PodVolume, StorageIndex};

/// A volume of pods that leave, or one without a pod that the final check found attached to the node. Other modules can
/// only read it.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeTrack {
    /// Name of the PersistentVolume. Where that is not known: the name of the VolumeAttachment, or the one in
    /// `node.status.volumesAttached`.
    pub volume: String,
    /// The CSI driver; empty if it is not known.
    pub driver: String,
    /// Its name in `node.status.volumesAttached`; `None` if only a VolumeAttachment can show it.
    attached_name: Option<String>,
    /// `namespace/name` of the claim; empty if no pod was seen with the volume.
    pub claim: String,
    /// The last pod that was seen with the volume; all fields are empty if there was none.
    pub pod: PodId,
    /// Order of the pods that use the volume; the last of all if no pod was seen with it.
    pub order: i32,
    /// Stage of the volume.
    pub stage: VolumeStage,
    /// Start of the stage.
    pub since: Moment,
    /// True if the volume was not attached to another node within the policy's time: a warning.
    pub is_late: bool,
}

impl VolumeTrack {
    /// True if the volume is still attached, and no pod here uses it.
    pub fn is_attached(&self) -> bool {
        matches!(self.stage, VolumeStage::Detaching | VolumeStage::TimedOut)
    }

    /// True if the end of the attempt and pods of a higher order wait for the volume.
    pub(crate) fn is_awaited(&self, policy: &Policy) -> bool {
        match self.stage {
            VolumeStage::Detaching => true,
            VolumeStage::TimedOut => policy.volumes.on_detach_timeout == OnDetachTimeout::Fail,
            VolumeStage::InUse | VolumeStage::Detached => false,
        }
    }

    /// Reason for which the volume is not detached, as far as the cluster shows it.
    pub(crate) fn obstacle(&self, index: &StorageIndex<'_>) -> String {
        index.obstacle(&self.volume, self.attached_name.as_deref())
    }

    /// Text: `pv-1 of shop/data, driver csi.example`; without a claim if no pod was seen with the volume.
    pub(crate) fn named(&self) -> String {
        let claim = if self.claim.is_empty() { String::new() } else { format!(" of {}", self.claim) };
        let driver = if self.driver.is_empty() { String::new() } else { format!(", driver {}", self.driver) };
        format!("{}{claim}{driver}", self.volume)
    }

    /// Applies a new snapshot.
    fn see(&mut self, is_used: bool, attachment: Attachment, now: Moment) {
        let stage = match (is_used, attachment, self.stage) {
            (true, _, _) => VolumeStage::InUse,
            (false, Attachment::No, _) => VolumeStage::Detached,
            (false, Attachment::Yes, VolumeStage::TimedOut) => VolumeStage::TimedOut,
            (false, Attachment::Yes, _) => VolumeStage::Detaching,
            // No new facts: a detached volume stays detached.
            (false, Attachment::Unknown, VolumeStage::Detached | VolumeStage::TimedOut) => self.stage,
            (false, Attachment::Unknown, VolumeStage::InUse | VolumeStage::Detaching) => {
                VolumeStage::Detaching
            }
        };
        if self.stage != stage {
            self.since = now;
        }
        self.stage = stage;
    }

    /// Time limit of the detach; `None` if the volume is not being detached.
    fn expires(&self, policy: &Policy) -> Option<Moment> {
        (self.stage == VolumeStage::Detaching).then(|| self.since + policy.volumes.detach_timeout)
    }
}

/// Stage of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeStage {
    /// A pod of the node uses it.
    InUse,
    /// Its last pod here is gone, and it is still attached here.
    Detaching,
    /// The volume has been detaching for longer than the policy waits.
    TimedOut,
    /// The volume is not attached here.
    Detached,
}

/// A volume that is attached to the node although no pod of the node uses it. A drain waits for it at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftover {
    /// Name, as in [`VolumeTrack::volume`].
    pub volume: String,
    /// The CSI driver; empty if it is not known.
    pub driver: String,
    /// Reason for which it is not detached, as far as the cluster shows it, with the command that ends it if there is one.
    pub obstacle: String,
    /// True if a drain would fail because of it: nothing is going to detach it, and the policy does not go on without.
    pub is_stuck: bool,
}

/// The volumes that are attached to the node and that no pod of it uses; none if the policy does not wait for volumes.
pub fn leftovers(snapshot: &Snapshot, policy: &Policy) -> Vec<Leftover> {
    if !policy.waits_for_volumes() {
        return Vec::new();
    }
    let index = StorageIndex::of(snapshot);
    let left = unused(&index, snapshot.pods.iter()).into_iter().map(|attached| Leftover {
        obstacle: index.obstacle(&attached.volume, attached.attached_name.as_deref()),
        is_stuck: policy.needs_detached_volumes() && index.is_stuck(&attached.volume),
        volume: attached.volume,
        driver: attached.driver,
    });
    left.collect()
}

/// Volumes that a drain waits for now or later.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Volumes {
    /// By name.
    tracks: BTreeMap<String, VolumeTrack>,
    /// Error if the volumes of pods that leave cannot be read.
    read_error: Option<String>,
}

/// Volumes of a pod that has to leave, from a snapshot.
#[derive(Debug)]
pub(crate) struct VolumesOfPod {
    pub(crate) uid: String,
    /// True if the volumes of all the pod's claims are known.
    pub(crate) is_known: bool,
    /// True if at least one of them is attached to the node, or may be.
    pub(crate) is_attached: bool,
    pub(crate) names: Vec<String>,
}

impl Volumes {
    /// All volumes, by name.
    pub(crate) fn all(&self) -> &BTreeMap<String, VolumeTrack> {
        &self.tracks
    }

    /// All volumes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &VolumeTrack> {
        self.tracks.values()
    }

    /// Error if the volumes of pods that leave cannot be read.
    pub(crate) fn read_error(&self) -> Option<&str> {
        self.read_error.as_deref()
    }

    /// Applies a new snapshot. Returns the volumes of each pod that has to leave.
    pub(crate) fn see(
        &mut self,
        snapshot: &Snapshot,
        planned: &[Planned],
        now: Moment,
        policy: &Policy,
    ) -> Vec<VolumesOfPod> {
        if policy.volumes.detach_timeout.is_zero() {
            return Vec::new();
        }
        let pods = || snapshot.pods.iter().zip(planned);
        let mut leaving = pods().filter(|(_, planned)| planned.must_leave());
        self.read_error = leaving.find_map(|(pod, _)| read_error(pod, &snapshot.storage));
        let index = StorageIndex::of(snapshot);
        let (mut users, mut of_pods) = (BTreeSet::new(), Vec::new());
        for (pod, planned) in pods() {
            let volumes = index.of_pod(pod);
            users.extend(volumes.iter().map(|volume| volume.volume.clone()));
            if planned.must_leave() {
                of_pods.push(VolumesOfPod {
                    uid: pod.id.uid.clone(),
                    is_known: index.knows(pod),
                    is_attached: volumes.iter().any(|volume| index.may_be_attached(volume)),
                    names: volumes.iter().map(|volume| volume.volume.clone()).collect(),
                });
                for volume in volumes {
                    self.follow(volume, planned, now);
                }
            }
        }
        for track in self.tracks.values_mut() {
            let attachment = index.attachment(&track.volume, track.attached_name.as_deref());
            track.see(users.contains(&track.volume), attachment, now);
        }
        of_pods
    }

    fn follow(&mut self, volume: PodVolume, planned: &Planned, now: Moment) {
        let PodVolume { volume, attached_name, driver, claim } = volume;
        let track = self.tracks.entry(volume.clone()).or_insert_with(|| VolumeTrack {
            volume,
            driver,
            attached_name: None,
            claim: String::new(),
            pod: PodId::default(),
            order: planned.order,
            stage: VolumeStage::InUse,
            since: now,
            is_late: false,
        });
        (track.pod, track.order, track.claim) = (planned.id.clone(), planned.order, claim);
        track.attached_name = attached_name.or_else(|| track.attached_name.take());
    }

    /// The final check has shown that no pod has to leave: from now on waits for all volumes that are attached to the
    /// node and belong to no pod that stays, whoever has attached them.
    pub(crate) fn await_leftovers(
        &mut self,
        snapshot: &Snapshot,
        planned: &[Planned],
        now: Moment,
        policy: &Policy,
    ) {
        if policy.volumes.detach_timeout.is_zero() {
            return;
        }
        let staying = snapshot.pods.iter().zip(planned).filter(|(_, planned)| !planned.must_leave());
        for attached in unused(&StorageIndex::of(snapshot), staying.map(|(pod, _)| pod)) {
            self.tracks.entry(attached.volume.clone()).or_insert_with(|| VolumeTrack {
                volume: attached.volume,
                driver: attached.driver,
                attached_name: attached.attached_name,
                claim: String::new(),
                pod: PodId::default(),
                order: i32::MAX,
                stage: VolumeStage::Detaching,
                since: now,
                is_late: false,
            });
        }
    }

    /// Stops waiting for volumes whose time to detach is over.
    pub(crate) fn expire(&mut self, now: Moment, policy: &Policy) {
        for volume in self.tracks.values_mut() {
            if volume.expires(policy).is_some_and(|at| at <= now) {
                volume.stage = VolumeStage::TimedOut;
            }
        }
    }

    /// Earliest time limit of a detach.
    pub(crate) fn next_expiry(&self, policy: &Policy) -> Option<Moment> {
        self.iter().filter_map(|volume| volume.expires(policy)).min()
    }

    /// Notes that no other node has attached this volume within the policy's time.
    pub(crate) fn note_late(&mut self, name: &str) {
        if let Some(volume) = self.tracks.get_mut(name) {
            volume.is_late = true;
        }
    }

    /// Moves all times by the length of an outage, during which the clocks stood still.
    pub(crate) fn delay(&mut self, away: Duration) {
        self.tracks.values_mut().for_each(|volume| volume.since = volume.since + away);
    }
}

/// Error that keeps us from reading whether the pod's volumes are detached; `None` if there is none.
fn read_error(pod: &PodView, storage: &Storage) -> Option<String> {
    if pod.claims.is_empty() {
        return None;
    }
    match (&storage.claims_unreadable, &storage.attachments) {
        (Some(text), _) | (None, Attachments::Unreadable(text)) => Some(text.clone()),
        (None, Attachments::NotAsked | Attachments::NotServed | Attachments::Listed(_)) => None,
    }
}

/// Volumes that are attached to the node and belong to none of these pods.
fn unused<'a>(index: &StorageIndex<'_>, pods: impl Iterator<Item = &'a PodView>) -> Vec<NodeVolume> {
    let kept: Vec<PodVolume> = pods.flat_map(|pod| index.of_pod(pod)).collect();
    let is_kept = |attached: &NodeVolume| {
        kept.iter().any(|kept| {
            kept.volume == attached.volume
                || (kept.attached_name.is_some() && kept.attached_name == attached.attached_name)
        })
    };
    index.attached().into_iter().filter(|attached| !is_kept(attached)).collect()
}

#[cfg(test)]
pub(crate) mod tests;
