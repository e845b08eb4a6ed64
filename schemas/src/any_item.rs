//! An item of a topic whose type need not be known: any JSON object.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Topic;

/// So many are named.
const MOST_NAMED: usize = 8;

/// Prefix of the name of a large field (EVE's `pubsub/large.go`).
const LARGE: &str = "pubsub-large-";

/// Any JSON object: its fields in the order and with the names that the text has.
///
/// Two are equal when they have equal fields, in whatever order. Of repeated fields the last counts. A number is a whole
/// one of 64 bits or a float, as for EVE's Go agents; others become the nearest float.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnyItem(pub Map<String, Value>);

impl Topic for AnyItem {
    /// Shown in messages only: where the items are says the place.
    const NAME: &'static str = "the item";
}

impl AnyItem {
    /// The paths of fields that this item has and that are not in what is `written` of it: most are misspelled. Names in
    /// any letter case are the same. Null counts as not given. Not all of many are named.
    pub fn left_out(&self, written: &Self) -> Vec<String> {
        let mut paths = Vec::new();
        of_object(&self.0, &written.0, "", &mut paths);
        paths.truncate(MOST_NAMED);
        paths
    }

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

fn of_object(
    given: &Map<String, Value>,
    written: &Map<String, Value>,
    before: &str,
    paths: &mut Vec<String>,
) {
    for (name, value) in given {
        let path = format!("{before}{name}");
        let kept = written.iter().find(|(other, _)| name.eq_ignore_ascii_case(other));
        match kept {
            Some((_, kept)) => of_value(value, kept, &path, paths),
            None if value.is_null() => {}
            None => paths.push(path),
        }
    }
}

fn of_value(given: &Value, written: &Value, path: &str, paths: &mut Vec<String>) {
    match (given, written) {
        (Value::Object(given), Value::Object(written)) => {
            of_object(given, written, &format!("{path}."), paths);
        }
        (Value::Array(given), Value::Array(written)) => {
            for (index, (given, written)) in given.iter().zip(written).enumerate() {
                of_value(given, written, &format!("{path}[{index}]"), paths);
            }
        }
        _ => {}
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

    #[track_caller]
    fn check_left_out(given: &Value, written: &Value, expected: &[&str]) {
        let item = |value: &Value| AnyItem(value.as_object().unwrap().clone());
        let paths = item(given).left_out(&item(written));
        assert_eq!(paths, expected, "{given}");
    }

    #[test]
    fn what_is_not_written_is_named() {
        let written = json!({"Status": 5, "Pods": [{"Name": "a"}, {"Name": "b"}], "Slot": {"Held": true}});
        check_left_out(&written, &written, &[]);
        check_left_out(&json!({"status": 5, "PODS": []}), &written, &[]);
        check_left_out(&json!({"Statsu": 5, "Other": null}), &written, &["Statsu"]);
        let nested = json!({"Pods": [{"Name": "a"}, {"Nmae": "b"}], "Slot": {"Heldd": 1}});
        check_left_out(&nested, &written, &["Pods[1].Nmae", "Slot.Heldd"]);
        let many: Map<String, Value> = (0..20).map(|n| (format!("f{n:02}"), json!(n))).collect();
        assert_eq!(AnyItem(many).left_out(&AnyItem(Map::new())).len(), MOST_NAMED);
    }
}
