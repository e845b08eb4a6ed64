//! Fields of a text that its type does not have: most are misspelled.

use serde_json::{Map, Value};

/// So many are named.
const MOST_NAMED: usize = 8;

/// The paths of fields that are given, but not in what is written: names in any letter case are the same. Null counts as
/// not given.
pub(super) fn left_out(given: &Map<String, Value>, written: &Map<String, Value>) -> Vec<String> {
    let mut paths = Vec::new();
    of_object(given, written, "", &mut paths);
    paths.truncate(MOST_NAMED);
    paths
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

    #[track_caller]
    fn check(given: &Value, written: &Value, expected: &[&str]) {
        let paths = left_out(given.as_object().unwrap(), written.as_object().unwrap());
        assert_eq!(paths, expected, "{given}");
    }

    #[test]
    fn what_is_not_written_is_named() {
        let written = json!({"Status": 5, "Pods": [{"Name": "a"}, {"Name": "b"}], "Slot": {"Held": true}});
        check(&written, &written, &[]);
        check(&json!({"status": 5, "PODS": []}), &written, &[]);
        check(&json!({"Statsu": 5, "Other": null}), &written, &["Statsu"]);
        let nested = json!({"Pods": [{"Name": "a"}, {"Nmae": "b"}], "Slot": {"Heldd": 1}});
        check(&nested, &written, &["Pods[1].Nmae", "Slot.Heldd"]);
        let many: Map<String, Value> = (0..20).map(|n| (format!("f{n:02}"), json!(n))).collect();
        assert_eq!(left_out(&many, &Map::new()).len(), MOST_NAMED);
    }
}
