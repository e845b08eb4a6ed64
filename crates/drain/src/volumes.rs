//! Volumes of pods that leave: which there are, and when each is detached.
//!
//! Always by state, never by events. A volume is attached to a node as long as a VolumeAttachment says so or
//! `node.status.volumesAttached` has its exact name; the latter alone is emptied before the detach has even begun
//! (M6 in `docs/reference/measured.md`).

mod shelves;

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Planned;
use crate::policy::{OnDetachTimeout, Policy};
use crate::state::Attempt;
use crate::storage::{Attachments, Storage};
use crate::time::Moment;
use crate::view::{Picture, PodId, PodView};

use self::shelves::NodeVolume;
pub use self::shelves::{Attachment, PodVolume, Shelves};

/// One volume of pods that leave, or that a proof found attached to the node without a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeTrack {
    /// Name of the PersistentVolume. Where nothing tells it: that of the VolumeAttachment, or the one in
    /// `node.status.volumesAttached`.
    pub volume: String,
    /// The CSI driver, empty if it is not known.
    pub driver: String,
    /// Its name in `node.status.volumesAttached`; `None` when only a VolumeAttachment can tell.
    pub attached_name: Option<String>,
    /// `namespace/name` of the claim; empty if no pod was seen with it.
    pub claim: String,
    /// The last pod that was seen to use it; all its names are empty if none was.
    pub pod: PodId,
    /// Order of the pods that use it; the last of all if no pod was seen with it.
    pub order: i32,
    /// Where it is on its way.
    pub stage: VolumeStage,
    /// Since when it is there.
    pub since: Moment,
    /// It was not attached elsewhere within the policy's time: a warning.
    pub is_late: bool,
}

impl VolumeTrack {
    /// In words: `pv-1 of shop/data, driver csi.example`; without a claim if no pod was seen with it.
    pub fn named(&self) -> String {
        let claim = if self.claim.is_empty() { String::new() } else { format!(" of {}", self.claim) };
        let driver = if self.driver.is_empty() { String::new() } else { format!(", driver {}", self.driver) };
        format!("{}{claim}{driver}", self.volume)
    }
}

/// Where a volume is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeStage {
    /// A pod of the node uses it.
    InUse,
    /// Its last user here is gone, and it is still attached here.
    Detaching,
    /// The same, for longer than the policy waits.
    TimedOut,
    /// Not attached here.
    Detached,
}

/// Why it cannot be seen whether the pod's volumes are detached; `None` if it can.
fn blindness(pod: &PodView, storage: &Storage) -> Option<String> {
    if pod.claims.is_empty() {
        return None;
    }
    match (&storage.claims_unreadable, &storage.attachments) {
        (Some(text), _) | (None, Attachments::Unreadable(text)) => Some(text.clone()),
        (None, Attachments::NotAsked | Attachments::NotServed | Attachments::Listed(_)) => None,
    }
}

/// Brings the volumes of the attempt in line with a new picture.
pub(crate) fn see(attempt: &mut Attempt, picture: &Picture, now: Moment, policy: &Policy) {
    if policy.volumes.detach_timeout.is_zero() {
        return;
    }
    let leaving = || picture.pods.iter().zip(&attempt.planned).filter(|(_, planned)| planned.must_leave());
    attempt.blind = leaving().find_map(|(pod, _)| blindness(pod, &picture.storage));
    let shelves = Shelves::of(picture);
    let mut users = BTreeSet::new();
    for (pod, planned) in picture.pods.iter().zip(&attempt.planned) {
        let volumes = shelves.of_pod(pod);
        users.extend(volumes.iter().map(|volume| volume.volume.clone()));
        if planned.must_leave() {
            let known = shelves.knows(pod);
            let mut pod = attempt.pods.get_mut(&pod.id.uid);
            if let Some(track) = &mut pod {
                track.volumes_unknown = (!known).then(|| track.volumes_unknown.unwrap_or(now));
            }
            track(pod, &mut attempt.volumes, volumes, planned, &shelves, now);
        }
    }
    for volume in attempt.volumes.values_mut() {
        let attachment = shelves.attachment(&volume.volume, volume.attached_name.as_deref());
        let stage = stage(volume.stage, users.contains(&volume.volume), attachment);
        enter(volume, stage, now);
    }
}

