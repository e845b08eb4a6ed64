//! Settings that are programs with arguments: lists, never a shell line.

use std::path::PathBuf;

use serde_json::Value;

use super::notation::{AbsolutePath, Notation};

/// Limit for the arguments of a command, and for the commands in a list.
const MOST: usize = 64;
/// Limit in bytes for one argument.
const LONGEST: usize = 4096;

/// A program and its arguments, started without a shell, so nothing needs quoting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program: a path, or a name looked up in `PATH`.
    pub program: String,
    /// The arguments.
    pub arguments: Vec<String>,
}

/// The items of a list; None if it is too long.
fn items(written: &Value) -> Option<&Vec<Value>> {
    written.as_array().filter(|items| items.len() <= MOST)
}

impl Notation for Command {
    type Of = Self;
    const ACCEPTED: &str =
        "a program and its arguments as a list of texts, such as `[\"/usr/bin/sync\", \"-f\"]`";

    fn read(written: &Value) -> Option<Self> {
        let is_argument = |text: &&str| text.len() <= LONGEST && !text.contains('\0');
        let argument = |item: &Value| item.as_str().filter(is_argument).map(str::to_owned);
        let mut words = items(written)?.iter().map(argument).collect::<Option<Vec<String>>>()?.into_iter();
        let program = words.next().filter(|program| !program.is_empty())?;
        Some(Self { program, arguments: words.collect() })
    }

    fn write(value: &Self) -> Value {
        std::iter::once(&value.program).chain(&value.arguments).map(String::as_str).collect()
    }
}

/// Commands that run one after the other; `[]` is none.
pub(crate) struct Commands;

impl Notation for Commands {
    type Of = Vec<Command>;
    const ACCEPTED: &str =
        "a list of commands, such as `[[\"/usr/bin/sync\"], [\"/usr/bin/logger\", \"bye\"]]`";

    fn read(written: &Value) -> Option<Vec<Command>> {
        items(written)?.iter().map(Command::read).collect()
    }

    fn write(value: &Vec<Command>) -> Value {
        value.iter().map(Command::write).collect()
    }
}

/// The source of the running image's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionSource {
    /// The first line that a command prints.
    Command(Command),
    /// The first line of a file.
    File(PathBuf),
}

impl Notation for VersionSource {
    type Of = Self;

    fn read(written: &Value) -> Option<Self> {
        let command = Command::read(written).map(Self::Command);
        command.or_else(|| AbsolutePath::read(written).map(Self::File))
    }

    fn write(value: &Self) -> Value {
        match value {
            Self::Command(command) => Command::write(command),
            Self::File(path) => AbsolutePath::write(path),
        }
    }

    fn accepted() -> String {
        format!("{}, or {} of a file", Command::accepted(), AbsolutePath::accepted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_program_and_limits() {
        let sync = Command { program: "sync".into(), arguments: vec!["-f".into(), "/a b".into()] };
        assert_eq!(Command::read(&["sync", "-f", "/a b"].into_iter().collect()), Some(sync));
        let list = |count: usize, text: &str| Command::read(&vec![text; count].into());
        for (count, text, is_accepted) in [
            (0, "a", false),
            (MOST, "a", true),
            (MOST + 1, "a", false),
            (1, "", false),
            (1, "a\0", false),
            (1, &"a".repeat(LONGEST), true),
            (1, &"a".repeat(LONGEST + 1), false),
        ] {
            assert_eq!(list(count, text).is_some(), is_accepted, "{count} times {}", text.len());
        }
        let commands = |count: usize| Commands::read(&vec![Value::from(vec!["a"]); count].into());
        assert_eq!((commands(MOST).map(|all| all.len()), commands(MOST + 1)), (Some(MOST), None));
    }
}
