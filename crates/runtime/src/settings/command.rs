//! Settings that are programs to start: argument lists, never a shell line.

use std::path::PathBuf;

use super::raw::Raw;
use super::value::SettingValue;

/// So many arguments, and so many commands in a list of commands.
const MOST: usize = 64;
/// So many bytes per argument.
const LONGEST: usize = 4096;

/// A program and its arguments, started directly: no shell reads them, so nothing needs quoting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program: a path, or a name looked up in `PATH`.
    pub program: String,
    /// What it is given.
    pub arguments: Vec<String>,
}

impl SettingValue for Command {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        let items = raw.list().filter(|items| items.len() <= MOST)?;
        let words: Option<Vec<String>> = items.iter().map(argument).collect();
        let mut words = words?.into_iter();
        let program = words.next().filter(|program| !program.is_empty())?;
        Some(Self { program, arguments: words.collect() })
    }

    fn accepted((): &()) -> String {
        "a program and its arguments as a list of texts, such as `[\"/usr/bin/sync\", \"-f\"]`".to_owned()
    }

    fn show(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        Raw::List(words.cloned().map(Raw::Text).collect()).to_string()
    }
}

fn argument(raw: &Raw) -> Option<String> {
    let text = raw.text()?;
    (text.len() <= LONGEST && !text.contains('\0')).then(|| text.to_owned())
}

/// Commands that run one after the other; `[]` is none.
impl SettingValue for Vec<Command> {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        let items = raw.list().filter(|items| items.len() <= MOST)?;
        items.iter().map(|item| Command::read(item, &())).collect()
    }

    fn accepted((): &()) -> String {
        "a list of commands, such as `[[\"/usr/bin/sync\"], [\"/usr/bin/logger\", \"bye\"]]`".to_owned()
    }

    fn show(&self) -> String {
        let commands: Vec<String> = self.iter().map(Command::show).collect();
        format!("[{}]", commands.join(", "))
    }
}

/// Where the version of the running image is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionSource {
    /// The first line that a command prints.
    Command(Command),
    /// The first line of a file.
    File(PathBuf),
}

impl SettingValue for VersionSource {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        let command = Command::read(raw, &()).map(Self::Command);
        command.or_else(|| PathBuf::read(raw, &()).map(Self::File))
    }

    fn accepted((): &()) -> String {
        format!("{}, or {} of a file", Command::accepted(&()), PathBuf::accepted(&()))
    }

    fn show(&self) -> String {
        match self {
            Self::Command(command) => command.show(),
            Self::File(path) => path.show(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Command> {
        Command::read(&Raw::Bare(text.to_owned()), &())
    }

    #[test]
    fn a_command_is_a_list_of_texts_with_a_program() {
        let sync =
            Command { program: "sync".to_owned(), arguments: vec!["-f".to_owned(), "/a b".to_owned()] };
        assert_eq!(read(r#"["sync", "-f", "/a b"]"#), Some(sync));
        for refused in
            ["sync -f", "[]", r#"[""]"#, "[1]", r#"["a\u0000"]"#, r#"["a""#, r#"[["a"]]"#, "{}", ""]
        {
            assert_eq!(read(refused), None, "{refused}");
        }
        let many = |n: usize| Raw::List(vec![Raw::Text("a".to_owned()); n]);
        assert!(Command::read(&many(MOST), &()).is_some());
        assert!(Command::read(&many(MOST + 1), &()).is_none());
        assert!(Command::read(&Raw::List(vec![Raw::Text("a".repeat(LONGEST + 1))]), &()).is_none());
    }

    #[test]
    fn what_is_shown_reads_back() {
        for text in [r#"["a", "b \" c"]"#, "/etc/os-version"] {
            let source = VersionSource::read(&Raw::Bare(text.to_owned()), &()).unwrap();
            assert_eq!(source.show(), text);
        }
        let commands = r#"[["a"], ["b", "c"]]"#;
        assert_eq!(Vec::<Command>::read(&Raw::Bare(commands.to_owned()), &()).unwrap().show(), commands);
    }
}
