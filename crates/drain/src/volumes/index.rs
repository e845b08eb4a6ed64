//! Index of one snapshot's storage: the volumes of a pod, and the volumes that are attached to the node.

use std::collections::BTreeMap;

use crate::storage::{AttachmentView, Attachments, ClaimView, Storage, VolumeView};
use crate::view::{NodeView, PodClaim, PodView, Snapshot};

/// Whether a volume is attached to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// Attached.
    Yes,
    /// Not attached.
    No,
    /// Not known.
    Unknown,
}

/// A volume that a pod uses and that can be attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Name of the PersistentVolume.
    pub volume: String,
    /// Its name in `node.status.volumesAttached`, if it comes from a CSI driver.
    pub attached_name: Option<String>,
    /// The CSI driver; empty if it is not known.
    pub driver: String,
    /// `namespace/name` of the claim.
    pub claim: String,
}

/// A volume that is attached to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeVolume {
    /// Name, as in [`super::VolumeTrack::volume`].
    pub(super) volume: String,
    pub(super) attached_name: Option<String>,
    pub(super) driver: String,
}

/// Index of a snapshot's storage by name.
#[derive(Debug)]
pub struct StorageIndex<'a> {
    claims: BTreeMap<(&'a str, &'a str), &'a ClaimView>,
    volumes: BTreeMap<&'a str, &'a VolumeView>,
    storage: &'a Storage,
    node: Option<&'a NodeView>,
}

