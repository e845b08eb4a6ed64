//! Renews a token that is bound to a Node, long before it expires.
//!
//! Such a token of a service account (TokenRequest with `boundObjectRef`) names in its claims the Node for which it was
//! made; admission policies can confine its user to that Node, and it expires with the Node object. It is in a file that
//! a kubeconfig names as `tokenFile`. An administrator makes the first one; after half of its life we ask for the next
//! one, for the same Node, audiences and time, while the old one is still valid.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use kube::core::Request;
use kube::core::params::PostParams;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::credentials::read_token;
use crate::failure::ApiFailure;
use crate::operation::{Operation, is_name};
use crate::wire::Cluster;
use trust::Trust;

/// A file with a token that may be bound to a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile {
    /// Path of the file.
    pub path: PathBuf,
    pub(crate) trust: Trust,
}

/// The result of checking a token.
#[derive(Clone, PartialEq, Eq)]
pub enum Renewal {
    /// The token is not bound to a Node: another party renews it.
    NotOurs,
    /// Less than half of its life is over, or the time is not known.
    NotDue,
    /// The next token, to be written to the file.
    Next(String),
}

/// Shows no token.
impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotOurs => "NotOurs",
            Self::NotDue => "NotDue",
            Self::Next(_) => "Next",
        })
    }
}

/// The claims that are needed, see `TokenRequest` of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Claims {
    aud: Vec<String>,
    iat: i64,
    exp: i64,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Kubernetes {
    namespace: String,
    serviceaccount: Named,
    node: Named,
    /// Set for a token of a pod, which names its node as well; the kubelet renews it.
    pod: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Named {
    name: String,
    uid: String,
}

impl TokenFile {
    /// Creates it for a file that counts only if it belongs to root or this process's user, and no other user may write
    /// it.
    pub fn new(path: PathBuf) -> Self {
        Self { path, trust: Trust::RootOrSelf }
    }

    /// Checks the token, and asks for the next one if it is time by the API server's clock. One call at most.
    ///
    /// # Errors
    /// The file cannot be read; or the call failed, or brought no token with a later end.
    pub async fn renew(&self, cluster: &Cluster) -> Result<Renewal, ApiFailure> {
        let text = read_token(self.path.clone(), self.trust).await.map_err(ApiFailure::other)?;
        let Some(claims) = claims_of(&text) else { return Ok(Renewal::NotOurs) };
        if !cluster.server_time().is_some_and(|now| is_due(&claims, now)) {
            return Ok(Renewal::NotDue);
        }
        request(cluster, &claims).await.map(Renewal::Next)
    }
}

/// The claims of a token; `None` if it is not bound to a Node, or also bound to a pod.
fn claims_of(token: &str) -> Option<Claims> {
    let claims = token.trim().split('.').nth(1)?;
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let is_sound = claims.exp > claims.iat && claims.kubernetes.pod.is_none();
    is_sound.then_some(claims)
}

/// True if half of the token's life is over.
fn is_due(claims: &Claims, now: Timestamp) -> bool {
    let middle = claims.iat.saturating_add(claims.exp.saturating_sub(claims.iat) / 2);
    now.as_second() >= middle
}

async fn request(cluster: &Cluster, claims: &Claims) -> Result<String, ApiFailure> {
    let Kubernetes { namespace, serviceaccount, node, .. } = &claims.kubernetes;
    let operation = Operation {
        verb: "create",
        resource: "serviceaccounts/token",
        namespace,
        name: &serviceaccount.name,
    };
    if !is_name(namespace) || !is_name(&serviceaccount.name) {
        return Err(ApiFailure::other(format!("cannot {operation}: no service account can have this name")));
    }
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "audiences": claims.aud,
            "expirationSeconds": claims.exp - claims.iat,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
        },
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let body = body.to_string().into_bytes();
    let call =
        Request::new(path).create_subresource("token", &serviceaccount.name, &PostParams::default(), body);
    let answer: Answer = cluster.fetch(&operation, call).await?;
    let token = answer.status.map(|status| status.token).unwrap_or_default();
    match claims_of(&token) {
        Some(next) if next.exp > claims.exp && next.kubernetes.node == *node => Ok(token),
        Some(_) | None => Err(ApiFailure::other(format!(
            "cannot {operation}: the API server sent no token that lives longer"
        ))),
    }
}

#[derive(Deserialize)]
struct Answer {
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    token: String,
}

#[cfg(test)]
mod tests;
