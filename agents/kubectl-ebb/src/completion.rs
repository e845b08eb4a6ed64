//! The answer to each TAB, which the scripts of `ebb completion` and kubectl ask for.
//!
//! The answer is in the form of Go's cobra, which kubectl reads of the program `kubectl_complete-ebb`: a line for each
//! candidate, with a tab before its description, and a last line that says whether names of files fit as well (`:0`) or
//! not (`:4`).
//!
//! clap_complete answers a TAB at run time only behind `unstable-dynamic` (4.6), and not in cobra's form.

use std::ffi::OsString;
use std::time::Duration;

use clap::Arg;
use clap::builder::ValueHint;

use crate::cli::{self, CompleteArguments, Verb};
use crate::screen;

/// The program `kubectl_complete-ebb`, for a kubectl-ebb to which no link of that name leads.
pub(crate) const PROGRAM: &str = "\
#!/bin/sh
# kubectl calls this program at each TAB after `kubectl ebb`.
exec kubectl ebb __complete \"$@\"";

/// A person waits for the answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Prints what the last word may become in a command line of this definition. A failure prints nothing: nobody reads it
/// between two words.
pub fn answer(arguments: &CompleteArguments, definition: clap::Command) {
    let (word, before) = match arguments.words.split_last() {
        Some((word, before)) => (word.as_str(), before),
        None => ("", &[][..]),
    };
    let mut fitting = Fitting::of(definition, before, word);
    if fitting.nodes {
        fitting.candidates = nodes(before).map(bare).collect();
    }
    // Bash takes `=` for a word of its own.
    let word = if word == "=" { "" } else { word };
    for (name, about) in fitting.candidates.iter().filter(|(name, _)| name.starts_with(word)) {
        screen::described(name, about);
    }
    screen::line(if fitting.files { ":0" } else { ":4" });
}

/// What fits at a place of the command line.
#[derive(Debug, Default)]
struct Fitting {
    /// Texts that fit, each with its description.
    candidates: Vec<(String, String)>,
    /// Names of files fit.
    files: bool,
    /// Names of nodes fit.
    nodes: bool,
}

impl Fitting {
    fn of(mut definition: clap::Command, before: &[String], word: &str) -> Self {
        definition.build();
        let mut command = &definition;
        let (mut flag, mut value_of): (Option<&Arg>, Option<&Arg>) = (None, None);
        for word in before {
            if word == "=" {
                value_of = flag;
            } else if value_of.take().is_some() {
                flag = None;
            } else if let Some(verb) = command.find_subcommand(word) {
                command = verb;
            } else {
                flag = flag_of(command, word);
                value_of = flag.filter(|flag| !flag.is_require_equals_set());
            }
        }
        if word == "=" {
            value_of = flag;
        }
        if let Some((name, _)) = word.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            let values = flag_of(command, name).map(values).unwrap_or_default();
            return Self {
                candidates: values.into_iter().map(|(value, _)| bare(format!("{name}={value}"))).collect(),
                ..Self::default()
            };
        }
        if let Some(flag) = value_of {
            let files = flag.get_value_hint() == ValueHint::AnyPath;
            return Self { candidates: values(flag), files, nodes: false };
        }
        if word.starts_with('-') {
            let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
            let lines = flags.filter_map(|flag| {
                Some(described(format!("--{}", flag.get_long()?), flag.get_help().map(ToString::to_string)))
            });
            return Self { candidates: lines.collect(), ..Self::default() };
        }
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let verbs = verbs
            .map(|verb| described(verb.get_name().to_owned(), verb.get_about().map(ToString::to_string)));
        let mut positionals = command.get_positionals();
        Self {
            candidates: verbs.chain(command.get_positionals().flat_map(values)).collect(),
            files: false,
            nodes: positionals.any(|positional| positional.get_id() == "nodes"),
        }
    }
}

/// The flag with this name (`--x`, `-x`), if it takes a value.
fn flag_of<'a>(command: &'a clap::Command, word: &str) -> Option<&'a Arg> {
    let is_it = |flag: &&Arg| {
        flag.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
            || flag.get_short().is_some_and(|short| word == format!("-{short}"))
    };
    command.get_arguments().find(is_it).filter(|flag| flag.get_action().takes_values())
}

fn values(flag: &Arg) -> Vec<(String, String)> {
    let values = flag.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    values.map(|value| bare(value.get_name().to_owned())).collect()
}

fn bare(name: String) -> (String, String) {
    (name, String::new())
}

/// A candidate with the first line of its description.
fn described(name: String, about: Option<String>) -> (String, String) {
    (name, about.unwrap_or_default().lines().next().unwrap_or_default().to_owned())
}

/// The nodes of the cluster that the flags before choose, without those that are named already.
fn nodes(before: &[String]) -> impl Iterator<Item = String> {
    let words = ["kubectl-ebb"].into_iter().chain(before.iter().map(String::as_str));
    let verb = cli::parse(words.map(OsString::from).collect()).ok();
    let names = verb.as_ref().and_then(Verb::nodes).and_then(|nodes| {
        let names = async { Ok(tokio::time::timeout(PATIENCE, nodes.names()).await??) };
        crate::in_runtime(names).ok()
    });
    // The shell reads what it inserts: nothing but what a Node's name may hold.
    let is_plain = |name: &str| name.chars().all(|one| one.is_ascii_alphanumeric() || ".-".contains(one));
    let typed = before.to_vec();
    names.into_iter().flatten().filter(move |name| is_plain(name) && !typed.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectls_program_asks_the_verb_that_answers() {
        assert!(PROGRAM.contains(&format!("exec kubectl ebb {} ", cli::COMPLETE)), "{PROGRAM}");
    }
}
