//! The volumes of a pod that are attached to nodes: those of CSI drivers. Each volume is for one node at a time.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object::{self, items, text};
use crate::resources::{ATTACHMENTS, CLAIMS, VOLUMES};
use crate::store::Store;

/// A `PersistentVolume` that is attached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) driver: String,
    handle: String,
}

impl Volume {
    /// Name of the volume in a node's `volumesAttached` and `volumesInUse`.
    pub(super) fn attached_name(&self) -> String {
        format!("kubernetes.io/csi/{}^{}", self.driver, self.handle)
    }
}

/// The claims that a pod mounts, including those of its generic ephemeral volumes.
pub(super) fn claims(pod: &Value) -> BTreeSet<String> {
    let name = |volume: &Value| match text(volume, "/persistentVolumeClaim/claimName") {
        "" => volume.get("ephemeral").map(|_| format!("{}-{}", object::name(pod), text(volume, "/name"))),
        claim => Some(claim.to_owned()),
    };
    items(pod, "/spec/volumes").iter().filter_map(name).collect()
}

/// The attachable volumes of a pod; `None` while one of its claims has no volume.
pub(super) fn attachable_volumes(store: &Store, pod: &Value) -> Option<BTreeSet<Volume>> {
    let mut volumes = BTreeSet::new();
    for claim in claims(pod) {
        let claim = store.get(CLAIMS, object::namespace(pod), &claim)?;
        let volume = store.get(VOLUMES, "", text(claim, "/spec/volumeName"))?;
        volumes.extend(attachable(volume));
    }
    Some(volumes)
}

/// The volume, if it has a driver.
pub(super) fn attachable(volume: &Value) -> Option<Volume> {
    let driver = text(volume, "/spec/csi/driver");
    (!driver.is_empty()).then(|| Volume {
        name: object::name(volume).to_owned(),
        driver: driver.to_owned(),
        handle: text(volume, "/spec/csi/volumeHandle").to_owned(),
    })
}

/// True if the volume is attached to the node, so that it can be mounted.
pub(super) fn is_attached(store: &Store, volume: &Volume, node: &str) -> bool {
    store.objects(ATTACHMENTS).any(|attachment| {
        text(attachment, "/spec/source/persistentVolumeName") == volume.name
            && text(attachment, "/spec/nodeName") == node
            && object::flag(attachment, "/status/attached")
            && !object::is_terminating(attachment)
    })
}
