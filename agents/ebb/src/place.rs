//! Flags that every verb of the operator has, and what he may write as a reason.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use pubsub::Root;
use serde::Serialize;

use crate::{rights, screen};

/// So many characters of a reason: it goes into a topic and into one line of a log.
const LONGEST_REASON: usize = 500;

/// Where the device is, and how the answer is printed.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// Folder that stands for `/`
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print the answer as one JSON object
    #[arg(long)]
    json: bool,
}

impl Place {
    /// Below which everything is.
    ///
    /// # Errors
    /// This process may not read and write what the agents keep there.
    pub(crate) fn root(&self) -> anyhow::Result<Root> {
        let root = Root::new(&self.root);
        rights::missing(&root).map_or(Ok(root), |missing| bail!("{missing}"))
    }

    /// Prints the answer: the line for people, or the document.
    ///
    /// # Errors
    /// The document cannot be JSON.
    pub(crate) fn answer(&self, line: &str, document: &impl Serialize) -> anyhow::Result<()> {
        if self.json {
            screen::line(&serde_json::to_string_pretty(document)?);
        } else {
            screen::line(line);
        }
        Ok(())
    }
}

/// What an operator gives as the reason: one line of 1 to 500 characters.
pub(crate) fn reason(text: &str) -> Result<String, String> {
    let reason = text.trim();
    let fits = !reason.is_empty() && reason.chars().nth(LONGEST_REASON).is_none();
    if fits && !reason.contains(char::is_control) {
        Ok(reason.to_owned())
    } else {
        Err(format!("accepted: one line of 1 to {LONGEST_REASON} characters"))
    }
}

/// A reason behind what it is given for; nothing if none is given.
pub(crate) fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
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
}
