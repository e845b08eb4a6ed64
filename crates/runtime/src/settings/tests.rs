//! Tests every row of `docs/settings.md`: its default, both ends of the accepted range, values beyond them, wrong
//! types, wrong units. So the page, the types and the limits agree.

use std::collections::BTreeMap;
use std::path::Path;

use drain::rule::Rule;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::de::DeValue;

use super::duration;
use super::keys::Settings;
use super::load::SAFE;
use super::page::{NOT_LIVE, ROWS, RULE_ROWS, Row};
use super::rules::Keyed;
use super::values::{Values, as_flag, by_key, of_toml, readings, with};

/// Accepted and refused values of one kind of rows, besides the limits, in TOML's notation.
#[derive(Default)]
struct Cases {
    /// Accepted values, each with its form for display.
    accepted: Vec<(String, String)>,
    /// Values refused in files and in `--set`.
    refused: Vec<String>,
    /// Values refused in files only: in `--set` values have no type.
    wrong_type: Vec<String>,
}

const COUNT: &[&str] = &[r#""many""#, "true", "[1]", "1.0", r#""""#, r#""+1""#, "2024-01-01"];
const DURATION: &[&str] = &["90", "0", r#""90""#, r#""1h30m""#, "true", r#"["90s"]"#, r#""""#];
const WORD: &[&str] = &["1", "true", r#""""#, r#""WAIT""#, r#"["wait"]"#, r#""maybe""#, "{ wait = 1 }"];
const FLAG: &[&str] = &["1", "0", r#""yes""#, r#""True""#, r#""on""#, r#""""#, "[]"];
const COMMAND: &[&str] = &["1", r#""/bin/true""#, "[]", r#"[""]"#, "[1]", r#"["a\u0000"]"#];
const COMMANDS: &[&str] = &["1", r#"["a"]"#, "[[]]", r#""a""#];
const PLACE: &[&str] = &["1", "true", "[]", r#""""#, r#""relative""#, r#"[""]"#];
const LABEL: &[&str] = &["1.5", "[]", r#""""#, r#""A""#, r#""a_b""#, r#""a.b""#, r#""-a""#, r#""a-""#];
const NODE: &[&str] = &[r#""Edge""#, r#""a_b""#, r#""""#, r#"["a"]"#];
const APPS: &[&str] = &["1", "true", r#""a""#, "[1]", r#"["a b"]"#];
const NAME: &[&str] = &["1", r#""""#, r#"" a""#, r#""a ""#, r#""a\nb""#, "[]"];
const SELECTOR: &[&str] =
    &["1", "true", r#"["a"]"#, r#"{ a = "b" }"#, "{}", r#""a b""#, r#"",""#, r#""a=b/c""#];
const KIND: &[&str] = &["1", r#""""#, r#""1a""#, r#""a-""#, r#""apps/v1""#, r#""a b""#, r#""é""#];

const WORDS: &[&str] = &["1", r#""mon""#, r#"["Mon"]"#, r#"["x"]"#, "[1]", "{}"];
const TIME: &[&str] = &["1", r#""24:00""#, r#""2:00""#, r#""02:60""#, r#""02:00:00""#, "02:00:00", "[]"];
const ZONE: &[&str] = &["1", r#""""#, r#""/etc/localtime""#, r#""a b""#, r#""..""#, "[]"];

fn quoted(text: impl std::fmt::Display) -> String {
    format!("\"{text}\"")
}

/// Cases for values without a range; accepted values are displayed as they are written.
fn of_kind(accepted: &[&str], refused: &[&str]) -> Cases {
    let shown = |text: &&str| ((*text).to_owned(), text.trim_matches('"').to_owned());
    Cases {
        accepted: accepted.iter().map(shown).collect(),
        refused: refused.iter().map(|text| (*text).to_owned()).collect(),
        wrong_type: Vec::new(),
    }
}

/// The ends of a range `from A to B` on the page.
fn ends(words: &str) -> (&str, &str) {
    let (_, ends) = words.split_once("from ").unwrap();
    let (first, last) = ends.split_once(" to ").unwrap();
    (first, last.split([';', ',', ' ']).next().unwrap())
}

fn count(words: &str) -> Cases {
    let (first, last) = ends(words);
    let beyond = |end: &str, step: i128| (end.parse::<i128>().unwrap() + step).to_string();
    let mut cases = of_kind(&[first, last], COUNT);
    cases.refused.extend([beyond(first, -1), beyond(last, 1)]);
    cases.wrong_type.extend([quoted(first), quoted(last)]);
    cases
}

fn span(words: &str) -> Cases {
    let (first, last) = ends(words);
    let milliseconds = |end: &str| duration::parse(end).unwrap().as_millis();
    let mut cases = of_kind(&[&quoted(first), &quoted(last)], DURATION);
    cases.refused.push(quoted(format!("{}ms", milliseconds(last) + 1)));
    cases.refused.extend(milliseconds(first).checked_sub(1).map(|less| quoted(format!("{less}ms"))));
    let same = format!("{}ms", milliseconds(last));
    cases.accepted.push((quoted(same), last.to_owned()));
    cases
}

/// The cases for the text of a row of the page.
fn cases(words: &str) -> Cases {
    let (words, is_optional) = match words.strip_suffix("; `-` for none") {
        Some(words) => (words, true),
        None => (words, false),
    };
    let (plain, zero) = words.split_once("; `0s` ").map_or((words, ""), |(plain, zero)| (plain, zero));
    assert!(["", "for ever", "never"].contains(&zero), "{words}");
    let mut cases = match plain {
        _ if plain.starts_with("a number from") => count(plain),
        _ if plain.starts_with("a duration such as") => span(plain),
        _ if plain.starts_with('`') => {
            let all: Vec<String> = plain.split(", ").map(|word| quoted(word.trim_matches('`'))).collect();
            of_kind(&all.iter().map(String::as_str).collect::<Vec<_>>(), WORD)
        }
        "true or false" => Cases { wrong_type: vec![quoted("true")], ..of_kind(&["true", "false"], FLAG) },
        "an absolute path" => of_kind(&[r#""/k""#], PLACE),
        "the name of a Kubernetes Node" => of_kind(&[r#""edge-1.example""#], NODE),
        _ if plain.starts_with("a DNS label") => of_kind(&[r#""a""#, r#""rack-1""#], LABEL),
        _ if plain.ends_with("an absolute path of a file") => of_kind(&[r#"["a"]"#, r#""/etc/v""#], PLACE),
        _ if plain.starts_with("a program and") => {
            of_kind(&[r#"["/sbin/reboot", "-f"]"#, r#"["b \" c"]"#], COMMAND)
        }
        _ if plain.starts_with("a list of commands") => of_kind(&["[]", r#"[["a"], ["b", "c"]]"#], COMMANDS),
        _ if plain.starts_with("a list of at most 64") => of_kind(&["[]", r#"["a", "b"]"#], APPS),
        _ if plain.starts_with("a list of `mon`") => of_kind(&["[]", r#"["sat", "sun"]"#], WORDS),
        _ if plain.starts_with("a list of `person`") => of_kind(&["[]", r#"["person", "host"]"#], WORDS),
        _ if plain.starts_with("a time of day") => of_kind(&[r#""00:00""#, r#""23:59""#], TIME),
        _ if plain.starts_with("the name of a time zone") => {
            of_kind(&[r#""Europe/Berlin""#, r#""Etc/GMT+3""#], ZONE)
        }
        "a text of 1 to 63 characters" => of_kind(&[r#""a b""#, r#""-""#, &quoted("é".repeat(63))], NAME),
        _ if plain.starts_with("a label selector") => {
            of_kind(&[r#""""#, r#""a""#, r#""a>1""#, r#""a in (b,c)""#], SELECTOR)
        }
        _ if plain.starts_with("the kind of") => {
            of_kind(&[r#""StatefulSet""#, r#""x-1""#, &quoted("K".repeat(63))], KIND)
        }
        other => panic!("no values for {other}"),
    };
    match plain {
        _ if plain.ends_with(", or `auto`") => cases.accepted.push((quoted("auto"), "auto".to_owned())),
        "a text of 1 to 63 characters" => cases.refused.push(quoted("é".repeat(64))),
        _ if plain.starts_with("the kind of") => cases.refused.push(quoted("K".repeat(64))),
        _ if plain.starts_with("a label selector") => {
            let many = |terms: usize| format!("{}b", "a,".repeat(terms));
            cases.accepted.push((quoted(many(2047)), many(2047)));
            cases.refused.push(quoted(many(2048)));
        }
        _ if plain.starts_with("a list of at most 64") => {
            cases.accepted.push((r#"["b", "a"]"#.to_owned(), r#"["a", "b"]"#.to_owned()));
        }
        _ => {}
    }
    let none = ("\"-\"".to_owned(), "-".to_owned());
    if is_optional {
        cases.accepted.push(none);
    } else if plain.contains(" from ") {
        cases.refused.push(none.0);
    }
    cases
}

/// The value of `text` in a file.
fn in_file(text: &str) -> Value {
    of_toml(DeValue::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).get_ref())
}

/// The value of `text` in `--set`: without quotes.
fn in_flag(text: &str) -> [Value; 2] {
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let (text, literal) = readings(bare);
    [text, literal.unwrap_or_default()]
}

/// The displayed value, if one of the readings is accepted.
fn read<T: Serialize + DeserializeOwned>(good: &Values, key: &str, readings: &[Value]) -> Option<String> {
    let read = |value: &Value| with::<T>(good, [(key, value.clone())]).ok();
    readings.iter().find_map(read).map(|taken| as_flag(&by_key(&taken)[key]))
}

/// Rows of settings are read in files and in flags, those of rules only in files.
fn check_rows<T: Serialize + DeserializeOwned>(rows: &[Row], good: &T, has_flags: bool) {
    let good = by_key(good);
    let keys: Vec<&str> = rows.iter().map(|row| row.key).collect();
    let mut sorted = [keys.clone(), good.keys().map(String::as_str).collect()];
    for keys in &mut sorted {
        keys.sort_unstable();
    }
    assert_eq!(sorted[0], sorted[1], "the page has every key, each once, and no other");
    for row @ Row { key, .. } in rows {
        // No setting accepts a missing value.
        let words = with::<T>(&good, [(*key, Value::Null)]).err().unwrap();
        assert_eq!(words, row.accepted, "docs/settings.md, {key}: what is accepted");
        assert!(["yes", "next attempt", "next action", NOT_LIVE].contains(&row.live), "{key}");
        let Cases { accepted, refused, wrong_type } = cases(row.accepted);
        for (text, shown) in accepted {
            assert_eq!(read::<T>(&good, key, &[in_file(&text)]).as_ref(), Some(&shown), "{key} = {text}");
            let flag = read::<T>(&good, key, &in_flag(&text));
            assert!(!has_flags || flag.as_ref() == Some(&shown), "{key} = {text} as a flag: {flag:?}");
        }
        for text in refused {
            assert_eq!(read::<T>(&good, key, &[in_file(&text)]), None, "{key} = {text}");
            assert!(
                !has_flags || read::<T>(&good, key, &in_flag(&text)).is_none(),
                "{key} = {text} as a flag"
            );
        }
        for text in wrong_type {
            assert_eq!(read::<T>(&good, key, &[in_file(&text)]), None, "{key} = {text}");
            assert!(
                !has_flags || read::<T>(&good, key, &in_flag(&text)).is_some(),
                "{key} = {text} as a flag"
            );
        }
    }
}

#[test]
fn every_row_keeps_its_limits() {
    check_rows(&ROWS, &Settings::default(), true);
    check_rows(&RULE_ROWS, &Keyed(Rule { name: "a".to_owned(), ..Rule::default() }), false);
}

#[test]
fn every_row_changes_its_own_value_and_no_other() {
    let defaults = by_key(&Settings::default());
    for row in ROWS.iter() {
        let default = as_flag(&defaults[row.key]);
        let accepted = cases(row.accepted).accepted;
        let (text, changed) = accepted.iter().find(|(_, shown)| *shown != default).unwrap();
        let settings: Settings = with(&defaults, [(row.key, in_file(text))]).unwrap();
        let values = by_key(&settings);
        let differing: Vec<&String> = defaults.keys().filter(|key| values[*key] != defaults[*key]).collect();
        assert_eq!(differing, [row.key], "{} = {changed}", row.key);
        let again = read::<Settings>(&defaults, row.key, &in_flag(changed));
        assert_eq!(again.as_ref(), Some(changed), "what is shown reads back");
    }
}

#[test]
fn the_defaults_are_eves_where_eve_has_one() {
    let eves = ROWS.iter().filter(|row| row.is_eve).map(|row| (row.key, row.default.unwrap()));
    let expected = [
        ("kubernetes.drain.timeout", "24"),
        ("drain.skip.k8sapinotreachable.timeout", "300"),
        ("kubernetes.drain.allnodes.config.multiple", "2"),
        ("timer.config.interval", "60"),
        ("storage.longhorn.node-drain-policy", "block-for-eviction-if-contains-last-replica"),
    ];
    assert_eq!(eves.collect::<BTreeMap<_, _>>(), BTreeMap::from(expected));
}

#[test]
fn the_defaults_are_those_of_the_policies() {
    assert_eq!(Settings::default().policy, session::Policy::device());
    let rule = by_key(&Keyed(Rule { name: "a".to_owned(), ..Rule::default() }));
    let required: Vec<&str> =
        RULE_ROWS.iter().filter(|row| row.default.is_none()).map(|row| row.key).collect();
    assert_eq!(required, ["name"]);
    for Row { key, default, .. } in RULE_ROWS.iter() {
        assert!(default.is_none_or(|default| as_flag(&rule[*key]) == default), "{key}");
    }
}

#[test]
fn exactly_three_bad_values_become_wait() {
    let says_so = |row: &&Row| row.meaning.ends_with("A bad value means `wait`.");
    let safe: Vec<&str> = ROWS.iter().filter(says_so).map(|row| row.key).collect();
    assert_eq!(safe, SAFE);
    let defaults = by_key(&Settings::default());
    assert!(SAFE.iter().all(|key| with::<Settings>(&defaults, [(*key, "wait".into())]).is_ok()));
}

/// A row that could not be read would be a setting without a default.
#[test]
fn every_row_of_the_page_is_read() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md"))
        .unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, ROWS.len() + RULE_ROWS.len());
}
