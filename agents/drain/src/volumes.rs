//! Volumes of pods that leave: which there are, and when each is detached.
//!
//! Always by state, never by events. A volume is attached to a node as long as a VolumeAttachment says so or
//! `node.status.volumesAttached` has its exact name; the latter alone is emptied before the detach has even begun
//! (`measured.md` 2).

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Planned;
use crate::policy::{OnDetachTimeout, Policy};
use crate::state::Attempt;
use crate::storage::{AttachmentView, Attachments, ClaimView, Storage, VolumeView};
use crate::time::Moment;
use crate::view::{NodeView, Picture, PodId, PodView};

/// One volume of pods that leave.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeTrack {
    /// Name of the PersistentVolume.
    pub volume: String,
    /// Its name in `node.status.volumesAttached`; `None` when only a VolumeAttachment can tell.
    pub attached_name: Option<String>,
    /// `namespace/name` of the claim.
    pub claim: String,
    /// The last pod that was seen to use it.
    pub pod: PodId,
    /// Order of the pods that use it.
    pub order: i32,
    /// Where it is on its way.
    pub stage: VolumeStage,
    /// Since when it is there.
    pub since: Moment,
    /// It was not attached elsewhere within the policy's time: a warning.
    pub is_late: bool,
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

/// Whether a volume is attached to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// Nothing proves either.
    Unknown,
}

/// A volume that a pod uses and that can be attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Name of the PersistentVolume.
    pub volume: String,
    /// Its name in `node.status.volumesAttached`, if it comes from a CSI driver.
    pub attached_name: Option<String>,
    /// `namespace/name` of the claim.
    pub claim: String,
}

/// Storage, looked up by name.
#[derive(Debug)]
pub struct Shelves<'a> {
    claims: BTreeMap<(&'a str, &'a str), &'a ClaimView>,
    volumes: BTreeMap<&'a str, &'a VolumeView>,
    storage: &'a Storage,
    node: Option<&'a NodeView>,
}

impl<'a> Shelves<'a> {
    /// Over the storage of this picture.
    pub fn of(picture: &'a Picture) -> Self {
        let storage = &picture.storage;
        let claim = |claim: &'a ClaimView| ((claim.namespace.as_str(), claim.name.as_str()), claim);
        Self {
            claims: storage.claims.iter().map(claim).collect(),
            volumes: storage.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect(),
            storage,
            node: picture.node.as_ref(),
        }
    }

    /// The volumes of the pod that can be attached to a node, each once, by name.
    ///
    /// Left out, because nothing of them is ever attached: claims that are missing, not bound, or of another owner
    /// than the pod whose ephemeral volume they are for; volumes that no CSI driver provides; drivers that never
    /// attach. A VolumeAttachment for this node overrules the last two: somebody does attach it.
    pub fn of_pod(&self, pod: &PodView) -> Vec<PodVolume> {
        let mut found = BTreeMap::new();
        for named in &pod.claims {
            let Some(claim) = self.claims.get(&(pod.id.namespace.as_str(), named.name.as_str())) else {
                continue;
            };
            let foreign = named.ephemeral && claim.owner.as_deref() != Some(pod.id.uid.as_str());
            if foreign || claim.volume.is_empty() {
                continue;
            }
            let attached_name = self.attached_name(&claim.volume);
            if attached_name.is_some() || self.has_attachment_here(&claim.volume) {
                let volume = PodVolume {
                    volume: claim.volume.clone(),
                    attached_name,
                    claim: format!("{}/{}", claim.namespace, claim.name),
                };
                found.insert(claim.volume.clone(), volume);
            }
        }
        found.into_values().collect()
    }

    /// The volume's name in `volumesAttached`, if a CSI driver attaches it.
    fn attached_name(&self, name: &str) -> Option<String> {
        let csi = self.volumes.get(name)?.csi.as_ref()?;
        let never = self.storage.drivers_without_attach.contains(&csi.driver);
        (!never).then(|| csi.attached_name())
    }

