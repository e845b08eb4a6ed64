//! Every row of the table: its default, both ends, what lies beyond them, wrong types, wrong units; and its line in
//! the documentation.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::DeValue;

use super::groups::Settings;
use super::raw::Raw;
use super::row::Row;
use super::table::{ROWS, RULE_ROWS, row_of};

/// What a row accepts and refuses, in TOML's notation.
struct Case {
    key: &'static str,
    /// Each with how it is shown.
    accepted: &'static [(&'static str, &'static str)],
    /// Refused in files and in `--set`.
    refused: &'static [&'static str],
    /// Refused in files only: in `--set` everything is text.
    wrong_type: &'static [&'static str],
}

const COUNT: &[&str] =
    &["-1", r#""5s""#, r#""many""#, "true", "[1]", "1.0", r#""""#, r#""+1""#, r#"" 1""#, "{ a = 1 }"];
const QUOTED_COUNT: &[&str] = &[r#""5""#, r#""50""#];
const DURATION: &[&str] =
    &["90", "0", r#""90""#, r#""-1s""#, r#""1.5m""#, r#""1h30m""#, r#""1w""#, "true", r#"["90s"]"#, r#""""#];
const WORD: &[&str] = &["1", "true", r#""""#, r#""WAIT""#, r#""Complete""#, r#"["wait"]"#, r#""maybe""#];
const FLAG: &[&str] = &["1", "0", r#""yes""#, r#""True""#, r#""on""#, r#""""#, "[]"];
const QUOTED_FLAG: &[&str] = &[r#""true""#];
const LABEL: &[&str] = &["1.5", "[]", r#""""#, r#""A""#, r#""a_b""#, r#""a.b""#, r#""-a""#, r#""a-""#];
const COMMAND: &[&str] = &["1", "true", r#""/bin/true""#, r#""""#, "[]", r#"[""]"#, "[1]", r#"[["a"]]"#];
const PLACE: &[&str] = &["1", "true", "[]", r#""""#, r#""relative""#];
const NOTHING: &[&str] = &[];
const FLAGS: &[(&str, &str)] = &[("true", "true"), ("false", "false")];

const fn case(
    key: &'static str,
    accepted: &'static [(&'static str, &'static str)],
    refused: &'static [&'static str],
    wrong_type: &'static [&'static str],
) -> Case {
    Case { key, accepted, refused, wrong_type }
}

/// The ends of each row; the lists above add what no row of that kind takes.
const CASES: &[(Case, &[&str])] = &[
    (
        case("kubernetes.drain.timeout", &[("1", "1"), ("4294967295", "4294967295")], COUNT, QUOTED_COUNT),
        &["0", "4294967296", r#""24h""#],
    ),
    (
        case(
            "drain.attempt-timeout",
            &[(r#""1s""#, "1s"), (r#""10y""#, "10y"), (r#""-""#, "-")],
            DURATION,
            NOTHING,
        ),
        &[r#""999ms""#, r#""3651d""#],
    ),
    (case("drain.attempts", &[("1", "1"), ("100", "100")], COUNT, QUOTED_COUNT), &["0", "101"]),
    (
        case(
            "drain.retry-pause",
            &[(r#""0s""#, "0s"), (r#""1d""#, "1d"), (r#""500ms""#, "500ms")],
            DURATION,
            NOTHING,
        ),
        &["300", r#""25h""#, r#""-""#],
    ),
    (case("drain.settle", &[(r#""0s""#, "0s"), (r#""5m""#, "5m")], DURATION, NOTHING), &[r#""301s""#]),
    (case("cordon.tries", &[("1", "1"), ("100", "100")], COUNT, QUOTED_COUNT), &["0", "101"]),
    (case("cordon.pause", &[(r#""0s""#, "0s"), (r#""1h""#, "1h")], DURATION, NOTHING), &[r#""3601s""#]),
    (
        case(
            "drain.skip.k8sapinotreachable.timeout",
            &[("1", "1"), ("4294967295", "4294967295")],
            COUNT,
            QUOTED_COUNT,
        ),
        &["0", "4294967296", r#""300s""#],
    ),
    (
        case(
            "api.unreachable-timeout",
            &[(r#""1s""#, "1s"), (r#""10y""#, "10y"), (r#""-""#, "-")],
            DURATION,
            NOTHING,
        ),
        &[r#""0s""#, r#""11y""#],
    ),
    (
        case("api-unreachable", &[(r#""complete""#, "complete"), (r#""wait""#, "wait")], WORD, NOTHING),
        &[r#""proceed""#],
    ),
    (case("api.freeze-limit", &[(r#""0s""#, "0s"), (r#""1d""#, "1d")], DURATION, NOTHING), &[r#""86401s""#]),
    (
        case(
            "kubernetes.drain.allnodes.config.multiple",
            &[("1", "1"), ("1000", "1000")],
            COUNT,
            QUOTED_COUNT,
        ),
        &["0", "1001"],
    ),
    (
        case("timer.config.interval", &[("5", "5"), ("86400", "86400")], COUNT, QUOTED_COUNT),
        &["4", "86401", r#""60s""#],
    ),
    (
        case("peer.window", &[(r#""1s""#, "1s"), (r#""10y""#, "10y"), (r#""-""#, "-")], DURATION, NOTHING),
        &[r#""0s""#, r#""3651d""#],
    ),
    (
        case("no-peer", &[(r#""complete""#, "complete"), (r#""wait""#, "wait")], WORD, NOTHING),
        &[r#""proceed""#],
    ),
    (
        case("drain.start.timeout", &[(r#""1s""#, "1s"), (r#""30d""#, "30d")], DURATION, NOTHING),
        &[r#""0s""#, r#""31d""#],
    ),
    (
        case("drain.start.on-timeout", &[(r#""proceed""#, "proceed"), (r#""wait""#, "wait")], WORD, NOTHING),
        &[r#""complete""#],
    ),
    (case("force.ttl", &[(r#""1s""#, "1s"), (r#""1d""#, "1d")], DURATION, NOTHING), &[r#""0s""#, r#""2d""#]),
    (
        case(
            "cluster.mode",
            &[(r#""auto""#, "auto"), (r#""always""#, "always"), (r#""never""#, "never")],
            WORD,
            NOTHING,
        ),
        &["false"],
    ),
    (case("cluster.kubeconfig", &[(r#""/k""#, "/k"), (r#""-""#, "-")], PLACE, NOTHING), &[]),
    (
        case("node.name", &[(r#""edge-1.example""#, "edge-1.example"), (r#""-""#, "-")], &[], NOTHING),
        &[r#""Edge""#, r#""a_b""#, r#""""#, r#"["a"]"#],
    ),
    (case("slots.limit", &[("0", "0"), ("10000", "10000")], COUNT, QUOTED_COUNT), &["10001"]),
    (case("slots.group", &[(r#""a""#, "a"), (r#""rack-1""#, "rack-1")], LABEL, NOTHING), &[]),
    (
        case("slots.namespace", &[(r#""kube-system""#, "kube-system"), (r#""ebb""#, "ebb")], LABEL, NOTHING),
        &[],
    ),
    (
        case("slots.wait", &[(r#""0s""#, "0s"), (r#""24h""#, "1d"), (r#""10y""#, "10y")], DURATION, NOTHING),
        &[r#""11y""#, r#""-""#],
    ),
    (case("slots.down-max", &[(r#""0s""#, "0s"), (r#""1d""#, "1d")], DURATION, NOTHING), &[r#""25h""#]),
    (case("health.command", &[(r#"["true"]"#, r#"["true"]"#), (r#""-""#, "-")], COMMAND, NOTHING), &[]),
    (
        case("health.timeout", &[(r#""1s""#, "1s"), (r#""1h""#, "1h")], DURATION, NOTHING),
        &[r#""0s""#, r#""61m""#],
    ),
    (
        case("health.interval", &[(r#""1s""#, "1s"), (r#""1h""#, "1h")], DURATION, NOTHING),
        &[r#""0s""#, r#""61m""#],
    ),
    (case("pods.force", FLAGS, FLAG, QUOTED_FLAG), &[]),
    (case("pods.ignore-daemonsets", FLAGS, FLAG, QUOTED_FLAG), &[]),
    (case("pods.delete-emptydir-data", FLAGS, FLAG, QUOTED_FLAG), &[]),
    (
        case(
            "pods.grace-period",
            &[(r#""1s""#, "1s"), (r#""1y""#, "1y"), (r#""-""#, "-")],
            DURATION,
            NOTHING,
        ),
        &[r#""0s""#, r#""366d""#],
    ),
    (
        case(
            "pods.skip-wait-for-delete-timeout",
            &[(r#""1s""#, "1s"), (r#""1y""#, "1y"), (r#""-""#, "-")],
            DURATION,
            NOTHING,
        ),
        &[r#""0s""#, r#""366d""#],
    ),
    (
        case(
            "pods.keep-apps",
            &[("[]", "[]"), (r#"["b", "a"]"#, r#"["a", "b"]"#)],
            &["1", "true", r#""a""#, "[1]", r#"["a b"]"#],
            NOTHING,
        ),
        &[],
    ),
    (case("evict.concurrency", &[("1", "1"), ("256", "256")], COUNT, QUOTED_COUNT), &["0", "257"]),
    (
        case("evict.retry", &[(r#""1s""#, "1s"), (r#""1h""#, "1h")], DURATION, NOTHING),
        &[r#""0s""#, r#""2h""#],
    ),
    (
        case(
            "evict.max-retries",
            &[("0", "0"), ("10000", "10000"), (r#""auto""#, "auto"), (r#""-""#, "-")],
            COUNT,
            QUOTED_COUNT,
        ),
        &["10001"],
    ),
    (case("unhealthy-node", &[(r#""off""#, "off"), (r#""force""#, "force")], WORD, NOTHING), &["false"]),
    (case("stateful.parallel", &[("1", "1"), ("64", "64")], COUNT, QUOTED_COUNT), &["0", "65"]),
    (
        case(
            "stateful.order",
            &[(r#""highest-first""#, "highest-first"), (r#""lowest-first""#, "lowest-first")],
            WORD,
            NOTHING,
        ),
        &[],
    ),
    (
        case("volumes.detach-timeout", &[(r#""0s""#, "0s"), (r#""1d""#, "1d")], DURATION, NOTHING),
        &[r#""25h""#],
    ),
    (
        case("volumes.reattach-timeout", &[(r#""0s""#, "0s"), (r#""1d""#, "1d")], DURATION, NOTHING),
        &[r#""25h""#],
    ),
    (
        case(
            "volumes.on-detach-timeout",
            &[(r#""fail""#, "fail"), (r#""proceed""#, "proceed")],
            WORD,
            NOTHING,
        ),
        &[],
    ),
    (
        case(
            "storage.longhorn.node-drain-policy",
            &[
                (
                    r#""block-for-eviction-if-contains-last-replica""#,
                    "block-for-eviction-if-contains-last-replica",
                ),
                (r#""block-for-eviction""#, "block-for-eviction"),
                (r#""block-if-contains-last-replica""#, "block-if-contains-last-replica"),
                (r#""allow-if-replica-is-stopped""#, "allow-if-replica-is-stopped"),
                (r#""always-allow""#, "always-allow"),
            ],
            WORD,
            NOTHING,
        ),
        &[],
    ),
    (case("device-op.retry", &[(r#""0s""#, "0s"), (r#""30d""#, "30d")], DURATION, NOTHING), &[r#""31d""#]),
    (
        case(
            "device.command",
            &[(r#"["/sbin/reboot", "-f"]"#, r#"["/sbin/reboot", "-f"]"#), (r#""-""#, "-")],
            COMMAND,
            NOTHING,
        ),
        &[],
    ),
    (case("device.shutdown", &[(r#"["a"]"#, r#"["a"]"#), (r#""-""#, "-")], COMMAND, NOTHING), &[]),
    (
        case(
            "device.pre",
            &[("[]", "[]"), (r#"[["a"], ["b", "c"]]"#, r#"[["a"], ["b", "c"]]"#)],
            &["1", r#"["a"]"#, "[[]]", r#""a""#],
            NOTHING,
        ),
        &[],
    ),
    (case("device.dry-run", FLAGS, FLAG, QUOTED_FLAG), &[]),
    (case("baseos.retry", &[(r#""0s""#, "0s"), (r#""30d""#, "30d")], DURATION, NOTHING), &[r#""31d""#]),
    (case("baseos.activate", &[(r#"["a"]"#, r#"["a"]"#), (r#""-""#, "-")], COMMAND, NOTHING), &[]),
    (
        case(
            "baseos.current",
            &[(r#"["a"]"#, r#"["a"]"#), (r#""/etc/v""#, "/etc/v"), (r#""-""#, "-")],
            PLACE,
            NOTHING,
        ),
        &[r#"[""]"#],
    ),
    (
        case("baseos.timeout", &[(r#""1s""#, "1s"), (r#""1d""#, "1d")], DURATION, NOTHING),
        &[r#""0s""#, r#""25h""#],
    ),
    (case("baseos.dry-run", FLAGS, FLAG, QUOTED_FLAG), &[]),
];

/// `text` as a file says it.
fn in_file(text: &str) -> Raw {
    Raw::from(DeValue::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).get_ref())
}

/// `text` as `--set` says it: without quotes.
fn in_flag(text: &str) -> Raw {
    Raw::Bare(text.trim_matches('"').to_owned())
}

/// The value shown, if it is accepted; nothing else may have changed if it is not.
fn read(row: &Row, raw: &Raw) -> Option<String> {
    let mut settings = Settings::default();
    if row.place.set(raw, &mut settings) {
        return Some(row.place.show(&settings));
    }
    assert_eq!(settings, Settings::default(), "{row:?} refused {raw} and changed something");
    None
}

#[test]
fn every_row_keeps_its_limits() {
    let cases: BTreeMap<&str, _> = CASES.iter().map(|(case, ends)| (case.key, (case, ends))).collect();
    let tested: Vec<&str> = CASES.iter().map(|(case, _)| case.key).collect();
    let rows: Vec<&str> = ROWS.iter().map(|row| row.key).collect();
    assert_eq!(tested, rows, "every row has a case, in the same order");
    assert_eq!(cases.len(), rows.len(), "no key twice");
    for row in ROWS {
        let (case, ends) = cases[row.key];
        for (text, shown) in case.accepted {
            for raw in [in_file(text), in_flag(text)] {
                assert_eq!(read(row, &raw).as_deref(), Some(*shown), "{row:?} = {raw}");
            }
        }
        for text in case.refused.iter().chain(*ends) {
            for raw in [in_file(text), in_flag(text)] {
                assert_eq!(read(row, &raw), None, "{row:?} = {raw}");
            }
        }
        for text in case.wrong_type {
            assert_eq!(read(row, &in_file(text)), None, "{row:?} = {text}");
            assert!(read(row, &in_flag(text)).is_some(), "{row:?} = {text} as a flag");
        }
    }
}

#[test]
fn every_default_is_accepted_and_what_is_shown_reads_back() {
    let mut settings = Settings::default();
    for row in ROWS {
        assert!(row.place.set(&Raw::Bare(row.default.to_owned()), &mut settings), "{row:?}: {}", row.default);
        assert_eq!(
            row.when_bad.map(|word| read(row, &Raw::Bare(word.to_owned())).is_some()),
            row.when_bad.map(|_| true)
        );
    }
    let mut again = Settings::default();
    for row in ROWS {
        assert!(row.place.set(&Raw::Bare(row.place.show(&settings)), &mut again), "{row:?}");
    }
    assert_eq!(again, settings);
}

#[test]
fn every_row_changes_its_own_value_and_no_other() {
    let mut defaults = Settings::default();
    for row in ROWS {
        assert!(row.place.set(&Raw::Bare(row.default.to_owned()), &mut defaults));
    }
    let shown = |settings: &Settings| ROWS.iter().map(|row| row.place.show(settings)).collect::<Vec<_>>();
    for ((case, _), row) in CASES.iter().zip(ROWS) {
        let default = row.place.show(&defaults);
        let (text, changed) = case.accepted.iter().find(|(_, shown)| *shown != default).unwrap();
        let mut settings = defaults.clone();
        assert!(row.place.set(&in_file(text), &mut settings));
        let differing: Vec<&str> = (ROWS.iter().zip(shown(&settings)).zip(shown(&defaults)))
            .filter(|((_, now), before)| now != before)
            .map(|((row, _), _)| row.key)
            .collect();
        assert_eq!(differing, [row.key], "{row:?} = {changed}");

        let mut taken = defaults.clone();
        row.place.take(&settings, &mut taken);
        assert_eq!(taken, settings, "{row:?} is taken over");
    }
}

#[test]
fn the_defaults_are_eves_where_eve_has_one() {
    let defaults: BTreeMap<&str, &str> =
        ROWS.iter().filter(|row| row.is_eve).map(|row| (row.key, row.default)).collect();
    let eves = [
        ("kubernetes.drain.timeout", "24"),
        ("drain.skip.k8sapinotreachable.timeout", "300"),
        ("kubernetes.drain.allnodes.config.multiple", "2"),
        ("timer.config.interval", "60"),
        ("storage.longhorn.node-drain-policy", "block-for-eviction-if-contains-last-replica"),
    ];
    assert_eq!(defaults, BTreeMap::from(eves));
}

#[test]
fn exactly_three_bad_values_become_wait() {
    let safe: Vec<_> = ROWS.iter().filter_map(|row| Some((row.key, row.when_bad?))).collect();
    assert_eq!(safe, [("api-unreachable", "wait"), ("no-peer", "wait"), ("drain.start.on-timeout", "wait")]);
    assert_eq!(row_of("no-peer").unwrap().key, "no-peer");
}

/// The line of the documentation for a row.
fn documented<S>(row: &Row<S>) -> String {
    let Row { key, default, live, meaning, .. } = row;
    let from = if row.is_eve { " (EVE)" } else { "" };
    let default = if default.is_empty() { "required".to_owned() } else { format!("`{default}`") };
    format!("| `{key}`{from} | {default} | {} | {live} | {meaning} |", row.place.accepted())
}

#[test]
fn the_documentation_shows_this_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let page = std::fs::read_to_string(page).unwrap();
    let shown: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let rows: Vec<String> = ROWS.iter().map(documented).chain(RULE_ROWS.iter().map(documented)).collect();
    assert!(shown == rows, "docs/settings.md should have these lines:\n{}", rows.join("\n"));
}
