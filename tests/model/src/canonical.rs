//! Decides which states of the model are equal: times count relative to now; serials and the times of requests count
//! only by their order.
//!
//! Two states that behave the same from now on should have the same fingerprint, although one of them is older. The
//! text of `Debug` is used because only it shows every field of every state, private ones included, so that none is
//! forgotten.

use std::fmt::{Debug, Write as _};
use std::hash::{Hash, Hasher};

use crate::action::Agent;
use crate::world::World;

/// Numbers from this one on are times in milliseconds; the smallest is the start of a boot in [`crate::world`].
/// Serials, counters and versions are smaller.
const FIRST_TIME: u64 = 40_000;

/// Times that are longer ago than this are equal: no limit is longer.
const LONG_AGO: u64 = 200_000;

/// Fields that hold serials of calls.
const SERIALS: [&str; 8] =
    ["serial", "asked", "in_flight", "recheck", "known_at", "nodes_asked", "after", "attempt_serial"];

/// Structs whose field `attempt` or `number` is a serial.
const WITH_SERIAL: [&str; 8] =
    ["Attempt", "Evict", "Delete", "Relist", "Inquire", "Answer", "Relisted", "Found"];

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write(&self.canonical());
        hasher.write_u8(self.left);
        hasher.write_u32(self.steps);
    }
}

/// Two states are equal if they behave the same from now on.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        (self.left, self.steps) == (other.left, other.steps) && self.canonical() == other.canonical()
    }
}

impl World {
    /// The canonical text, without the number of deviations that are left.
    pub fn canonical(&self) -> Vec<u8> {
        let mut text = Text { now: self.now, out: Vec::with_capacity(8_192), names: Vec::new() };
        text.add(&self.zedkube);
        text.add(&(&self.strays, &self.server));
        text.add(&self.device_op);
        text.add(&self.baseos);
        text.add(&self.nodeagent);
        text.add(&self.files);
        text.add(&(&self.device, &self.monitor, self.turn, self.ordered, self.boot));
        let quiet = self.now.saturating_sub(self.rest.since);
        let starts: Vec<Option<u64>> = Agent::ALL.into_iter().map(|agent| self.starts_at(agent)).collect();
        text.add(&(&self.rest.is_settled, quiet, starts, self.last));
        text.out
    }

    /// The fingerprint, without the number of deviations that are left: states with equal fingerprints behave the same
    /// as long as there is no deviation.
    pub fn fingerprint(&self) -> u64 {
        hash(&self.canonical())
    }
}

/// FNV-1a, 64 bits: short texts, no secrets.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

struct Text {
    now: u64,
    out: Vec<u8>,
    /// Times of requests, in the order in which they appear in the text.
    names: Vec<String>,
}

impl Text {
    /// Adds one part; its serials are numbered separately.
    fn add(&mut self, part: &impl Debug) {
        let mut raw = String::with_capacity(4_096);
        if write!(raw, "{part:?}").is_err() {
            raw.clear();
        }
        let tokens = tokens(&raw);
        let mut serials: Vec<u64> = tokens.iter().filter_map(Token::serial).collect();
        serials.sort_unstable();
        serials.dedup();
        for token in tokens {
            self.write(&token, &serials);
        }
    }

    fn write(&mut self, token: &Token<'_>, serials: &[u64]) {
        match token {
            Token::Text(text) => self.out.extend(text.as_bytes()),
            Token::Name(name) => {
                let known = self.names.iter().position(|known| known == name);
                let place = known.unwrap_or_else(|| {
                    self.names.push((*name).to_owned());
                    self.names.len() - 1
                });
                self.out.extend(format!("@{place}").as_bytes());
            }
            Token::Serial(serial) => {
                let rank = serials.binary_search(serial).unwrap_or_default();
                self.out.extend(format!("#{rank}").as_bytes());
            }
            Token::Number(u64::MAX) => self.out.extend(b"never"),
            Token::Number(number) if *number >= FIRST_TIME && *number >= self.now => {
                self.out.extend(format!("+{}", number - self.now).as_bytes());
            }
            Token::Number(number) if *number >= FIRST_TIME => {
                self.out.extend(format!("-{}", (self.now - number).min(LONG_AGO)).as_bytes());
            }
            Token::Number(number) => self.out.extend(number.to_string().as_bytes()),
        }
    }
}

enum Token<'a> {
    Text(&'a str),
    /// The time of a request, in RFC 3339.
    Name(&'a str),
    Serial(u64),
    Number(u64),
}

impl Token<'_> {
    const fn serial(&self) -> Option<u64> {
        match self {
            Self::Serial(serial) => Some(*serial),
            Self::Text(_) | Self::Name(_) | Self::Number(_) => None,
        }
    }
}

/// Splits the text of `Debug` into numbers and the text between them.
fn tokens(raw: &str) -> Vec<Token<'_>> {
    let bytes = raw.as_bytes();
    let mut tokens = Vec::with_capacity(256);
    let (mut at, mut from) = (0, 0);
    let (mut field, mut record) = ("", "");
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_alphabetic() || *byte == b'_' {
            let end = end_of(bytes, at, |byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
            let word = raw.get(at..end).unwrap_or_default();
            match bytes.get(end) {
                Some(b':') => field = word,
                Some(b' ') if bytes.get(end + 1) == Some(&b'{') => record = word,
                _ => {}
            }
            at = end;
        } else if byte.is_ascii_digit() {
            tokens.push(Token::Text(raw.get(from..at).unwrap_or_default()));
            let end = end_of(bytes, at, |byte| byte.is_ascii_digit());
            let is_name = end - at == 4 && bytes.get(end) == Some(&b'-');
            let end = if is_name { end_of(bytes, at, |byte| byte != b'Z') + 1 } else { end };
            let word = raw.get(at..end).unwrap_or_default();
            tokens.push(if is_name { Token::Name(word) } else { number(word, field, record) });
            (at, from) = (end, end);
        } else {
            at += 1;
        }
    }
    tokens.push(Token::Text(raw.get(from..).unwrap_or_default()));
    tokens
}

fn number<'a>(word: &str, field: &str, record: &str) -> Token<'a> {
    let number = word.parse().unwrap_or(u64::MAX);
    let is_serial = number < FIRST_TIME
        && (SERIALS.contains(&field)
            || (["attempt", "number"].contains(&field) && WITH_SERIAL.contains(&record)));
    if is_serial { Token::Serial(number) } else { Token::Number(number) }
}

fn end_of(bytes: &[u8], from: usize, goes_on: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|byte| !goes_on(*byte)).unwrap_or(rest.len())
}
