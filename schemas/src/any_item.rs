//! An item of a topic whose type need not be known: any JSON object.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Topic;

/// Prefix of the name of a large field (EVE's `pubsub/large.go`).
const LARGE: &str = "pubsub-large-";

/// Any JSON object: its fields in the order and with the names that the text has.
///
/// Two are equal when they have equal fields, in whatever order. Of repeated fields the last counts. A number is a whole
/// one of 64 bits or a float, as for EVE's Go agents; others become the nearest float.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnyItem(Map<String, Value>);

impl Topic for AnyItem {
    /// Shown in messages only: where the items are says the place.
    const NAME: &'static str = "the item";
}

impl AnyItem {
    /// The item has one of EVE's large fields, empty or not. On a socket EVE's publishers send them as files of their own,
    /// which only EVE's reader removes; the item's file has them in full.
    pub fn has_large_field(&self) -> bool {
        self.0.iter().any(is_large)
    }
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
    use crate::{parse, to_bytes};

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let got = parse::<AnyItem>(text.as_bytes());
        let got =
            got.map(|item| String::from_utf8(to_bytes(&item)).unwrap()).map_err(|error| error.to_string());
        assert_eq!(got, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
    }

    #[test]
    fn any_object_comes_back_as_it_was() {
        for text in [
            "{}",
            r#"{"b":1,"a":[{"Z":null,"y":{}},[],""],"A":true,"B":-2.5}"#,
            r#"{"n":18446744073709551615,"m":-9223372036854775808}"#,
            r#"{"text":"\u003cb\u003e\u0001 é"}"#,
        ] {
            check(text, Ok(text));
        }
        check(" { \"b\" : 1 ,\n\"a\" : 2 }\n", Ok(r#"{"b":1,"a":2}"#));
        check(r#"{"a":1,"b":2,"a":3}"#, Ok(r#"{"a":3,"b":2}"#));
        check(r#"{"n":18446744073709551616}"#, Ok(r#"{"n":1.8446744073709552e+19}"#));
    }

    #[test]
    fn anything_else_is_refused() {
        let object = "a JSON object";
        for (text, found) in [
            ("", "the text is empty"),
            ("[1]", "the text is a list"),
            ("null", "the text is null"),
            ("7", "the text is a number"),
        ] {
            check(text, Err(&format!("cannot read the item: {found}; accepted: {object}")));
        }
        for text in
            ["{", "{\"a\":}", "{\"a\":1e999}", &format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200))]
        {
            assert!(parse::<AnyItem>(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_order_of_fields_has_no_meaning() {
        let item = |text: &str| parse::<AnyItem>(text.as_bytes()).unwrap();
        for (one, other, is_equal) in [
            (r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{"b":{"d":3,"c":2},"a":1}"#, true),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
            (r#"{"a":1}"#, r#"{"A":1}"#, false),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
            (r#"{"a":null}"#, "{}", false),
        ] {
            assert_eq!(item(one) == item(other), is_equal, "{one} {other}");
        }
    }

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
