//! PATCH: the two patch formats, applied to an object in memory.

mod merge;
mod strategic;

use serde_json::Value;

use crate::refusal::Refusal;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The object after the patch. JSON patch and server-side apply are not supported.
pub(crate) fn apply(content_type: &str, object: &Value, patch: &[u8]) -> Result<Value, Refusal> {
    if ![MERGE, STRATEGIC].contains(&content_type) {
        return Err(Refusal::unsupported_media_type(content_type, &[MERGE, STRATEGIC].join(", ")));
    }
    let patch: Value = serde_json::from_slice(patch)
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
    let mut patched = object.clone();
    if content_type == MERGE {
        merge::apply(&mut patched, &patch);
    } else {
        strategic::apply(&mut patched, patch);
    }
    Ok(patched)
}
