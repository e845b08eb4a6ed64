//! Settings and problems as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use runtime::Loaded;
use runtime::settings::{Origin, Problem, ShownRule, ShownSetting};
use serde::Serialize;

/// JSON form of `ebb config show`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SettingsDocument {
    problems: Vec<ProblemDocument>,
    /// Messages of the running zedkube about these problems, with the values that it kept.
    running: Vec<String>,
    settings: Vec<ShownSetting>,
    /// Rules in order of precedence.
    rules: Vec<RuleDocument>,
}

/// JSON form of `ebb config check`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ProblemsDocument {
    problems: Vec<ProblemDocument>,
    /// Messages of the running zedkube about these problems, with the values that it kept.
    running: Vec<String>,
    /// Files that were read, the lowest layer first.
    files: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ProblemDocument {
    /// `controller`, the flag, or the path of the file.
    origin: String,
    file: Option<PathBuf>,
    /// Line number from 1; null if the problem is about the whole file.
    line: Option<usize>,
    /// Key of the setting; empty if the problem is about the whole file.
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

/// The document with every setting.
pub(super) fn of_settings(loaded: &Loaded, running: Vec<String>) -> SettingsDocument {
    SettingsDocument {
        problems: problems(loaded),
        running,
        settings: loaded.shown(),
        rules: loaded.shown_rules().into_iter().map(rule).collect(),
    }
}

/// The document with every problem.
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
