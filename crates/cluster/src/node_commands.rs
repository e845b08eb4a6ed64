//! Commands that the cluster gives to a device: annotations of its Node, and zedkube's answer beside them.
//!
//! A person or a program writes any text into `ebb.dev/reboot`, `ebb.dev/shutdown` or `ebb.dev/drain` of a Node, or an
//! [`UpdateText`] into `ebb.dev/update`; a new text is a new command, as with `kubectl rollout restart`, and a text that is
//! removed takes its command back. zedkube answers in `ebb.dev/state`. `packaging/kubernetes/ebb-commands.yaml` restricts
//! who may write these annotations.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::json;
use text::one_line;

/// Annotation with zedkube's answer, a [`CommandAnswer`] as JSON.
pub const STATE: &str = "ebb.dev/state";

/// Longest text of a command, in bytes. Kubernetes allows 256 KiB for all annotations of an object together.
pub const LONGEST_TEXT: usize = 1024;

/// Longest answer that is read, in bytes. Ours are shorter: JSON writes a quote or a backslash of the reason with two bytes,
/// and its other characters as they are.
const LONGEST_STATE: usize = 4096;

/// Longest reason in an answer, in bytes.
const LONGEST_REASON: usize = 512;

/// Longest words of the parser in a reason, in bytes: they repeat an unknown field, however long it is.
const LONGEST_PARSER_WORDS: usize = 256;

/// A command that a Node can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeCommand {
    /// Reboot the device, once its node is drained.
    Reboot,
    /// Stop what runs on the device, once its node is drained.
    Shutdown,
    /// Activate an image and reboot the device into it, once its node is drained. The text is an [`UpdateText`].
    Update,
    /// Drain the node, and keep it drained for as long as the text stands, over boots too.
    Drain,
}

impl NodeCommand {
    /// All commands.
    pub const ALL: [Self; 4] = [Self::Reboot, Self::Shutdown, Self::Update, Self::Drain];

    /// The command's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::Shutdown => "shutdown",
            Self::Update => "update",
            Self::Drain => "drain",
        }
    }

    /// The annotation's key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Reboot => "ebb.dev/reboot",
            Self::Shutdown => "ebb.dev/shutdown",
            Self::Update => "ebb.dev/update",
            Self::Drain => "ebb.dev/drain",
        }
    }

    /// The number by which the device knows the command with this text: the first 32 bits of the SHA-256 of the Node's
    /// UID, the key and the text. The same text on another Node, or on the same one after it was created anew, is another
    /// command.
    pub fn counter(self, node_uid: &str, text: &str) -> u32 {
        // Neither a UID nor a key can have a NUL.
        let whole = [node_uid, self.key(), text].join("\0");
        let digest = digest(&SHA256, whole.as_bytes());
        digest.as_ref().iter().take(4).fold(0, |counter, byte| counter << 8 | u32::from(*byte))
    }
}

/// The text of [`NodeCommand::Update`], as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateText {
    /// UUID of the image: of its content tree, as EVE says.
    pub image: String,
    /// Version of the image, as it reports itself when it runs.
    pub version: String,
    /// Reason, for people. Another reason makes another command, which allows another try of the same image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl UpdateText {
    /// Reads the text of a command.
    ///
    /// # Errors
    /// It is no such JSON; the words say why, and what is accepted.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| {
            let error = one_line(&error.to_string(), LONGEST_PARSER_WORDS);
            format!(
                "the text of annotation {} is refused: {error}; accepted: such as \
                 {{\"image\":\"6ba7b810-9dad-11d1-80b4-000000000002\",\"version\":\"16.0.1\",\"reason\":\"…\"}}",
                NodeCommand::Update.key()
            )
        })
    }

    /// The text of the annotation.
    pub fn to_text(&self) -> String {
        json!(self).to_string()
    }
}

/// A command as it stands on the Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenCommand {
    /// Which command.
    pub command: NodeCommand,
    /// Its number, see [`NodeCommand::counter`].
    pub counter: u32,
    /// The text on one line, for people.
    ///
    /// # Errors
    /// The text is too long to be a command; the words say so.
    pub text: Result<String, String>,
}