    /// Whether the volume is attached to this node.
    pub fn attachment(&self, volume: &str, attached_name: Option<&str>) -> Attachment {
        let listed = self.node.is_some_and(|node| {
            attached_name.is_some_and(|wanted| node.volumes_attached.iter().any(|name| name == wanted))
        });
        match &self.storage.attachments {
            _ if listed => Attachment::Yes,
            Attachments::Listed(_) if self.has_attachment_here(volume) => Attachment::Yes,
            Attachments::Listed(_) | Attachments::NotServed => Attachment::No,
            Attachments::NotAsked | Attachments::Unreadable(_) => Attachment::Unknown,
        }
    }

    /// Another node has the volume.
    pub fn is_elsewhere(&self, volume: &str) -> bool {
        self.attachments_of(volume).any(|attachment| attachment.attached && !self.is_here(attachment))
    }

    /// Why the volume is not detached, as far as the cluster says.
    pub fn obstacle(&self, volume: &str, attached_name: Option<&str>) -> String {
        let mounted = |node: &NodeView| {
            attached_name.is_some_and(|wanted| node.volumes_in_use.iter().any(|name| name == wanted))
        };
        if self.node.is_some_and(mounted) {
            return "the kubelet still has it mounted".to_owned();
        }
        if let Attachments::Unreadable(text) = &self.storage.attachments {
            return format!("nothing proves that it is detached: {text}");
        }
        let here = self.attachments_of(volume).find(|attachment| self.is_here(attachment));
        match here {
            Some(attachment) if !attachment.detach_error.is_empty() => {
                format!("the storage driver cannot detach it: {}", attachment.detach_error)
            }
            Some(_) => "its VolumeAttachment is still there".to_owned(),
            None => "the node still lists it as attached".to_owned(),
        }
    }

    fn has_attachment_here(&self, volume: &str) -> bool {
        self.attachments_of(volume).any(|attachment| self.is_here(attachment))
    }

    fn attachments_of(&self, volume: &str) -> impl Iterator<Item = &'a AttachmentView> {
        let all = match &self.storage.attachments {
            Attachments::Listed(all) => all.as_slice(),
            Attachments::NotAsked | Attachments::NotServed | Attachments::Unreadable(_) => &[],
        };
        all.iter().filter(move |attachment| attachment.volume.as_deref() == Some(volume))
    }

    fn is_here(&self, attachment: &AttachmentView) -> bool {
        self.node.is_some_and(|node| node.name == attachment.node)
    }
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
    if picture.storage.attachments == Attachments::NotAsked && attempt.volumes.is_empty() {
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
            track(attempt.pods.get_mut(&pod.id.uid), &mut attempt.volumes, volumes, planned, &shelves, now);
        }
    }
    for volume in attempt.volumes.values_mut() {
        let attachment = shelves.attachment(&volume.volume, volume.attached_name.as_deref());
        let stage = stage(volume.stage, users.contains(&volume.volume), attachment);
        enter(volume, stage, now);
    }
}

/// What the next attempt has to know of the volumes of one that has ended: those that may still be attached. Their time
/// begins anew.
pub(crate) fn carried(
    mut volumes: BTreeMap<String, VolumeTrack>,
    now: Moment,
) -> BTreeMap<String, VolumeTrack> {
    volumes.retain(|_, volume| volume.stage != VolumeStage::Detached);
    for volume in volumes.values_mut() {
        (volume.stage, volume.since, volume.is_late) = (VolumeStage::Detaching, now, false);
    }
    volumes
}

/// A volume in this stage is waited for: by the end of the attempt, and by pods of a higher order.
pub(crate) fn is_awaited(stage: VolumeStage, policy: &Policy) -> bool {
    match stage {
        VolumeStage::Detaching => true,
        VolumeStage::TimedOut => policy.volumes.on_detach_timeout == OnDetachTimeout::Fail,
        VolumeStage::InUse | VolumeStage::Detached => false,
    }
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
            attached_name: volume.attached_name.clone(),
            claim: volume.claim,
            pod: planned.id.clone(),
            order: planned.order,
            stage: VolumeStage::InUse,
            since: now,
            is_late: false,
        });
        track.pod = planned.id.clone();
        track.order = planned.order;
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
