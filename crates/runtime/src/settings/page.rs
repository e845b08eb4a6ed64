//! The tables of `docs/settings.md`: every key with its default and its meaning for an operator.
//!
//! The page is compiled in, so that defaults and meanings are written in one place only. The accepted values are up
//! to the key's type in [`super::keys`]; a test compares them with the page.

use std::sync::LazyLock;

const PAGE: &str = include_str!("../../../../docs/settings.md");

/// The heading of the chapter about the keys of a `[[rule]]`.
const RULES: &str = "\n## Rules for single pods\n";

/// A row of a table: a setting, or a key of a `[[rule]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The key in files, in `--set`, and (EVE's keys) in the controller's map.
    pub(crate) key: &'static str,
    /// True if EVE's controller may set it.
    pub(crate) is_eve: bool,
    /// The compiled default in the form for `--set`: `-` if it is not set; `None` if every rule must give a value.
    pub(crate) default: Option<&'static str>,
    /// The accepted values, in the words of the key's type.
    pub(crate) accepted: &'static str,
    /// When a change takes effect: `yes`, `next attempt`, `next action` or [`NOT_LIVE`].
    pub(crate) live: &'static str,
    /// The meaning in one sentence, for the operator.
    pub(crate) meaning: &'static str,
}

/// A change of such a setting takes effect when the agent starts again.
pub(crate) const NOT_LIVE: &str = "no";

/// Every setting, in the order of the page.
pub(crate) static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| rows(PAGE.split_once(RULES).map_or(PAGE, |(settings, _)| settings)));

/// Every key of a `[[rule]]`, in the order of the page.
pub(crate) static RULE_ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| rows(PAGE.split_once(RULES).map_or("", |(_, rules)| rules)));

/// The row of the setting `key`.
pub(crate) fn row_of(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key)
}

fn rows(chapters: &'static str) -> Vec<Row> {
    chapters.lines().filter_map(row).collect()
}

/// Parses ``| `key` (EVE) | `default` | accepted | live | meaning |``.
fn row(line: &'static str) -> Option<Row> {
    let cells: Vec<&'static str> = line.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ").collect();
    let &[name, default, accepted, live, meaning] = cells.as_slice() else { return None };
    let (key, mark) = name.split_once('`')?;
    Some(Row {
        key,
        is_eve: mark == " (EVE)",
        default: default.strip_prefix('`').and_then(|default| default.strip_suffix('`')),
        accepted,
        live,
        meaning,
    })
}
