//! The origin of a value, and the mistakes in values.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::values::as_toml;

/// The layer that a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Origin {
    /// The compiled default.
    Default,
    /// A settings file, and the line in it; no line if the problem is about the whole file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: Option<usize>,
    },
    /// The controller's `ConfigItemValueMap`.
    Controller,
    /// A flag of the command line, by its name.
    Flag(&'static str),
}

impl Origin {
    /// True if the value comes from the file at `path`, or from a file in that folder.
    pub(crate) fn is_from(&self, path: &Path) -> bool {
        self.file().is_some_and(|own| own.starts_with(path))
    }

    /// The file that the value comes from.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Default | Self::Controller | Self::Flag(_) => None,
        }
    }

    /// True if the value comes from the command line, where a mistake leads to exit code 2.
    pub fn is_flag(&self) -> bool {
        match self {
            Self::Flag(_) => true,
            Self::Default | Self::File { .. } | Self::Controller => false,
        }
    }
}

/// The forms are `/etc/ebb/ebb.toml:12`, `default`, `controller`, `--set`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Controller => f.write_str("controller"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Limit in characters for a bad value that is shown.
const MOST_SHOWN: usize = 120;

/// A mistake in the settings: its place, the value, the accepted values, and the value in effect instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The place of the mistake.
    pub origin: Origin,
    /// The setting; empty if the problem is about a whole file.
    pub key: String,
    /// The value as written, shortened; for a whole file, the reason.
    pub value: String,
    /// The accepted values.
    pub accepted: String,
    /// The value in effect instead, with its origin.
    pub in_effect: String,
}

impl Problem {
    /// A value that its setting does not accept, or a key that does not exist.
    pub(crate) fn with_value(origin: Origin, key: &str, value: &Value, accepted: String) -> Self {
        let bare = value.as_str().filter(|_| origin.is_flag()).map(|text| text.escape_debug().to_string());
        let written = bare.unwrap_or_else(|| as_toml(value));
        Self::new(
            origin,
            text::first_chars(key, MOST_SHOWN),
            text::first_chars(&written, MOST_SHOWN),
            accepted,
        )
    }

    /// A file that cannot be used at all.
    pub(crate) fn with_file(origin: Origin, reason: &str, accepted: &str) -> Self {
        Self::new(origin, String::new(), text::first_chars(reason, MOST_SHOWN), accepted.to_owned())
    }

    fn new(origin: Origin, key: String, value: String, accepted: String) -> Self {
        Self { origin, key, value, accepted, in_effect: String::new() }
    }
}

/// The form is `/etc/ebb/ebb.toml:3: drain.attempts = 0 is not accepted; accepted: a number from 1 to 100; in effect:
/// 5 (default)`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, key, value, accepted, in_effect } = self;
        if key.is_empty() {
            write!(f, "{origin}: the file is ignored: {value}; accepted: {accepted}")?;
        } else {
            write!(f, "{origin}: {key} = {value} is not accepted; accepted: {accepted}")?;
        }
        if in_effect.is_empty() { Ok(()) } else { write!(f, "; in effect: {in_effect}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_fits_one_line_whatever_was_written() {
        let written = Value::from(format!("a\nb{}", "x".repeat(1000)));
        let problem =
            Problem::with_value(Origin::Flag("--set"), "no\u{7}peer", &written, "`wait`".to_owned());
        assert_eq!(problem.key, "no peer");
        assert_eq!(problem.value.chars().count(), MOST_SHOWN + 1);
        assert!(!problem.to_string().contains('\n'));
    }
}
