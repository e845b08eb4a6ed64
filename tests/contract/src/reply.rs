//! An answer of the API, and its significant parts.

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Map, Value, json};

/// A whole HTTP answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status code.
    pub code: u16,
    /// Header `Retry-After`.
    pub retry_after: Option<String>,
    /// Headers `Warning`.
    pub warnings: Vec<String>,
    /// Header `Content-Type`.
    pub content_type: String,
    /// The body as text.
    pub body: String,
}

impl Reply {
    pub(crate) async fn read(response: http::Response<Body>) -> Result<Self> {
        let (head, body) = response.into_parts();
        let texts = |name: &str| {
            let values = head.headers.get_all(name).iter();
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>()
        };
        let body = body.collect().await.context("the answer broke off")?.to_bytes();
        Ok(Self {
            code: head.status.as_u16(),
            retry_after: texts("retry-after").pop(),
            warnings: texts("warning"),
            content_type: texts("content-type").pop().unwrap_or_default(),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// The object in the server's answer; fails unless the answer is a success.
    pub fn object(&self) -> Result<Value> {
        ensure!((200..300).contains(&self.code), "the server answered {}: {}", self.code, self.body);
        self.json()
    }

    /// The significant parts of a `Status`; fails if the answer is anything else.
    pub fn said(&self) -> Result<Said> {
        let mut status = self.json()?;
        let fields = status.as_object_mut().context("the body is no JSON object")?;
        let mut take = |key: &str| fields.remove(key);
        let common = [take("kind"), take("apiVersion"), take("metadata")];
        let expected = [json!("Status"), json!("v1"), json!({})].map(Some);
        ensure!(common == expected, "the answer {} is no Status: {}", self.code, self.body);
        Ok(Said {
            code: self.code,
            retry_after: self.retry_after.clone(),
            warnings: self.warnings.clone(),
            status,
        })
    }

    fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("not JSON: {}", self.body))
    }
}

/// The significant parts of a `Status`, of a success or a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    code: u16,
    retry_after: Option<String>,
    warnings: Vec<String>,
    /// The body without `kind`, `apiVersion` and `metadata`.
    status: Value,
}

impl Said {
    /// The success of an eviction.
    pub fn created() -> Self {
        Self::new(201, json!({"status": "Success", "code": 201}))
    }

    /// Adds the header `Retry-After` and the same number in `details`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds.to_string());
        if let Some(details) = self.status.pointer_mut("/details").and_then(Value::as_object_mut) {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        self
    }

    /// Adds a header `Warning`.
    #[must_use]
    pub fn warning(mut self, text: &str) -> Self {
        self.warnings.push(text.to_owned());
        self
    }

    /// Cuts the message after `text`, because the rest is random or comes from another program. If the message does not
    /// contain the text, it is not changed.
    #[must_use]
    pub fn cut_message_after(mut self, text: &str) -> Self {
        if let Some(Value::String(message)) = self.status.get_mut("message")
            && let Some(start) = message.find(text)
        {
            message.truncate(start + text.len());
        }
        self
    }

    fn new(code: u16, status: Value) -> Self {
        Self { code, retry_after: None, warnings: Vec::new(), status }
    }
}

/// A refusal. An empty reason and null details are left out of the status.
pub fn failure(code: u16, reason: &str, message: &str, details: Value) -> Said {
    let mut status = Map::new();
    status.insert("status".to_owned(), json!("Failure"));
    status.insert("message".to_owned(), json!(message));
    if !reason.is_empty() {
        status.insert("reason".to_owned(), json!(reason));
    }
    if !details.is_null() {
        status.insert("details".to_owned(), details);
    }
    status.insert("code".to_owned(), json!(code));
    Said::new(code, Value::Object(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, body: &str) -> Reply {
        Reply {
            code,
            retry_after: None,
            warnings: Vec::new(),
            content_type: "application/json".to_owned(),
            body: body.to_owned(),
        }
    }

    #[test]
    fn only_a_status_says_something() {
        let refusal = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "m", "reason": "R", "details": {}, "code": 400}"#;
        let expected = failure(400, "R", "m", json!({}));
        assert_eq!(reply(400, refusal).said().unwrap(), expected);
        assert_ne!(reply(401, refusal).said().unwrap(), expected, "the code of HTTP counts");
        assert_ne!(
            Reply { retry_after: Some("1".to_owned()), ..reply(400, refusal) }.said().unwrap(),
            expected
        );
        assert_ne!(Reply { warnings: vec!["w".to_owned()], ..reply(400, refusal) }.said().unwrap(), expected);
        for other in [r#"{"kind": "Pod"}"#, "{}", "[]", "Too many requests", ""] {
            assert!(reply(429, other).said().is_err(), "{other}");
        }
        for changed in [("Status", "Stat"), ("v1", "v2"), ("{}, \"status\"", "{\"a\": 1}, \"status\"")] {
            assert!(reply(400, &refusal.replacen(changed.0, changed.1, 1)).said().is_err(), "{changed:?}");
        }
    }

    #[test]
    fn a_message_is_cut_after_the_text_only() {
        let said = || failure(400, "", "not valid: at 3", Value::Null);
        assert_eq!(said().cut_message_after("valid"), failure(400, "", "not valid", Value::Null));
        assert_eq!(said().cut_message_after("other"), said());
    }

    #[test]
    fn an_object_is_a_success() {
        assert_eq!(reply(201, "{}").object().unwrap(), json!({}));
        assert!(reply(404, "{}").object().is_err());
        assert!(reply(200, "text").object().is_err());
    }
}
