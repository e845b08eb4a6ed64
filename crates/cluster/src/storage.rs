//! The storage objects of a pod: claims, volumes, attachments and drivers, as the API server sends them, and trimmed to
//! the fields that decisions need.
//!
//! Every field of an object may be missing, and each case has a defined meaning. Nothing here fails or panics.

use std::borrow::Cow;
use std::collections::BTreeSet;

use drain::PodView;
use drain::storage::{AttachmentView, Attachments, ClaimView, CsiSource, VolumeView};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use serde::Deserialize;

use crate::failure::{ApiFailure, words};
use crate::objects::{needed_metadata, resource};
use crate::store::Key;

/// The fields of a PersistentVolumeClaim that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Claim {
    #[serde(default, deserialize_with = "needed_metadata")]
    pub(crate) metadata: ObjectMeta,
    spec: Option<ClaimSpec>,
}

/// The fields of a PersistentVolume that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Volume {
    #[serde(default, deserialize_with = "needed_metadata")]
    pub(crate) metadata: ObjectMeta,
    spec: Option<VolumeSpec>,
}

/// The fields of a VolumeAttachment that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Attachment {
    #[serde(default, deserialize_with = "needed_metadata")]
    pub(crate) metadata: ObjectMeta,
    spec: Option<AttachmentSpec>,
    status: Option<AttachmentStatus>,
}

/// The fields of a CSIDriver that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Driver {
    #[serde(default, deserialize_with = "needed_metadata")]
    pub(crate) metadata: ObjectMeta,
    spec: Option<DriverSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeSpec {
    csi: Option<Csi>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Csi {
    driver: Option<String>,
    volume_handle: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSpec {
    attacher: Option<String>,
    node_name: Option<String>,
    source: Option<AttachmentSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSource {
    persistent_volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentStatus {
    attached: Option<bool>,
    attach_error: Option<VolumeError>,
    detach_error: Option<VolumeError>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeError {
    message: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DriverSpec {
    attach_required: Option<bool>,
}

/// Namespace and name of each claim that these pods name.
pub(crate) fn named_claims<'a>(pods: impl IntoIterator<Item = &'a PodView>) -> BTreeSet<Key> {
    let keys =
        |pod: &'a PodView| pod.claims.iter().map(|claim| (pod.id.namespace.clone(), claim.name.clone()));
    pods.into_iter().flat_map(keys).collect()
}

/// Trims a PersistentVolumeClaim to what decisions need.
pub(crate) fn claim_view(claim: &Claim) -> ClaimView {
    let metadata = &claim.metadata;
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
    ClaimView {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        owner: owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone()),
        volume: volume.unwrap_or_default(),
    }
}

/// Trims a PersistentVolume to what decisions need. A CSI source without a driver or a handle counts as none.
pub(crate) fn volume_view(volume: &Volume) -> VolumeView {
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    VolumeView {
        name: volume.metadata.name.clone().unwrap_or_default(),
        csi: csi.and_then(|csi| {
            Some(CsiSource { driver: csi.driver.clone()?, handle: csi.volume_handle.clone()? })
        }),
    }
}

/// Trims a VolumeAttachment to what decisions need.
pub(crate) fn attachment_view(attachment: &Attachment) -> AttachmentView {
    let (spec, status) = (attachment.spec.as_ref(), attachment.status.as_ref());
    let text = |error: Option<&VolumeError>| {
        error.and_then(|error| error.message.as_deref()).map(words).unwrap_or_default()
    };
    AttachmentView {
        name: attachment.metadata.name.clone().unwrap_or_default(),
        driver: spec.and_then(|spec| spec.attacher.clone()).unwrap_or_default(),
        volume: spec.and_then(|spec| spec.source.as_ref()?.persistent_volume_name.clone()),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        attached: status.and_then(|status| status.attached).unwrap_or(false),
        deleting: attachment.metadata.deletion_timestamp.is_some(),
        attach_error: text(status.and_then(|status| status.attach_error.as_ref())),
        detach_error: text(status.and_then(|status| status.detach_error.as_ref())),
    }
}

/// True if the driver's volumes are never attached. If the field is missing they are: that is the API's default.
pub(crate) fn never_attaches(driver: &Driver) -> bool {
    driver.spec.as_ref().and_then(|spec| spec.attach_required) == Some(false)
}

/// The meaning of a failure to list VolumeAttachments.
pub(crate) fn without_attachments(failure: &ApiFailure) -> Attachments {
    match failure {
        ApiFailure::NotFound { .. } => Attachments::NotServed,
        ApiFailure::Denied { text }
        | ApiFailure::Unreachable { text }
        | ApiFailure::Conflict { text }
        | ApiFailure::Busy { text }
        | ApiFailure::Other { text } => Attachments::Unreadable(text.clone()),
    }
}

resource!(Claim, NamespaceResourceScope, "PersistentVolumeClaim", "", "v1", "persistentvolumeclaims");
resource!(Volume, ClusterResourceScope, "PersistentVolume", "", "v1", "persistentvolumes");
resource!(Attachment, ClusterResourceScope, "VolumeAttachment", "storage.k8s.io", "v1", "volumeattachments");
resource!(Driver, ClusterResourceScope, "CSIDriver", "storage.k8s.io", "v1", "csidrivers");

#[cfg(test)]
mod tests;
