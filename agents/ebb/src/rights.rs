//! Who may read and write what the agents keep.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pubsub::{Persistence, Root};
use schemas::agent;

use crate::peers;

/// Who writes what an operator needs: the four agents, and the operator.
const WRITERS: [&str; 5] = [agent::ZEDKUBE, agent::ZEDAGENT, agent::NODEAGENT, agent::BASEOSMGR, agent::EBB];

/// Why this process may not look into the agents' folders, and what to run instead; nothing if it may. Without this each
/// file would be told of on its own, as if something were wrong with it.
pub(crate) fn missing(root: &Root) -> Option<String> {
    let folders = WRITERS.into_iter().flat_map(|writer| {
        [Persistence::Volatile, Persistence::Persistent].map(|place| root.agent_folder(writer, place))
    });
    let owner = folders.into_iter().find_map(|folder| owner_of_closed(&folder))?;
    let (name, with) = match owner {
        0 => ("root".to_owned(), "sudo".to_owned()),
        other => (format!("user {}", peers::name_of(other)), format!("sudo -u {}", peers::name_of(other))),
    };
    let words: Vec<String> = std::env::args_os().map(|word| quoted(&word)).collect();
    Some(format!(
        "only {name} may read and write what the agents keep; run this as {name}: `{with} {}`",
        words.join(" ")
    ))
}

/// The owner of a folder that this process may not look into. Of one that cannot be asked for it is root.
fn owner_of_closed(folder: &Path) -> Option<u32> {
    let denied = fs::read_dir(folder).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    denied.then(|| fs::metadata(folder).map_or(0, |folder| folder.uid()))
}

/// As a shell takes it, in one line.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    let one_line: String = word.chars().map(shown).collect();
    format!("'{}'", one_line.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_as_a_shell_takes_them() {
        for (word, expected) in [
            ("reboot", "reboot"),
            ("--reason=a", "--reason=a"),
            ("store open", "'store open'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a\nb", "'a b'"),
        ] {
            assert_eq!(quoted(OsStr::new(word)), expected);
        }
    }
}
