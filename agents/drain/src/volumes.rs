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
use crate::view::{NodeView, Picture, PodClaim, PodId, PodView};

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
    /// The CSI driver, empty if it is not known.
    pub driver: String,
    /// `namespace/name` of the claim.
    pub claim: String,
}

/// Something that is attached to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attached {
    /// As [`VolumeTrack::volume`].
    volume: String,
    attached_name: Option<String>,
    driver: String,
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
                    driver: self.driver(&claim.volume),
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

    /// The CSI driver of the volume, as its attachment here or the volume itself says.
    fn driver(&self, name: &str) -> String {
        let here = self.attachments_of(name).find(|attachment| self.is_here(attachment));
        let attached = here.map(|attachment| attachment.driver.clone()).filter(|driver| !driver.is_empty());
        let csi = || Some(self.volumes.get(name)?.csi.as_ref()?.driver.clone());
        attached.or_else(csi).unwrap_or_default()
    }

    /// All that is attached to this node, by VolumeAttachments and by `volumesAttached`, each once.
    fn attached(&self) -> Vec<Attached> {
        let mut found: BTreeMap<&str, Attached> = BTreeMap::new();
        for here in self.all_attachments().filter(|attachment| self.is_here(attachment)) {
            let volume = key(here);
            let attached_name = self.attached_name(volume);
            found.insert(
                volume,
                Attached { volume: volume.to_owned(), attached_name, driver: here.driver.clone() },
            );
        }
        // An attachment whose volume nobody has read stands for one name of its driver: which one, nothing tells.
        let mut unnamed: BTreeMap<String, usize> = BTreeMap::new();
        for attached in found.values().filter(|attached| attached.attached_name.is_none()) {
            *unnamed.entry(attached.driver.clone()).or_default() += 1;
        }
        let names = self.node.map(|node| node.volumes_attached.as_slice()).unwrap_or_default();
        for name in names {
            let is_named = |attached: &Attached| attached.attached_name.as_deref() == Some(name);
            if found.values().any(is_named) {
                continue;
            }
            let of_volume = self
                .volumes
                .values()
                .find(|volume| volume.csi.as_ref().is_some_and(|csi| csi.attached_name() == *name));
            let driver = driver_of(name);
            if of_volume.is_none()
                && let Some(left) = unnamed.get_mut(driver).filter(|left| **left > 0)
            {
                *left -= 1;
                continue;
            }
            let volume = of_volume.map_or(name.as_str(), |volume| volume.name.as_str());
            let attached_name = Some(name.clone());
            found.insert(
                volume,
                Attached { volume: volume.to_owned(), attached_name, driver: driver.to_owned() },
            );
        }
        found.into_values().collect()
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
        self.all_attachments().filter(move |attachment| key(attachment) == volume)
    }

    fn all_attachments(&self) -> impl Iterator<Item = &'a AttachmentView> {
        let all = match &self.storage.attachments {
            Attachments::Listed(all) => all.as_slice(),
            Attachments::NotAsked | Attachments::NotServed | Attachments::Unreadable(_) => &[],
        };
        all.iter()
    }

    /// It is known what each claim of the pod is bound to, and somebody was asked about attachments. What cannot be read
    /// is another matter: [`blindness`].
    fn knows(&self, pod: &PodView) -> bool {
        let is_known = |named: &PodClaim| {
            self.claims.contains_key(&(pod.id.namespace.as_str(), named.name.as_str()))
                || self.storage.claims_unreadable.is_some()
        };
        pod.claims.is_empty()
            || (self.storage.attachments != Attachments::NotAsked && pod.claims.iter().all(is_known))
    }

    fn is_here(&self, attachment: &AttachmentView) -> bool {
        self.node.is_some_and(|node| node.name == attachment.node)
    }
}

/// What a VolumeAttachment is called here: as its PersistentVolume; an inline volume has none, and is called as the
/// attachment itself.
fn key(attachment: &AttachmentView) -> &str {
    attachment.volume.as_deref().unwrap_or(&attachment.name)
}

/// The CSI driver in a name of `volumesAttached`, such as `kubernetes.io/csi/DRIVER^HANDLE`; empty in other names.
fn driver_of(name: &str) -> &str {
    let csi = name.strip_prefix("kubernetes.io/csi/");
    csi.and_then(|csi| csi.split_once('^')).map(|(driver, _)| driver).unwrap_or_default()
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
            let pod = attempt.pods.get_mut(&pod.id.uid).map(|track| {
                track.volumes_unknown = (!known).then(|| track.volumes_unknown.unwrap_or(now));
                track
            });
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
fn leftovers(picture: &Picture, planned: &[Planned]) -> Vec<Attached> {
    let shelves = Shelves::of(picture);
    let staying = picture.pods.iter().zip(planned).filter(|(_, planned)| !planned.must_leave());
    let kept: Vec<PodVolume> = staying.flat_map(|(pod, _)| shelves.of_pod(pod)).collect();
    let is_kept = |attached: &Attached| {
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