/// The commands on a Node, and the last answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCommands {
    /// The commands that stand, in the order of [`NodeCommand::ALL`].
    pub given: Vec<GivenCommand>,
    /// Annotation [`STATE`] as it is; `None` without one.
    pub state: Option<String>,
}

impl NodeCommands {
    /// Takes the commands from the annotations of a Node. An empty text is no command: `kubectl annotate node N
    /// ebb.dev/reboot=` takes one back.
    pub(crate) fn of(node_uid: &str, annotations: &BTreeMap<String, String>) -> Self {
        let given = |command: NodeCommand| {
            let text = annotations.get(command.key()).filter(|text| !text.is_empty())?;
            let shown = if text.len() <= LONGEST_TEXT {
                Ok(one_line(text, LONGEST_TEXT))
            } else {
                Err(format!(
                    "annotation {} has {} bytes; accepted: at most {LONGEST_TEXT}",
                    command.key(),
                    text.len()
                ))
            };
            Some(GivenCommand { command, counter: command.counter(node_uid, text), text: shown })
        };
        let state = annotations.get(STATE).map(|state| one_line(state, LONGEST_STATE));
        Self { given: NodeCommand::ALL.into_iter().filter_map(given).collect(), state }
    }

    /// The command, if it stands.
    pub fn of_kind(&self, command: NodeCommand) -> Option<&GivenCommand> {
        self.given.iter().find(|given| given.command == command)
    }

    /// True if the command stands, with a text that is accepted.
    pub(crate) fn has(&self, command: NodeCommand) -> bool {
        self.of_kind(command).is_some_and(|given| given.text.is_ok())
    }

    /// The answer, if it can be read; its texts on one line.
    pub fn answer(&self) -> Option<CommandAnswer> {
        let answer: CommandAnswer = serde_json::from_str(self.state.as_ref()?).ok()?;
        let reason = one_line(&answer.reason, LONGEST_TEXT);
        Some(CommandAnswer { reason, since: one_line(&answer.since, LONGEST_TEXT), ..answer })
    }
}

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerState {
    /// The device has taken note of the command and will not carry it out.
    Recorded,
    /// The device will carry it out; something has to come first.
    Waiting,
    /// The node is being drained for it.
    Draining,
    /// The node is drained. Unless the command is a drain, the device is about to act.
    Drained,
    /// The device goes down. This cannot be taken back.
    Acting,
    /// The command was carried out.
    Done,
    /// The command was not carried out.
    Failed,
}

impl AnswerState {
    /// True if the state changes only by another command.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Recorded | Self::Done | Self::Failed)
    }
}

/// zedkube's answer to the commands on its Node: to the one that is under way, or else to the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandAnswer {
    /// Which command.
    pub command: NodeCommand,
    /// The number of the command with its text, as `ebb commands` shows it on the device.
    pub counter: u32,
    /// How far it is.
    pub state: AnswerState,
    /// Why it is so far and no farther; empty if there is nothing to say.
    pub reason: String,
    /// Since when, in RFC 3339, by the device's clock.
    pub since: String,
}

impl CommandAnswer {
    /// An answer without its time; the reason on one line, cut if it is too long.
    pub fn new(command: NodeCommand, counter: u32, state: AnswerState, reason: &str) -> Self {
        Self { command, counter, state, reason: one_line(reason, LONGEST_REASON), since: String::new() }
    }

    /// True if this answers the command with this number.
    pub fn is_to(&self, command: NodeCommand, counter: u32) -> bool {
        (self.command, self.counter) == (command, counter)
    }

    /// True if the other one tells the same state of the same command; its reason may be another one.
    pub fn tells_the_same(&self, other: &Self) -> bool {
        self.is_to(other.command, other.counter) && self.state == other.state
    }

    /// The value of annotation [`STATE`].
    pub(crate) fn to_text(&self) -> String {
        json!(self).to_string()
    }
}

#[cfg(test)]
mod tests;