/// A proof has shown that no pod should leave: what is attached to the node now and belongs to no pod that stays is
/// waited for, from now on, whoever attached it and whenever.
pub(crate) fn await_leftovers(attempt: &mut Attempt, now: Moment, policy: &Policy) {
    let Some(picture) = attempt.picture.clone().filter(|_| !policy.volumes.detach_timeout.is_zero()) else {
        return;
    };
    for attached in leftovers(&picture, &attempt.planned) {
        attempt.volumes.entry(attached.volume.clone()).or_insert_with(|| VolumeTrack {
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

/// What is attached to the node of the picture and belongs to no pod that stays.
fn leftovers(picture: &Picture, planned: &[Planned]) -> Vec<NodeVolume> {
    let shelves = Shelves::of(picture);
    let staying = picture.pods.iter().zip(planned).filter(|(_, planned)| !planned.must_leave());
    let kept: Vec<PodVolume> = staying.flat_map(|(pod, _)| shelves.of_pod(pod)).collect();
    let is_kept = |attached: &NodeVolume| {
        kept.iter().any(|kept| {
            kept.volume == attached.volume
                || (kept.attached_name.is_some() && kept.attached_name == attached.attached_name)
        })
    };
    shelves.attached().into_iter().filter(|attached| !is_kept(attached)).collect()
}

/// A volume in this stage is waited for: by the end of the attempt, and by pods of a higher order.
pub(crate) fn is_awaited(stage: VolumeStage, policy: &Policy) -> bool {
    match stage {
        VolumeStage::Detaching => true,
        VolumeStage::TimedOut => policy.volumes.on_detach_timeout == OnDetachTimeout::Fail,
        VolumeStage::InUse | VolumeStage::Detached => false,
    }
}

/// A volume in this stage is still attached, and no pod here uses it.
pub(crate) fn is_attached(stage: VolumeStage) -> bool {
    matches!(stage, VolumeStage::Detaching | VolumeStage::TimedOut)
}

/// Volumes whose time to detach is over.
pub(crate) fn expire(attempt: &mut Attempt, now: Moment, policy: &Policy) {
    for volume in attempt.volumes.values_mut() {
        if volume.stage == VolumeStage::Detaching && volume.since + policy.volumes.detach_timeout <= now {
            volume.stage = VolumeStage::TimedOut;
        }
    }
}

/// When the next volume's time to detach is over.
pub(crate) fn next_expiry(attempt: &Attempt, policy: &Policy) -> Option<Moment> {
    let detaching = attempt.volumes.values().filter(|volume| volume.stage == VolumeStage::Detaching);
    detaching.map(|volume| volume.since + policy.volumes.detach_timeout).min()
}

fn track(
    pod: Option<&mut crate::state::Track>,
    known: &mut BTreeMap<String, VolumeTrack>,
    volumes: Vec<PodVolume>,
    planned: &Planned,
    shelves: &Shelves<'_>,
    now: Moment,
) {
    let attached = |volume: &PodVolume| {
        shelves.attachment(&volume.volume, volume.attached_name.as_deref()) != Attachment::No
    };
    if let Some(pod) = pod {
        pod.is_stateful = volumes.iter().any(attached);
        pod.volumes = volumes.iter().map(|volume| volume.volume.clone()).collect();
    }
    for volume in volumes {
        let track = known.entry(volume.volume.clone()).or_insert_with(|| VolumeTrack {
            volume: volume.volume,
            driver: volume.driver.clone(),
            attached_name: volume.attached_name.clone(),
            claim: volume.claim.clone(),
            pod: planned.id.clone(),
            order: planned.order,
            stage: VolumeStage::InUse,
            since: now,
            is_late: false,
        });
        (track.pod, track.order, track.claim) = (planned.id.clone(), planned.order, volume.claim);
        track.attached_name = volume.attached_name.or_else(|| track.attached_name.take());
    }
}

fn stage(before: VolumeStage, is_used: bool, attachment: Attachment) -> VolumeStage {
    match (is_used, attachment, before) {
        (true, _, _) => VolumeStage::InUse,
        (false, Attachment::No, _) => VolumeStage::Detached,
        (false, Attachment::Yes, VolumeStage::TimedOut) => VolumeStage::TimedOut,
        (false, Attachment::Yes, _) => VolumeStage::Detaching,
        // Nothing new is known: what was proven stays so.
        (false, Attachment::Unknown, VolumeStage::Detached | VolumeStage::TimedOut) => before,
        (false, Attachment::Unknown, VolumeStage::InUse | VolumeStage::Detaching) => VolumeStage::Detaching,
    }
}

fn enter(volume: &mut VolumeTrack, stage: VolumeStage, now: Moment) {
    if volume.stage != stage {
        volume.since = now;
    }
    volume.stage = stage;
}

#[cfg(test)]
pub(crate) mod tests;
