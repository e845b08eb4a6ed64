//! A complete HTTP answer, from the server or from a fault.

use hyper::body::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::refusal::Refusal;

/// An answer: status code, headers and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status code; a code that HTTP does not know is sent as 500.
    pub code: u16,
    /// Names and values of headers besides the content type; values that HTTP forbids are left out.
    pub headers: Vec<(String, String)>,
    /// The `content-type` header.
    pub content_type: String,
    /// The body, sent as it is.
    pub body: Bytes,
}

impl Reply {
    /// A JSON body. The server ends it with a line feed, as Kubernetes does.
    pub fn json(code: u16, body: &Value) -> Self {
        Self::serialized(code, body)
    }

    /// A plain text body.
    pub fn text(code: u16, body: impl Into<String>) -> Self {
        Self {
            code,
            headers: Vec::new(),
            content_type: "text/plain; charset=utf-8".to_owned(),
            body: Bytes::from(body.into()),
        }
    }

    /// The refusal by priority and fairness, or for too many requests in flight: plain text and one second to wait.
    pub fn too_many_requests() -> Self {
        Self::text(429, "Too many requests, please try again later.\n").header("Retry-After", "1")
    }

    /// The refusal of a user without the right: a 403 without causes.
    pub fn forbidden(user: &str, verb: &str, resource: &str, namespace: &str, name: &str) -> Self {
        let (kind, _) = resource.split_once('/').unwrap_or((resource, ""));
        let message = format!(
            "{kind} \"{name}\" is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"\" \
             in the namespace \"{namespace}\""
        );
        let details = serde_json::json!({"name": name, "kind": kind});
        Self::from(&Refusal::new(403, "Forbidden", message).with_details(details))
    }

    /// The denial by an admission webhook, which chooses the code itself.
    pub fn webhook_denial(code: u16, webhook: &str, text: &str) -> Self {
        let mut refusal =
            Refusal::new(code, "", format!("admission webhook \"{webhook}\" denied the request: {text}"));
        refusal.reason = None;
        Self::from(&refusal)
    }

    /// The denial by a `ValidatingAdmissionPolicy` with a binding of the same name: a 403 with a cause that has no
    /// reason.
    pub fn policy_denial(policy: &str, pod: &str, why: &str) -> Self {
        let denial =
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {why}");
        let message = format!("pods \"{pod}\" is forbidden: {denial}");
        let details = serde_json::json!({"name": pod, "kind": "pods", "causes": [{"message": denial}]});
        Self::from(&Refusal::new(403, "Forbidden", message).with_details(details))
    }

    /// The answer of a server whose etcd hangs: 504 without `Retry-After`.
    pub fn timeout() -> Self {
        let message =
            "Timeout: request did not complete within requested timeout - context deadline exceeded";
        Self::from(&Refusal::new(504, "Timeout", message).with_details(serde_json::json!({})))
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn serialized(code: u16, body: &impl Serialize) -> Self {
        // Values with text keys can always be serialized; a mistake would show as an empty body.
        let mut bytes = serde_json::to_vec(body).unwrap_or_default();
        bytes.push(b'\n');
        Self {
            code,
            headers: Vec::new(),
            content_type: "application/json".to_owned(),
            body: Bytes::from(bytes),
        }
    }
}

impl From<&Refusal> for Reply {
    fn from(refusal: &Refusal) -> Self {
        let reply = Self::json(refusal.code, &refusal.status());
        match refusal.retry_after {
            Some(seconds) => reply.header("Retry-After", &seconds.to_string()),
            None => reply,
        }
    }
}
