//! One message of EVE's socket protocol. Pure.
//!
//! A message is one datagram. Its fields are split by one space; keys and values are in standard base64 with padding:
//!
//! ```text
//! subscriber  request NodeDrainStatus
//! publisher   hello NodeDrainStatus false
//! publisher   update NodeDrainStatus Z2xvYmFs eyJTdGF0dXMiOjUsIlJlcXVlc3RlZEJ5IjoyfQ==
//! publisher   complete NodeDrainStatus
//! publisher   restarted NodeDrainStatus 1
//! publisher   delete NodeDrainStatus Z2xvYmFs
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

/// The longest message of EVE's socket protocol, in bytes; EVE's Go publisher ends when it has a longer one.
pub const MAX_MESSAGE_BYTES: usize = 65_533;

/// The longest request, in bytes: EVE's publisher reads into 256 bytes and refuses a request that fills them.
pub const MAX_REQUEST_BYTES: usize = 255;

/// Number of characters of a bad message that an error repeats.
const SHOWN: usize = 40;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A subscriber asks for a topic. This is the only message that a subscriber sends.
    Request {
        /// The topic's name.
        topic: String,
    },
    /// The publisher's first message.
    Hello {
        /// The topic's name.
        topic: String,
        /// True if the topic survives a boot. Old publishers leave this out.
        is_persistent: Option<bool>,
    },
    /// An item has this value now.
    Update {
        /// The topic's name.
        topic: String,
        /// The item's key. Keys that cannot be file names are possible.
        key: Vec<u8>,
        /// The item as JSON.
        json: Vec<u8>,
    },
    /// An item was removed.
    Delete {
        /// The topic's name.
        topic: String,
        /// The item's key.
        key: Vec<u8>,
    },
    /// All items that the topic had when the subscriber connected have been sent.
    Complete {
        /// The topic's name.
        topic: String,
    },
    /// The publisher's restart counter.
    Restarted {
        /// The topic's name.
        topic: String,
        /// Value of the counter.
        count: u64,
    },
}

/// The error for a datagram that is no message: it says what was found and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a message: {found}; accepted: {accepted}")]
pub struct FrameError {
    found: String,
    accepted: &'static str,
}

impl FrameError {
    fn new(found: impl Into<String>, accepted: &'static str) -> Self {
        Self { found: found.into(), accepted }
    }
}

impl Message {
    /// Reads a message from a datagram.
    pub fn decode(datagram: &[u8]) -> Result<Self, FrameError> {
        if MAX_READ_BYTES < datagram.len() {
            return Err(FrameError::new(format!("{} bytes", datagram.len()), "at most 65535 bytes"));
        }
        let text = std::str::from_utf8(datagram)
            .map_err(|_| FrameError::new(shown(datagram), "words in ASCII, split by one space"))?;
        let mut words = text.split(' ');
        let verb = words.next().unwrap_or_default();
        let fields: Vec<&str> = words.take(MOST_FIELDS).collect();
        let wrong = |accepted| Err(FrameError::new(shown(datagram), accepted));
        match (verb, fields.as_slice()) {
            ("request", [topic]) if !topic.is_empty() => Ok(Self::Request { topic: (*topic).to_owned() }),
            ("request", _) => wrong("`request <topic>`"),
            ("hello", [topic]) => Ok(Self::Hello { topic: (*topic).to_owned(), is_persistent: None }),
            ("hello", [topic, "true"]) => {
                Ok(Self::Hello { topic: (*topic).to_owned(), is_persistent: Some(true) })
            }
            ("hello", [topic, "false"]) => {
                Ok(Self::Hello { topic: (*topic).to_owned(), is_persistent: Some(false) })
            }
            ("hello", _) => wrong("`hello <topic> <true|false>`"),
            ("update", [topic, key, json]) => {
                let (key, json) = (unwrap(key)?, unwrap(json)?);
                Ok(Self::Update { topic: (*topic).to_owned(), key, json })
            }
            ("update", _) => wrong("`update <topic> <base64 key> <base64 json>`"),
            ("delete", [topic, key]) => Ok(Self::Delete { topic: (*topic).to_owned(), key: unwrap(key)? }),
            ("delete", _) => wrong("`delete <topic> <base64 key>`"),
            ("complete", [topic]) => Ok(Self::Complete { topic: (*topic).to_owned() }),
            ("complete", _) => wrong("`complete <topic>`"),
            ("restarted", [topic, count]) if is_decimal(count) => match count.parse() {
                Ok(count) => Ok(Self::Restarted { topic: (*topic).to_owned(), count }),
                Err(_) => wrong("a counter of 64 bits"),
            },
            ("restarted", _) => wrong("`restarted <topic> <decimal>`"),
            (_, _) => wrong("request, hello, update, delete, complete or restarted"),
        }
    }

    /// The message as a datagram.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Request { topic } => format!("request {topic}"),
            Self::Hello { topic, is_persistent: None } => format!("hello {topic}"),
            Self::Hello { topic, is_persistent: Some(flag) } => format!("hello {topic} {flag}"),
            Self::Update { topic, key, json } => {
                format!("update {topic} {} {}", STANDARD.encode(key), STANDARD.encode(json))
            }
            Self::Delete { topic, key } => format!("delete {topic} {}", STANDARD.encode(key)),
            Self::Complete { topic } => format!("complete {topic}"),
            Self::Restarted { topic, count } => format!("restarted {topic} {count}"),
        }
        .into_bytes()
    }

    /// Name of the topic that the message is about.
    pub fn topic(&self) -> &str {
        match self {
            Self::Request { topic }
            | Self::Hello { topic, .. }
            | Self::Update { topic, .. }
            | Self::Delete { topic, .. }
            | Self::Complete { topic }
            | Self::Restarted { topic, .. } => topic,
        }
    }

    /// The key of an update that was cut off: the only usable part of it. `None` if the datagram is no update.
    pub fn key_of_truncated_update(datagram: &[u8]) -> Option<Vec<u8>> {
        let mut words = datagram.splitn(4, |byte| *byte == b' ');
        let (verb, _topic, key, _rest) = (words.next()?, words.next()?, words.next()?, words.next()?);
        (verb == b"update").then(|| STANDARD.decode(key).ok()).flatten()
    }
}

/// Length in bytes of an update message of an item whose JSON has `json` bytes.
pub fn update_bytes(topic: &str, key: &str, json: usize) -> usize {
    "update ".len() + topic.len() + 1 + base64_bytes(key.len()) + 1 + base64_bytes(json)
}

/// A Go subscriber reads this many bytes of a message and cuts off the rest.
pub const MAX_READ_BYTES: usize = 65_535;

/// The largest number of fields after the verb, plus one.
const MOST_FIELDS: usize = 4;

const fn base64_bytes(plain: usize) -> usize {
    plain.div_ceil(3) * 4
}

fn unwrap(word: &str) -> Result<Vec<u8>, FrameError> {
    STANDARD.decode(word).map_err(|error| {
        FrameError::new(format!("{}: {error}", shown(word.as_bytes())), "standard base64 with padding")
    })
}

fn is_decimal(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let start: String = text.chars().take(SHOWN).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("`{}{more}`", start.escape_debug())
}

#[cfg(test)]
mod tests;
