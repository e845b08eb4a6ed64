//! The API's answer to a request that it does not carry out: the `Status` object of Kubernetes.

use serde_json::{Value, json};

use crate::object;
use crate::resources::Resource;

/// An answer of the API that is not a success.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the API answered {code}: {message}")]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; a few answers have none.
    pub reason: Option<&'static str>,
    /// The text for people.
    pub message: String,
    /// The `details` of the answer: name, kind, causes.
    pub details: Option<Box<Value>>,
    /// Seconds in `details.retryAfterSeconds` and in the `Retry-After` header.
    pub retry_after: Option<u32>,
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason: Some(reason), message: message.into(), details: None, retry_after: None }
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", resource.qualified()))
            .with_details(resource.details(name))
    }

    /// The path is not served.
    pub(crate) fn unknown_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(json!({}))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(json!({}))
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", resource.qualified()))
            .with_details(resource.details(name))
    }

    /// The version that the caller sent is not the current one.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(409, "Conflict", message).with_details(resource.details(name))
    }

    /// A precondition of a deletion is not met. Here the server names the kind, not the resource.
    pub(crate) fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.kind);
        let mut details = json!({"name": name});
        if !resource.group.is_empty() {
            object::set(&mut details, &["group"], resource.group);
        }
        object::set(&mut details, &["kind"], resource.kind);
        Self::new(409, "Conflict", message).with_details(details)
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).with_details(resource.details(name))
    }

    /// A field of an object, or of the call's options, has a value that is not allowed.
    pub(crate) fn invalid(qualified_kind: &str, name: &str, field: &str, problem: &str) -> Self {
        let message = format!("{qualified_kind} \"{name}\" is invalid: {field}: {problem}");
        let (kind, group) = qualified_kind.split_once('.').unwrap_or((qualified_kind, ""));
        let mut details = json!({});
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                object::set(&mut details, &[key], value);
            }
        }
        let is_unsupported = problem.starts_with("Unsupported value");
        let reason = if is_unsupported { "FieldValueNotSupported" } else { "FieldValueInvalid" };
        let cause = json!({"reason": reason, "message": problem, "field": field});
        object::set(&mut details, &["causes"], json!([cause]));
        Self::new(422, "Invalid", message).with_details(details)
    }

    /// An object of `resource` has a field that is not allowed.
    pub(crate) fn invalid_object(resource: &Resource, name: &str, field: &str, problem: &str) -> Self {
        let kind = match resource.group {
            "" => resource.kind.to_owned(),
            group => format!("{}.{group}", resource.kind),
        };
        Self::invalid(&kind, name, field, problem)
    }

    pub(crate) fn unsupported_media_type(given: &str, accepted: &str) -> Self {
        let message = format!("the body's media type {given:?} is not supported, accepted are: {accepted}");
        Self::new(415, "UnsupportedMediaType", message).with_details(json!({}))
    }

    /// A read at a version that is no longer, or not yet, known.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A limit of the fake is reached; the text is that of a full etcd.
    pub(crate) fn full() -> Self {
        let mut refusal = Self::new(500, "InternalError", "etcdserver: mvcc: database space exceeded");
        refusal.reason = None;
        refusal
    }

    /// The `Status` object as the server sends it.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.message,
        });
        if let Some(reason) = self.reason {
            object::set(&mut status, &["reason"], reason);
        }
        if let Some(details) = &self.details {
            object::set(&mut status, &["details"], (**details).clone());
        }
        if let Some(seconds) = self.retry_after {
            object::set(&mut status, &["details", "retryAfterSeconds"], seconds);
        }
        object::set(&mut status, &["code"], self.code);
        status
    }
}
