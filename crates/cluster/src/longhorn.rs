//! Longhorn's own word on drains: its Setting `node-drain-policy`.

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams};
use serde::Deserialize;
use serde_json::json;

use crate::failure::ApiFailure;
use crate::objects::{needed_metadata, version};
use crate::operation::{Operation, TRIES};
use crate::wire::{CALL_DEADLINE, Cluster};

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
/// there is nothing to do, else two; a conflict reads again at once. EVE's zedkube does the same.
pub async fn set_node_drain_policy(cluster: &Cluster, policy: &str) -> Result<DrainPolicy, ApiFailure> {
    for _ in 0..TRIES {
        let Some(found) = get(cluster).await? else { return Ok(DrainPolicy::NotInstalled) };
        if found.value.as_deref() == Some(policy) {
            return Ok(DrainPolicy::Unchanged);
        }
        match set(cluster, &found, policy).await {
            Ok(Some(_)) => return Ok(DrainPolicy::Changed),
            Ok(None) => return Ok(DrainPolicy::NotInstalled),
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

async fn get(cluster: &Cluster) -> Result<Option<Setting>, ApiFailure> {
    call(cluster, &operation("get"), Request::new(PATH).get(NAME, &GetParams::default())).await
}

async fn set(cluster: &Cluster, found: &Setting, policy: &str) -> Result<Option<Setting>, ApiFailure> {
    let operation = operation("patch");
    let version = version(&operation, &found.metadata)?;
    let body = json!({"metadata": {"resourceVersion": version}, "value": policy});
    let request = Request::new(PATH).patch(NAME, &PatchParams::default(), &Patch::Merge(body));
    call(cluster, &operation, request).await
}

/// `None` where Longhorn is not installed: whatever answers 404 here, there is nothing to set now.
async fn call(
    cluster: &Cluster,
    operation: &Operation<'_>,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Option<Setting>, ApiFailure> {
    let reply = cluster.call(operation, request, CALL_DEADLINE).await?;
    if reply.status == StatusCode::NOT_FOUND { Ok(None) } else { reply.object(operation).map(Some) }
}

#[cfg(test)]
#[path = "longhorn_tests.rs"]
mod tests;
