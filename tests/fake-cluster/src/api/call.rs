//! Reads a request: its verb and the object that it is about.

use std::collections::BTreeMap;

use http::Method;
use hyper::body::Bytes;
use serde_json::Value;

use crate::refusal::Refusal;
use crate::resources::{RESOURCES, Resource};

/// One request to the API.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
}

/// The verbs of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    /// A method that is no known verb.
    Other,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }
}

/// The target of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Objects of a kind.
    Objects(Objects),
    /// Any other path: discovery, health, unknown paths.
    Path(String),
}

/// A kind, with the namespace, name and subresource of the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) resource: &'static Resource,
    /// Empty for all namespaces and for cluster-wide kinds.
    pub(crate) namespace: String,
    pub(crate) name: Option<String>,
    /// `status`, `eviction`; empty for the object itself.
    pub(crate) subresource: String,
}

impl Call {
    pub(crate) fn new(method: &Method, uri: &http::Uri, content_type: &str, body: Bytes) -> Self {
        let query = Query::parse(uri.query().unwrap_or_default());
        let target = Target::of(uri.path());
        let verb = verb(method, &target, &query);
        let content_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Self { verb, target, query, content_type, body }
    }

    /// The resource as the audit log names it, such as `pods/eviction`; for any other target the path.
    pub(crate) fn resource(&self) -> String {
        match &self.target {
            Target::Path(path) => path.clone(),
            Target::Objects(objects) if objects.subresource.is_empty() => objects.resource.plural.to_owned(),
            Target::Objects(objects) => format!("{}/{}", objects.resource.plural, objects.subresource),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        match &self.target {
            Target::Path(_) => "",
            Target::Objects(objects) => &objects.namespace,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match &self.target {
            Target::Path(_) => "",
            Target::Objects(objects) => objects.name.as_deref().unwrap_or_default(),
        }
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Value, Refusal> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::bad_request(format!("the body of the request is not JSON: {error}")))
    }
}

fn verb(method: &Method, target: &Target, query: &Query) -> Verb {
    let Target::Objects(objects) = target else {
        return if *method == Method::GET { Verb::Get } else { Verb::Other };
    };
    match *method {
        Method::GET if objects.name.is_some() => Verb::Get,
        Method::GET if query.flag("watch") => Verb::Watch,
        Method::GET => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if objects.name.is_some() => Verb::Delete,
        _ => Verb::Other,
    }
}

impl Target {
    fn of(path: &str) -> Self {
        objects(path).map_or_else(|| Self::Path(path.to_owned()), Self::Objects)
    }
}

fn objects(path: &str) -> Option<Objects> {
    let segments: Vec<String> = path.split('/').skip(1).map(|segment| decode(segment, false)).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if segments.contains(&"") {
        return None;
    }
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        // `namespaces/x/status` is a part of the namespace itself.
        ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, ""),
        [plural, name] => (plural, Some(*name), ""),
        [plural, name, subresource] => (plural, Some(*name), *subresource),
        _ => return None,
    };
    let is_served = |resource: &&Resource| {
        resource.plural == *plural && resource.group == group && resource.version == version
    };
    let resource = RESOURCES.iter().copied().find(is_served)?;
    // A namespaced object needs its namespace in the URL, and a cluster-wide kind must not have one.
    let has_namespace = !namespace.is_empty();
    let fits = if resource.is_namespaced() { has_namespace || name.is_none() } else { !has_namespace };
    fits.then(|| Objects {
        resource,
        namespace: namespace.to_owned(),
        name: name.map(str::to_owned),
        subresource: subresource.to_owned(),
    })
}

/// The parameters of a URL; if one is repeated, the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// The value of the parameter; `""` if it is missing.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.text(key), "true" | "1" | "True" | "TRUE" | "t" | "T")
    }

    /// A whole number that is not negative; an empty parameter counts as absent.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Refusal> {
        let text = self.text(key);
        if text.is_empty() {
            return Ok(None);
        }
        let problem =
            |_| Refusal::bad_request(format!("Invalid value: \"{text}\": {key} must be a whole number"));
        text.parse().map(Some).map_err(problem)
    }
}

/// Decodes percent encoding; bytes that are not UTF-8 are replaced.
fn decode(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = if *first == b'%' { escaped(tail) } else { None };
        let plain = if plus_is_space && *first == b'+' { b' ' } else { *first };
        let (byte, next) = escaped.unwrap_or((plain, tail));
        bytes.push(byte);
        rest = next;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte of two hexadecimal digits, and the rest of the text.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = text else { return None };
    Some((hex(*high)? * 16 + hex(*low)?, rest))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
