//! Calls the HTTP API and shows each answer as it is.

use anyhow::{Context, Result};
use cluster::Cluster;
use http::Request;
use http::header::CONTENT_TYPE;
use kube::client::Body;
use serde_json::Value;

use crate::reply::Reply;
use crate::watch::{Objects, Watch};

const JSON: &str = "application/json";

/// The format of a PATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// RFC 7396: null removes a field.
    Merge,
    /// Kubernetes' own format: lists are merged by key.
    Strategic,
}

impl Change {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// Sends calls as one user, with the client that our agents use.
#[derive(Clone, Debug)]
pub struct Caller {
    cluster: Cluster,
}

impl Caller {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster }
    }

    /// The same server and user as our agents' `Cluster`.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Sends a GET.
    pub async fn get(&self, path: &str) -> Result<Reply> {
        self.send("GET", path, JSON, "").await
    }

    /// Sends a POST with a JSON object.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Reply> {
        self.send("POST", path, JSON, &object.to_string()).await
    }

    /// Sends a POST with any text, as JSON.
    pub async fn post_text(&self, path: &str, text: &str) -> Result<Reply> {
        self.send("POST", path, JSON, text).await
    }

    /// Sends a PUT.
    pub async fn put(&self, path: &str, object: &Value) -> Result<Reply> {
        self.send("PUT", path, JSON, &object.to_string()).await
    }

    /// Sends a PATCH.
    pub async fn patch(&self, path: &str, form: Change, patch: &Value) -> Result<Reply> {
        self.send("PATCH", path, form.content_type(), &patch.to_string()).await
    }

    /// Sends a DELETE with these `DeleteOptions`.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Reply> {
        self.send("DELETE", path, JSON, &options.to_string()).await
    }

    /// Sends a DELETE with any text as its body, or none.
    pub async fn delete_with(&self, path: &str, text: &str) -> Result<Reply> {
        self.send("DELETE", path, JSON, text).await
    }

    /// Opens a watch on a collection; `path` must have no query. Fails unless the server begins a watch.
    pub async fn watch(&self, path: &str, query: &str) -> Result<Watch> {
        let path = format!("{path}?watch=true&{query}");
        let response = self.request("GET", &path, JSON, "").await?;
        if response.status().as_u16() != 200 {
            let reply = Reply::read(response).await?;
            anyhow::bail!("GET {path} answered {}: {}", reply.code, reply.body);
        }
        Ok(Watch::new(response.into_body()))
    }

    /// Waits until `look` returns a value for the objects of a collection; it is called again after every change.
    /// `query` may contain selectors.
    pub async fn until_all<T>(
        &self,
        what: &str,
        path: &str,
        query: &str,
        look: impl FnMut(&Objects) -> Option<T>,
    ) -> Result<T> {
        crate::watch::until(self, what, path, query, look).await
    }

    /// As [`Caller::until_all`], for one object; `look` gets null if the object does not exist.
    pub async fn until<T>(
        &self,
        what: &str,
        path: &str,
        mut look: impl FnMut(&Value) -> Option<T>,
    ) -> Result<T> {
        let (collection, name) = path.rsplit_once('/').context("a path without a name")?;
        let query = format!("fieldSelector=metadata.name%3D{name}");
        self.until_all(what, collection, &query, |objects| look(objects.get(name).unwrap_or(&Value::Null)))
            .await
    }

    async fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> Result<Reply> {
        Reply::read(self.request(method, path, content_type, body).await?).await
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Result<http::Response<Body>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, content_type)
            .body(Body::from(body.to_owned().into_bytes()))?;
        self.cluster.client().send(request).await.with_context(|| format!("{method} {path}"))
    }
}
