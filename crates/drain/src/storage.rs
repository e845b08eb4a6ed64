//! Views of the storage objects of a pod: claims, volumes, attachments.

/// Known storage objects. `cluster` fills them in as soon as a pod of the node has a claim, and in each final check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// PersistentVolumeClaims; at least those of the node's pods. A claim that does not exist is listed too, as
    /// unbound: a claim that is not listed has not been looked up yet.
    pub claims: Vec<ClaimView>,
    /// Error if claims cannot be read: then the volumes of a pod are unknown.
    pub claims_unreadable: Option<String>,
    /// PersistentVolumes; at least those to which these claims are bound.
    pub volumes: Vec<VolumeView>,
    /// PersistentVolumes of attachments to this node that the API server says do not exist. Only a relist looks for them.
    pub missing_volumes: Vec<String>,
    /// CSI drivers that never attach (`CSIDriver.spec.attachRequired: false`).
    pub drivers_without_attach: Vec<String>,
    /// VolumeAttachments: all of this node, and at least those of the volumes above.
    pub attachments: Attachments,
    /// True if another node is Ready and accepts pods; `None` if it is not known.
    pub peer_takes_pods: Option<bool>,
}

impl Storage {
    /// The error, with the missing right, if the server does not let us read attachments or claims.
    pub fn unreadable(&self) -> Option<&str> {
        match (&self.attachments, &self.claims_unreadable) {
            (Attachments::Unreadable(why), _) | (_, Some(why)) => Some(why),
            (Attachments::NotAsked | Attachments::NotServed | Attachments::Listed(_), None) => None,
        }
    }
}

/// Known VolumeAttachments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Attachments {
    /// Not requested yet: no pod of the node has had a claim.
    #[default]
    NotAsked,
    /// The API server does not have this kind: only `node.status.volumesAttached` shows what is attached.
    NotServed,
    /// They cannot be read, for this reason, so it cannot be confirmed that a volume is detached.
    Unreadable(String),
    /// All that exist.
    Listed(Vec<AttachmentView>),
}

/// A PersistentVolumeClaim, trimmed to what decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID of the controlling owner; a generic ephemeral volume's claim is owned by its pod.
    pub owner: Option<String>,
    /// `spec.volumeName`; empty if the claim is not bound.
    pub volume: String,
}

/// A PersistentVolume, trimmed to what decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeView {
    /// Name.
    pub name: String,
    /// Its CSI source; `None` for a volume of another kind.
    pub csi: Option<CsiSource>,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiSource {
    /// Driver.
    pub driver: String,
    /// The driver's handle of the volume: any text.
    pub handle: String,
}

impl CsiSource {
    /// Name of the volume in `node.status.volumesAttached` and `volumesInUse`.
    pub fn attached_name(&self) -> String {
        format!("kubernetes.io/csi/{}^{}", self.driver, self.handle)
    }
}

/// A VolumeAttachment, trimmed to what decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentView {
    /// Name of the VolumeAttachment itself.
    pub name: String,
    /// `spec.attacher`: the CSI driver that attaches and detaches.
    pub driver: String,
    /// Name of the PersistentVolume; `None` for an inline volume.
    pub volume: Option<String>,
    /// Name of the node.
    pub node: String,
    /// `status.attached`. Stays true while the volume is being detached.
    pub attached: bool,
    /// True if it is being deleted: somebody has asked the driver to detach, and its finalizers keep it until then.
    pub deleting: bool,
    /// Error of the driver while attaching; empty if there is none.
    pub attach_error: String,
    /// Error of the driver while detaching; empty if there is none.
    pub detach_error: String,
}
