//! Views of what a pod's volumes hang on: claims, volumes, attachments.

/// The known facts about volumes. `cluster` fills them in as soon as a pod of the node has a claim, and in each proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// PersistentVolumeClaims; at least those that pods of the node name. A claim that does not exist is listed as
    /// well, unbound: a claim that is not listed has not been asked for yet.
    pub claims: Vec<ClaimView>,
    /// Why claims cannot be read, if they cannot: then nothing tells which volumes a pod has.
    pub claims_unreadable: Option<String>,
    /// PersistentVolumes; at least those that these claims are bound to.
    pub volumes: Vec<VolumeView>,
    /// CSI drivers that never attach (`CSIDriver.spec.attachRequired: false`).
    pub drivers_without_attach: Vec<String>,
    /// VolumeAttachments: all of this node, and at least those of the volumes above.
    pub attachments: Attachments,
    /// Another node is Ready and takes pods. `None`: not known.
    pub peer_takes_pods: Option<bool>,
}

/// The known VolumeAttachments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Attachments {
    /// They were not asked for: no pod of the node has had a claim yet.
    #[default]
    NotAsked,
    /// The API server does not have them: only `node.status.volumesAttached` tells.
    NotServed,
    /// They cannot be read, so nothing proves that a volume is detached.
    Unreadable(String),
    /// The existing ones.
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
    /// `spec.volumeName`; empty as long as the claim is not bound.
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
    /// The name that the volume has in `node.status.volumesAttached` and `volumesInUse`.
    pub fn attached_name(&self) -> String {
        format!("kubernetes.io/csi/{}^{}", self.driver, self.handle)
    }
}

/// A VolumeAttachment, trimmed to what decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentView {
    /// Its own name.
    pub name: String,
    /// `spec.attacher`: the CSI driver that attaches and detaches.
    pub driver: String,
    /// Name of the PersistentVolume; `None` for an inline volume.
    pub volume: Option<String>,
    /// Name of the node.
    pub node: String,
    /// `status.attached`. Stays true while the volume is being detached.
    pub attached: bool,
    /// The driver's error while detaching; empty if there is none.
    pub detach_error: String,
}
