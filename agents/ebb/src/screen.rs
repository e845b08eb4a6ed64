//! The one place that prints: data on stdout, everything else on stderr.

use std::io::{self, Write};
use std::process::ExitCode;

/// Prints one line of data.
///
/// A reader that went away (`ebb status | head -1`) is no error; nobody is left to tell.
pub(crate) fn line(text: &str) {
    if let Err(error) = writeln!(io::stdout(), "{text}") {
        tracing::debug!("cannot print: {error}");
    }
}

/// Prints clap's answer (help, version, or what is wrong with the arguments) where it belongs.
pub(crate) fn answer(answer: &clap::Error) -> ExitCode {
    if let Err(error) = answer.print() {
        tracing::debug!("cannot print: {error}");
    }
    ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2))
}

/// Prints an error with its causes, each said once.
pub(crate) fn complain(error: &anyhow::Error) {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    say(&format!("error: {}", causes.join(": ")));
}

/// Prints one line for people, beside the data.
pub(crate) fn say(text: &str) {
    if let Err(error) = writeln!(io::stderr(), "{text}") {
        tracing::debug!("cannot print: {error}");
    }
}
