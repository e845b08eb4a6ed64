//! Longhorn's own word on drains: its Setting `node-drain-policy`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams};
use serde::Deserialize;
use serde_json::json;

use crate::failure::ApiFailure;
use crate::objects::{needed_metadata, version};
use crate::operation::{Operation, TRIES};
use crate::wire::Cluster;

const NAMESPACE: &str = "longhorn-system";
const NAME: &str = "node-drain-policy";
const PATH: &str = "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/settings";

/// What became of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainPolicy {
    /// There is no Longhorn, or it has no such setting yet.
    NotInstalled,
    /// It was this one already.
    Unchanged,
    /// It is this one now.
    Changed,
}

/// Makes this Longhorn's policy about nodes that are drained (setting `storage.longhorn.node-drain-policy`): it says
/// when Longhorn lets its instance-manager go. What the words mean, and which there are, Longhorn knows. One call if
/// there is nothing to do, else two; a conflict reads again at once. EVE's zedkube does the same (`eve.md` 3.7).
pub async fn set_node_drain_policy(cluster: &Cluster, policy: &str) -> Result<DrainPolicy, ApiFailure> {
    for _ in 0..TRIES {
        let found = match get(cluster).await {
            Ok(found) => found,
            Err(ApiFailure::NotFound { .. }) => return Ok(DrainPolicy::NotInstalled),
            Err(failure) => return Err(failure),
        };
        if found.value.as_deref() == Some(policy) {
            return Ok(DrainPolicy::Unchanged);
        }
        match set(cluster, &found, policy).await {
            Ok(_) => return Ok(DrainPolicy::Changed),
            Err(ApiFailure::NotFound { .. }) => return Ok(DrainPolicy::NotInstalled),
            Err(ApiFailure::Conflict { .. }) => {}
            Err(failure) => return Err(failure),
        }
    }
    let patch = operation("patch");
    Err(ApiFailure::Conflict {
        text: format!("cannot {patch}: somebody else changed it each of {TRIES} times"),
    })
}

/// The needed part of a Setting.
#[derive(Debug, Deserialize)]
struct Setting {
    #[serde(default, deserialize_with = "needed_metadata")]
    metadata: ObjectMeta,
    value: Option<String>,
}

fn operation(verb: &'static str) -> Operation<'static> {
    Operation { verb, resource: "settings.longhorn.io", namespace: NAMESPACE, name: NAME }
}

async fn get(cluster: &Cluster) -> Result<Setting, ApiFailure> {
    cluster.fetch(&operation("get"), Request::new(PATH).get(NAME, &GetParams::default())).await
}

async fn set(cluster: &Cluster, found: &Setting, policy: &str) -> Result<Setting, ApiFailure> {
    let operation = operation("patch");
    let version = version(&operation, &found.metadata)?;
    let body = json!({"metadata": {"resourceVersion": version}, "value": policy});
    let request = Request::new(PATH).patch(NAME, &PatchParams::default(), &Patch::Merge(body));
    cluster.fetch(&operation, request).await
}

#[cfg(test)]
#[path = "longhorn_tests.rs"]
mod tests;
