//! EVE's large fields: on a socket EVE's publishers send them as files of their own, which only EVE's reader removes. The
//! item's file has them in full.

use anyhow::bail;
use pubsub::{TopicPlace, read_items_of};
use serde_json::Value;

use super::any::AnyItem;

/// How the name of such a field begins (EVE's `pubsub/large.go`).
const LARGE: &str = "pubsub-large-";

/// Refuses to read a topic by socket when an item of it has such a field, empty or not: each reading would leave files
/// behind on the device.
pub(super) fn refuse_large_fields(place: &TopicPlace) -> anyhow::Result<()> {
    let read = read_items_of::<AnyItem>(place);
    if read.items.values().any(|item| item.0.iter().any(is_large)) {
        bail!(
            "{place} is not read by socket: each time EVE would leave its large fields behind as files in \
             /persist/pubsub-large; without --socket the files are read, and have all of it"
        );
    }
    Ok(())
}

fn is_large((name, value): (&String, &Value)) -> bool {
    name.starts_with(LARGE) || holds_large(value)
}

fn holds_large(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(is_large),
        Value::Array(items) => items.iter().any(holds_large),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_field_is_found_at_any_depth() {
        for (value, expected) in [
            (json!({"pubsub-large-CipherData": null}), true),
            (json!({"a": [1, {"b": {"pubsub-large-CipherData": "x"}}]}), true),
            (json!({"a": "pubsub-large-CipherData", "pubsub": 1}), false),
            (json!({}), false),
        ] {
            assert_eq!(holds_large(&value), expected, "{value}");
        }
    }
}
