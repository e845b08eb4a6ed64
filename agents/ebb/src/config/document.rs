//! Settings and problems as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use runtime::Loaded;
use runtime::settings::{Origin, Problem, ShownRule, ShownSetting};
use serde::Serialize;

/// `ebb config show --json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SettingsDocument {
    problems: Vec<ProblemDocument>,
    /// What the zedkube that runs says of these problems, with the values that it kept.
    running: Vec<String>,
    settings: Vec<ShownSetting>,
    /// In the order in which they count.
    rules: Vec<RuleDocument>,
}

/// `ebb config check --json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ProblemsDocument {
    problems: Vec<ProblemDocument>,
    /// What the zedkube that runs says of these problems, with the values that it kept.
    running: Vec<String>,
    /// The files that were read, the lowest layer first.
    files: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ProblemDocument {
    /// `controller`, a flag, or the file.
    origin: String,
    file: Option<PathBuf>,
    /// Counted from 1; null if the whole file is meant.
    line: Option<usize>,
    /// Empty if the whole file is meant.
    key: String,
    value: String,
    accepted: String,
    in_effect: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct RuleDocument {
    name: String,
    origin: String,
    values: BTreeMap<&'static str, String>,
}

/// Every setting.
pub(super) fn of_settings(loaded: &Loaded, running: Vec<String>) -> SettingsDocument {
    SettingsDocument {
        problems: problems(loaded),
        running,
        settings: loaded.shown(),
        rules: loaded.shown_rules().into_iter().map(rule).collect(),
    }
}

/// Every problem.
pub(super) fn of_problems(loaded: &Loaded, files: &[PathBuf], running: Vec<String>) -> ProblemsDocument {
    ProblemsDocument { problems: problems(loaded), running, files: files.to_vec() }
}

fn problems(loaded: &Loaded) -> Vec<ProblemDocument> {
    loaded.problems.iter().cloned().map(problem).collect()
}

fn problem(problem: Problem) -> ProblemDocument {
    let Problem { origin, key, value, accepted, in_effect } = problem;
    let (file, line) = match &origin {
        Origin::File { path, line } => (Some(path.clone()), *line),
        Origin::Default | Origin::Controller | Origin::Flag(_) => (None, None),
    };
    ProblemDocument { origin: origin.to_string(), file, line, key, value, accepted, in_effect }
}

fn rule(shown: ShownRule) -> RuleDocument {
    let ShownRule { name, origin, values } = shown;
    RuleDocument { name, origin, values: values.into_iter().collect() }
}
