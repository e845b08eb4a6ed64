//! Reads the body of an eviction request, with the server's error messages.

use serde_json::{Value, json};

use crate::api::{Call, delete_options, dry_run_in};
use crate::object;
use crate::refusal::Refusal;
use crate::write::DeleteOptions;

/// The content of an eviction request.
#[derive(Clone, Debug)]
pub(crate) struct Eviction {
    pub(crate) name: String,
    pub(crate) options: DeleteOptions,
    /// The body asks for a dry run. The query can ask for it too, and either is enough.
    pub(crate) is_dry_run: bool,
    /// Fields that the server does not know and warns about; empty if the caller ignores them.
    unknown_fields: Vec<String>,
}

impl Eviction {
    /// The values of `Warning` headers.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.unknown_fields.iter().map(|field| format!("299 - \"unknown field \\\"{field}\\\"\"")).collect()
    }
}

const FIELDS: &[&str] = &["kind", "apiVersion", "metadata", "deleteOptions"];

/// Reads the body of an eviction request.
pub(crate) fn read(call: &Call) -> Result<Eviction, Refusal> {
    let body: Value = serde_json::from_slice(&call.body).map_err(|error| unrecognized(&error.to_string()))?;
    let fields = body.as_object().ok_or_else(|| unrecognized("the body is not a JSON map"))?;
    let unknown: Vec<String> = fields.keys().filter(|key| !FIELDS.contains(&key.as_str())).cloned().collect();
    let unknown_fields = match (call.query.text("fieldValidation"), unknown) {
        ("Ignore", _) => Vec::new(),
        ("Strict", unknown) if !unknown.is_empty() => return Err(strict(&unknown)),
        (_, unknown) => unknown,
    };
    let namespace = object::namespace(&body);
    if !namespace.is_empty() && namespace != call.namespace() {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let none = json!({});
    let options = body.get("deleteOptions").filter(|options| !options.is_null()).unwrap_or(&none);
    Ok(Eviction {
        name: object::name(&body).to_owned(),
        options: delete_options(options, &call.query)?,
        is_dry_run: dry_run_in(options)?,
        unknown_fields,
    })
}

fn unrecognized(problem: &str) -> Refusal {
    Refusal::bad_request(format!("the object provided is unrecognized (must be of type Eviction): {problem}"))
}

fn strict(unknown_fields: &[String]) -> Refusal {
    let problems: Vec<String> =
        unknown_fields.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    Refusal::bad_request(format!(
        "Eviction in version \"v1\" cannot be handled as a Eviction: strict decoding error: {}",
        problems.join(", ")
    ))
}
