//! What the server serves, by its own word: any proxy in between can say 404.

use http::Request;
use serde::Deserialize;

use crate::failure::ApiFailure;
use crate::operation::Operation;
use crate::wire::Cluster;

/// A list of what is served: the kinds and subresources of one group and version, or the groups.
#[derive(Deserialize)]
pub(crate) struct Served {
    kind: Kind,
    #[serde(alias = "groups")]
    resources: Option<Vec<Named>>,
}

/// What the list says it is: anything else is no API server's.
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
    /// What is served at this path, such as `/api/v1`: one call.
    pub(crate) async fn served(&self, path: &'static str) -> Result<Served, ApiFailure> {
        let operation = Operation::on_cluster("get", path, "");
        let request = Request::get(path).body(Vec::new()).map_err(kube::core::request::Error::BuildRequest);
        self.fetch(&operation, request).await
    }

    /// The server says itself that it has no VolumeAttachments: one call, two if it lacks the whole group.
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
