//! Reads the body of an eviction request, with the server's error messages.

use serde_json::{Map, Value, json};

use crate::api::{Call, delete_options, dry_run_in};
use crate::object::{self, text};
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
const OPTION_FIELDS: &[&str] = &[
    "kind",
    "apiVersion",
    "gracePeriodSeconds",
    "preconditions",
    "orphanDependents",
    "propagationPolicy",
    "dryRun",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
];
const PRECONDITION_FIELDS: &[&str] = &["uid", "resourceVersion"];

/// Reads the body of an eviction request.
pub(crate) fn read(call: &Call) -> Result<Eviction, Refusal> {
    let body: Value = serde_json::from_slice(&call.body).map_err(|error| unrecognized(&error.to_string()))?;
    if !body.is_object() {
        return Err(unrecognized("the body is not a JSON map"));
    }
    check_kind(&body)?;
    let unknown_fields = match (call.query.text("fieldValidation"), unknown_fields(&body)) {
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

/// Kind and version may be left out; `v1beta1` is still accepted.
fn check_kind(body: &Value) -> Result<(), Refusal> {
    let (api_version, kind) = (text(body, "/apiVersion"), text(body, "/kind"));
    let fits = matches!(api_version, "" | "policy/v1" | "policy/v1beta1") && matches!(kind, "" | "Eviction");
    if fits { Ok(()) } else { Err(unrecognized(&format!("it is {kind} of {api_version}"))) }
}

fn unknown_fields(body: &Value) -> Vec<String> {
    let maps = [
        ("", body.as_object(), FIELDS),
        ("deleteOptions.", object::map(body, "/deleteOptions"), OPTION_FIELDS),
        (
            "deleteOptions.preconditions.",
            object::map(body, "/deleteOptions/preconditions"),
            PRECONDITION_FIELDS,
        ),
    ];
    let unknown = |(prefix, map, known): (&str, Option<&Map<String, Value>>, &[&str])| {
        let keys = map.into_iter().flat_map(Map::keys).filter(|key| !known.contains(&key.as_str()));
        keys.map(|key| format!("{prefix}{key}")).collect::<Vec<_>>()
    };
    maps.into_iter().flat_map(unknown).collect()
}

fn strict(unknown_fields: &[String]) -> Refusal {
    let problems: Vec<String> =
        unknown_fields.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    Refusal::bad_request(format!(
        "Eviction in version \"v1\" cannot be handled as a Eviction: strict decoding error: {}",
        problems.join(", ")
    ))
}