impl<'a> StorageIndex<'a> {
    /// Builds the index.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let storage = &snapshot.storage;
        let claim = |claim: &'a ClaimView| ((claim.namespace.as_str(), claim.name.as_str()), claim);
        Self {
            claims: storage.claims.iter().map(claim).collect(),
            volumes: storage.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect(),
            storage,
            node: snapshot.node.as_ref(),
        }
    }

    /// Volumes of the pod that can be attached to a node, without duplicates, by name.
    ///
    /// Left out, because they are never attached: claims that are missing, not bound, or owned by another pod (for an
    /// ephemeral volume); volumes without a CSI driver; drivers that never attach. A VolumeAttachment for this node
    /// overrules the last two: then the volume is attached.
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

    /// CSI driver of the volume, from its attachment here or from the volume itself.
    fn driver(&self, name: &str) -> String {
        let here = self.attachments_of(name).find(|attachment| self.is_here(attachment));
        let attached = here.map(|attachment| attachment.driver.clone()).filter(|driver| !driver.is_empty());
        let csi = || Some(self.volumes.get(name)?.csi.as_ref()?.driver.clone());
        attached.or_else(csi).unwrap_or_default()
    }

    /// All volumes that are attached to this node, by VolumeAttachments and by `volumesAttached`, without duplicates.
    pub(super) fn attached(&self) -> Vec<NodeVolume> {
        let mut found: BTreeMap<&str, NodeVolume> = BTreeMap::new();
        for here in self.all_attachments().filter(|attachment| self.is_here(attachment)) {
            let volume = key(here);
            let attached_name = self.attached_name(volume);
            found.insert(
                volume,
                NodeVolume { volume: volume.to_owned(), attached_name, driver: here.driver.clone() },
            );
        }
        // An attachment whose volume was not read accounts for one name of its driver; which name is not known.
        let mut unnamed: BTreeMap<String, usize> = BTreeMap::new();
        for attached in found.values().filter(|attached| attached.attached_name.is_none()) {
            *unnamed.entry(attached.driver.clone()).or_default() += 1;
        }
        let names = self.node.map(|node| node.volumes_attached.as_slice()).unwrap_or_default();
        for name in names {
            let is_named = |attached: &NodeVolume| attached.attached_name.as_deref() == Some(name);
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
                NodeVolume { volume: volume.to_owned(), attached_name, driver: driver.to_owned() },
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

    /// True if the volume is attached to this node, or if that is not known.
    pub(super) fn may_be_attached(&self, volume: &PodVolume) -> bool {
        self.attachment(&volume.volume, volume.attached_name.as_deref()) != Attachment::No
    }

    /// True if the volume is attached to another node.
    pub fn is_elsewhere(&self, volume: &str) -> bool {
        self.attachments_of(volume).any(|attachment| attachment.attached && !self.is_here(attachment))
    }

    /// Reason for which the volume is not detached, as far as the cluster shows it.
    pub fn obstacle(&self, volume: &str, attached_name: Option<&str>) -> String {
        let mounted = |node: &NodeView| {
            attached_name.is_some_and(|wanted| node.volumes_in_use.iter().any(|name| name == wanted))
        };
        if self.node.is_some_and(mounted) {
            return "the kubelet still has it mounted".to_owned();
        }
        if let Attachments::Unreadable(text) = &self.storage.attachments {
            return format!("it is not confirmed that it is detached: {text}");
        }
        let here = self.attachments_of(volume).find(|attachment| self.is_here(attachment));
        here.map_or_else(|| "the node still lists it as attached".to_owned(), |here| self.still_there(here))
    }

    /// Reason for which this attachment still exists, with the command if only a person can end it.
    fn still_there(&self, attachment: &AttachmentView) -> String {
        let AttachmentView { name, attached, deleting, attach_error, detach_error, .. } = attachment;
        match (self.has_lost_volume(attachment), deleting) {
            (true, false) => format!(
                "its PersistentVolume does not exist, so no driver ever detaches it; if nothing on the node uses it: \
                 kubectl delete volumeattachment {name}"
            ),
            (true, true) => format!(
                "its PersistentVolume does not exist, so no driver ever removes the finalizers of VolumeAttachment {name}; \
                 if nothing on the node uses it: kubectl patch volumeattachment {name} --type=merge -p \
                 '{{\"metadata\":{{\"finalizers\":null}}}}'"
            ),
            (false, _) if !detach_error.is_empty() => {
                format!("the storage driver cannot detach it, see VolumeAttachment {name}: {detach_error}")
            }
            (false, false) if !attached => {
                let why = if attach_error.is_empty() { String::new() } else { format!(": {attach_error}") };
                format!(
                    "its VolumeAttachment {name} exists, but the storage driver has never attached it{why}; if nothing on the \
                     node uses it: kubectl delete volumeattachment {name}"
                )
            }
            (false, _) => format!("its VolumeAttachment {name} is still there"),
        }
    }

    /// True if the attachment's PersistentVolume does not exist.
    fn has_lost_volume(&self, attachment: &AttachmentView) -> bool {
        attachment.volume.as_ref().is_some_and(|volume| self.storage.missing_volumes.contains(volume))
    }

    /// True if nothing is going to detach the volume from this node without a person: its PersistentVolume does not exist,
    /// or its driver has failed to.
    pub(super) fn is_stuck(&self, volume: &str) -> bool {
        let is_stuck = |attachment: &AttachmentView| {
            self.has_lost_volume(attachment) || !attachment.detach_error.is_empty()
        };
        self.attachments_of(volume).any(|attachment| self.is_here(attachment) && is_stuck(attachment))
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

    /// True if the volume of each of the pod's claims is known, and attachments were requested. Unreadable ones are
    /// handled by `read_error`.
    pub(super) fn knows(&self, pod: &PodView) -> bool {
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

/// Name under which a VolumeAttachment is indexed: its PersistentVolume; for an inline volume, which has none, the
/// attachment itself.
fn key(attachment: &AttachmentView) -> &str {
    attachment.volume.as_deref().unwrap_or(&attachment.name)
}

/// CSI driver in a name of `volumesAttached`, such as `kubernetes.io/csi/DRIVER^HANDLE`; empty for other names.
fn driver_of(name: &str) -> &str {
    let csi = name.strip_prefix("kubernetes.io/csi/");
    csi.and_then(|csi| csi.split_once('^')).map(|(driver, _)| driver).unwrap_or_default()
}
