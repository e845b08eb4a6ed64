//! Options of writing calls: dry run and deletion, in the query and in the body.

use serde_json::Value;

use super::call::Query;
use crate::object;
use crate::refusal::Refusal;
use crate::write::{DeleteOptions, Preconditions};

/// True if the query asks for a dry run. The refusal of an unknown value names `options`.
pub(crate) fn dry_run(query: &Query, options: &str) -> Result<bool, Refusal> {
    is_all(query.text("dryRun"), options)
}

/// True if the body's `dryRun` list asks for a dry run.
pub(crate) fn dry_run_in(body: &Value) -> Result<bool, Refusal> {
    let mut is_dry = false;
    for value in object::items(body, "/dryRun") {
        is_dry |= is_all(value.as_str().unwrap_or_default(), "DeleteOptions")?;
    }
    Ok(is_dry)
}

fn is_all(value: &str, options: &str) -> Result<bool, Refusal> {
    match value {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            let problem = format!("Unsupported value: [\"{other}\"]: supported values: \"All\"");
            Err(Refusal::invalid(&format!("{options}.meta.k8s.io"), "", "dryRun", &problem))
        }
    }
}

/// The `DeleteOptions` of a body; the query's grace period counts if the body has none.
pub(crate) fn delete_options(body: &Value, query: &Query) -> Result<DeleteOptions, Refusal> {
    let precondition = |field: &str| {
        let pointer = format!("/preconditions/{field}");
        Some(object::text(body, &pointer)).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let of_query =
        query.number("gracePeriodSeconds")?.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
    Ok(DeleteOptions {
        grace_period: object::number(body, "/gracePeriodSeconds").or(of_query),
        preconditions: Preconditions {
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        },
    })
}
