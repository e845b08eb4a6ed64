//! Asks the server which kinds it serves. A 404 alone is not enough, because any proxy in between can answer it.

use http::Request;
use serde::Deserialize;

use crate::failure::ApiFailure;
use crate::operation::Operation;
use crate::wire::Cluster;

/// A list of the served kinds: the kinds and subresources of one group and version, or the groups.
#[derive(Deserialize)]
pub(crate) struct Served {
    kind: Kind,
    #[serde(alias = "groups")]
    resources: Option<Vec<Named>>,
}

/// The kind that the list itself names; a list of another kind is not an API server's.
#[derive(Deserialize, PartialEq, Eq)]
enum Kind {
    #[serde(rename = "APIResourceList")]
    Resources,
    #[serde(rename = "APIGroupList")]
    Groups,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

impl Served {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.resources.iter().flatten().any(|served| served.name == name)
    }
}

impl Cluster {
    /// The resources or groups that are served at this path, such as `/api/v1`: one call.
    pub(crate) async fn served(&self, path: &'static str) -> Result<Served, ApiFailure> {
        let operation = Operation::on_cluster("get", path, "");
        let request = Request::get(path).body(Vec::new()).map_err(kube::core::request::Error::BuildRequest);
        self.fetch(&operation, request).await
    }

    /// True if the server itself says that it has no VolumeAttachments: one call, two if it lacks the whole group.
    pub(crate) async fn is_without_attachments(&self) -> Result<bool, ApiFailure> {
        match self.served("/apis/storage.k8s.io/v1").await {
            Ok(served) => Ok(served.kind == Kind::Resources && !served.has("volumeattachments")),
            Err(ApiFailure::NotFound { .. }) => {
                let served = self.served("/apis").await?;
                Ok(served.kind == Kind::Groups && !served.has("storage.k8s.io"))
            }
            Err(failure) => Err(failure),
        }
    }
}
