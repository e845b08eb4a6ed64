//! Parts that the operator's verbs share: the root folder and the output format, the reason, the check of access
//! rights, and the entry in the device's journal.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use pubsub::{Persistence, Root};
use runtime::liveness::hung_for;
use runtime::logs;
use runtime::peers::{has_zedkube, user_name};
use schemas::{Agent, age, agent};
use serde::Serialize;

use kubectl_ebb::screen;

use crate::audit;

/// Longest reason in characters: it goes into a topic and into one line of a log.
const LONGEST_REASON: usize = 500;

/// Root folder of the device, and format of the answer.
#[derive(Args, Debug)]
pub(crate) struct OperatorFlags {
    /// Folder that is used as the root of the device's files (for tests and containers)
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl OperatorFlags {
    /// Answers for people, about the device below this root.
    pub(crate) fn of(root: &Root) -> Self {
        Self { root: root.path().to_owned(), json: false }
    }

    /// The root folder.
    ///
    /// # Errors
    /// This process may not read and write the agents' files there.
    pub(crate) fn root(&self) -> anyhow::Result<Root> {
        readable_root(&self.root)
    }

    /// Prints the answer: the line for people, or the JSON document.
    ///
    /// # Errors
    /// The document cannot be written as JSON.
    pub(crate) fn answer(&self, line: &str, document: &impl Serialize) -> anyhow::Result<()> {
        if self.json {
            return screen::json(document);
        }
        screen::line(line);
        Ok(())
    }
}

/// The root at this folder.
///
/// # Errors
/// This process may not read and write the agents' files there.
pub(crate) fn readable_root(folder: &Path) -> anyhow::Result<Root> {
    let root = Root::new(folder);
    missing_right(&root).map_or(Ok(root), |missing| bail!("{missing}"))
}

/// Parses the reason of an operator: one line of 1 to 500 characters.
pub(crate) fn reason(text: &str) -> Result<String, String> {
    let reason = text.trim();
    let fits = !reason.is_empty() && reason.chars().nth(LONGEST_REASON).is_none();
    if fits && !reason.contains(char::is_control) {
        Ok(reason.to_owned())
    } else {
        Err(format!("accepted: one line of 1 to {LONGEST_REASON} characters"))
    }
}

/// The reason in brackets, to be appended to a sentence; empty without a reason.
pub(crate) fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

/// Text for a user who may not read the agents' folders, with the command to use instead; `None` if access is allowed.
/// Without this check every file would be reported as a problem of its own.
pub(crate) fn missing_right(root: &Root) -> Option<String> {
    let writers = Agent::ALL.into_iter().map(Agent::wire_name).chain([agent::EBB]);
    let folders = writers.flat_map(|writer| {
        [Persistence::Volatile, Persistence::Persistent].map(|place| root.agent_folder(writer, place))
    });
    let owner = folders.into_iter().find_map(|folder| owner_of_closed(&folder))?;
    let (name, with) = match owner {
        0 => ("root".to_owned(), "sudo".to_owned()),
        other => (format!("user {}", user_name(other)), format!("sudo -u {}", user_name(other))),
    };
    let words: Vec<String> = std::env::args_os().map(|word| quoted(&word)).collect();
    Some(format!(
        "only {name} may read and write what the agents keep; run this as {name}: `{with} {}`",
        words.join(" ")
    ))
}

/// Owner of a folder that this process may not read; root if the owner cannot be read either.
fn owner_of_closed(folder: &Path) -> Option<u32> {
    let denied = fs::read_dir(folder).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    denied.then(|| fs::metadata(folder).map_or(0, |folder| folder.uid()))
}

/// The word quoted for a shell, in one line.
pub(crate) fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", text::plain(&word).replace('\'', r"'\''"))
}

/// Writes an action of an operator down ([`audit`]), and into the device's journal if there is one, under the name `ebb`.
/// `reason` is empty if the operator gave none. If the disk takes nothing, the operator is told, and goes on.
pub(crate) fn journal(root: &Root, text: &str, reason: &str) {
    if let Err(error) = audit::write_down(root, text, reason) {
        screen::say(&format!("Warning: {error:#}"));
    }
    if root.is_system() && logs::has_journal() {
        // An error means that logging is set up already, because the operator wants to see the log.
        if let Err(error) = logs::init(None, "ebb") {
            tracing::debug!("{error}");
        }
    }
    tracing::info!("{text}");
}

/// Warns on stderr that the node will not be drained because zedkube does not run, or hangs.
pub(crate) fn warn_without_zedkube(root: &Root) {
    let absent =
        || (!has_zedkube(root)).then(|| ("zedkube does not run".to_owned(), "start it with `ebb zedkube`"));
    let hangs = || {
        Some((zedkube_hangs(root)?, "restart it: systemctl restart ebb-zedkube (without systemd: `ebb run`)"))
    };
    if let Some((trouble, remedy)) = absent().or_else(hangs) {
        screen::say(&format!(
            "Warning: {trouble}: this node is not drained, and after `drain.start.timeout` the device may go down \
             undrained; {remedy}"
        ));
    }
}

/// Says since when zedkube hangs; None if it does not.
pub(crate) fn zedkube_hangs(root: &Root) -> Option<String> {
    let silent = hung_for(root, agent::ZEDKUBE)?;
    let age = age(u64::try_from(silent.as_millis()).unwrap_or(u64::MAX));
    Some(format!("zedkube hangs: its touch file is {age} old"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line() {
        for (text, expected) in [
            ("fan swap", Some("fan swap")),
            ("  fan swap\n", Some("fan swap")),
            ("é", Some("é")),
            ("", None),
            (" \n ", None),
            ("a\nb", None),
            ("a\u{7}b", None),
        ] {
            assert_eq!(reason(text).ok().as_deref(), expected, "{text:?}");
        }
        assert!(reason(&"é".repeat(LONGEST_REASON)).is_ok());
        assert!(reason(&"é".repeat(LONGEST_REASON + 1)).is_err());
    }

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
