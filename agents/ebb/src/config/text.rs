//! Settings and problems as text for people.

use std::fmt::Write;

use runtime::Loaded;
use runtime::settings::ShownSetting;

use crate::screen::table;

/// Text of `ebb config show`: problems, then settings, then rules.
pub(super) fn settings(loaded: &Loaded, running: &[String]) -> String {
    let mut text = list(loaded, running);
    // The value is the last column because it may be long.
    let row =
        |ShownSetting { key, value, origin, live, .. }| [key.to_owned(), origin, live.to_owned(), value];
    let rows: Vec<[String; 4]> = loaded.shown().into_iter().map(row).collect();
    text.push_str(&table(["KEY", "ORIGIN", "LIVE", "VALUE"], &rows));
    for rule in loaded.shown_rules() {
        // Writing to a String cannot fail.
        writeln!(text, "rule {rule}").unwrap_or_default();
    }
    text
}

/// Text of `ebb config check`. `files` is the number of files that were read.
pub(super) fn problems(loaded: &Loaded, files: usize, running: &[String]) -> String {
    let s = if files == 1 { "" } else { "s" };
    if loaded.problems.is_empty() { format!("no problems in {files} file{s}") } else { list(loaded, running) }
}

fn list(loaded: &Loaded, running: &[String]) -> String {
    let mut text = String::new();
    for problem in &loaded.problems {
        // Writing to a String cannot fail.
        writeln!(text, "problem: {problem}").unwrap_or_default();
    }
    if !running.is_empty() {
        text.push_str(
            "note: an agent that starts now would have the settings above; a running agent keeps its earlier values. \
             Messages of the running zedkube:\n",
        );
    }
    for reason in running {
        writeln!(text, "running: {reason}").unwrap_or_default();
    }
    text
}
