//! What tells one cluster from another.

use kube::core::Request;
use kube::core::params::GetParams;
use serde::Deserialize;

use crate::failure::ApiFailure;
use crate::operation::Operation;
use crate::wire::Cluster;

/// The namespace that each cluster has from its first start to its end.
const NAMESPACE: &str = "kube-system";

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: Option<String>,
}

/// UID of the namespace `kube-system`; `None` if this user may not read it.
///
/// # Errors
/// The API server cannot be reached, does not accept our credentials (401), or gives no answer of use.
pub async fn cluster_uid(cluster: &Cluster) -> Result<Option<String>, ApiFailure> {
    let operation = Operation::on_cluster("get", "namespaces", NAMESPACE);
    let request = Request::new("/api/v1/namespaces").get(NAMESPACE, &GetParams::default());
    match cluster.fetch::<Namespace>(&operation, request).await {
        Ok(namespace) => Ok(namespace.metadata.uid.filter(|uid| !uid.is_empty())),
        // Of credentials that have expired it is not known what they may read.
        Err(failure @ ApiFailure::Denied { .. }) if cluster.is_refused() => Err(failure),
        Err(ApiFailure::Denied { .. } | ApiFailure::NotFound { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}
