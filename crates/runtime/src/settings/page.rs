//! The tables of `docs/settings.md`: every key with its default and its meaning, as an operator reads them.
//!
//! The page is compiled in, so that a default and a meaning stand in one place only. What a key accepts is up to its
//! type in [`super::keys`]; a test compares it with the page.

use std::sync::LazyLock;

const PAGE: &str = include_str!("../../../../docs/settings.md");

/// The heading of the chapter about the keys of a `[[rule]]`.
const RULES: &str = "\n## Rules for single pods\n";

/// One row of a table: a setting, or a key of a `[[rule]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The key in files, in `--set` and (EVE's) in the controller's map.
    pub(crate) key: &'static str,
    /// EVE's controller may set it.
    pub(crate) is_eve: bool,
    /// The compiled default, written as for `--set`: `-` if nothing is set; `None` if every rule has to say it.
    pub(crate) default: Option<&'static str>,
    /// What is accepted, in the words of the key's type.
    pub(crate) accepted: &'static str,
    /// From when on a change counts: `yes`, `next attempt`, `next action` or [`NOT_LIVE`].
    pub(crate) live: &'static str,
    /// One sentence for the operator.
    pub(crate) meaning: &'static str,
}

/// A change of such a setting counts from the next start of the agent on.
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

/// ``| `key` (EVE) | `default` | accepted | live | meaning |``
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
