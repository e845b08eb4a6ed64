//! The volumes of a pod that are attached to nodes: those of a CSI driver that requires attaching.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object::{self, at, items, text};
use crate::resources::{ATTACHMENTS, CLAIMS, CSI_DRIVERS, VOLUMES};
use crate::store::{Object, Store};

/// A `PersistentVolume` that is attached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) driver: String,
    handle: String,
    /// Several nodes may have the volume at the same time.
    pub(super) is_shared: bool,
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
        volumes.extend(attachable(store, volume));
    }
    Some(volumes)
}

/// The volume, if its driver requires attaching.
pub(super) fn attachable(store: &Store, volume: &Object) -> Option<Volume> {
    let driver = text(volume, "/spec/csi/driver");
    let wants = |found: &Object| at(found, "/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true);
    let is_attached = !driver.is_empty() && store.get(CSI_DRIVERS, "", driver).is_none_or(wants);
    let is_many = |mode: &Value| mode.as_str().is_some_and(|mode| mode.ends_with("Many"));
    is_attached.then(|| Volume {
        name: object::name(volume).to_owned(),
        driver: driver.to_owned(),
        handle: text(volume, "/spec/csi/volumeHandle").to_owned(),
        is_shared: items(volume, "/spec/accessModes").iter().any(is_many),
    })
}

/// True if the volume is attached to the node, so that it can be mounted.
pub(super) fn is_attached(store: &Store, volume: &Volume, node: &str) -> bool {
    store.objects(ATTACHMENTS).any(|attachment| {
        is_of(attachment, &volume.name, node)
            && object::flag(attachment, "/status/attached")
            && !object::is_terminating(attachment)
    })
}

/// True if the attachment is that of this volume and this node.
pub(super) fn is_of(attachment: &Value, volume: &str, node: &str) -> bool {
    text(attachment, "/spec/source/persistentVolumeName") == volume
        && text(attachment, "/spec/nodeName") == node
}
