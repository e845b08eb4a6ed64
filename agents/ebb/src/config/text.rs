//! Settings and problems as lines for people.

use runtime::Loaded;
use runtime::settings::ShownSetting;

use kubectl_ebb::screen::table;

/// Lines of `ebb config show`: problems, then settings, then rules.
pub(super) fn settings(loaded: &Loaded, running: &[String]) -> Vec<String> {
    // The value is the last column because it may be long.
    let row =
        |ShownSetting { key, value, origin, live, .. }| [key.to_owned(), origin, live.to_owned(), value];
    let rows: Vec<[String; 4]> = loaded.shown().into_iter().map(row).collect();
    let mut lines = list(loaded, running);
    lines.extend(table(&["KEY", "ORIGIN", "LIVE", "VALUE"], &rows));
    lines.extend(loaded.shown_rules().into_iter().map(|rule| format!("rule {rule}")));
    lines
}

/// Lines of `ebb config check`. `files` is the number of files that were read.
pub(super) fn problems(loaded: &Loaded, files: usize, running: &[String]) -> Vec<String> {
    let s = if files == 1 { "" } else { "s" };
    if loaded.problems.is_empty() {
        vec![format!("no problems in {files} file{s}")]
    } else {
        list(loaded, running)
    }
}

fn list(loaded: &Loaded, running: &[String]) -> Vec<String> {
    let note = "note: an agent that starts now would have the settings above; a running agent keeps its earlier values. \
                Messages of the running zedkube:";
    let note = (!running.is_empty()).then(|| note.to_owned());
    let problems = loaded.problems.iter().map(|problem| format!("problem: {problem}"));
    problems.chain(note).chain(running.iter().map(|reason| format!("running: {reason}"))).collect()
}
