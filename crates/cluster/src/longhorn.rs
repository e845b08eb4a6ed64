//! Longhorn's own rule for drains: its Setting `node-drain-policy`.

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams};
use serde::Deserialize;
use serde_json::json;

use crate::bounds::CALL_DEADLINE;
use crate::failure::ApiFailure;
use crate::objects::{needed_metadata, version};
use crate::operation::{Operation, TRIES};
use crate::wire::Cluster;

const NAMESPACE: &str = "longhorn-system";
const NAME: &str = "node-drain-policy";
const PATH: &str = "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/settings";

/// The result of setting the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainPolicy {
    /// Longhorn is not installed, or has no such setting yet.
    NotInstalled,
    /// The setting had this value already.
    Unchanged,
    /// The setting has this value now.
    Changed,
}

/// Sets Longhorn's policy for nodes that are drained (our setting `storage.longhorn.node-drain-policy`): it decides
/// when Longhorn allows the eviction of its instance-manager. The possible values and their meaning are Longhorn's. One
/// call if the value is set already, otherwise two; after a conflict it reads again at once. EVE's zedkube does the
/// same.
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
        text: format!("cannot {patch}: another client changed it in each of {TRIES} tries"),
    })
}

/// The fields of a Setting that are needed.
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

/// Makes the call; `None` if Longhorn is not installed: after a 404, whoever has sent it, there is no setting to
/// change.
async fn call(
    cluster: &Cluster,
    operation: &Operation<'_>,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Option<Setting>, ApiFailure> {
    let reply = cluster.call(operation, request, CALL_DEADLINE).await?;
    if reply.status == StatusCode::NOT_FOUND { Ok(None) } else { reply.object(operation).map(Some) }
}

#[cfg(test)]
mod tests;
