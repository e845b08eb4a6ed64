//! The brake on all commands, `ebb freeze`, as device-op and baseos obey it.

use jiff::Timestamp;
use pubsub::{Persistence, Root, TopicKey, read_item};
use schemas::{CommandFreeze, GoTime, agent};
use text::one_line;

/// So much is repeated of what an operator wrote, in bytes.
const MOST_WORDS: usize = 512;

/// A freeze that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// Who put it on, until when, why, and how it ends.
    pub words: String,
    /// In so many milliseconds it ends by itself, at least one; `None`: not before `ebb unfreeze`.
    pub ends_in_ms: Option<u64>,
}

/// The freeze that stands at this time of the wall clock. A file that cannot be read is one: nobody knows who put it on.
pub fn freeze(root: &Root, wall: Timestamp) -> Option<Freeze> {
    match read_item::<CommandFreeze>(root, agent::EBB, Persistence::Persistent, &TopicKey::global()) {
        Ok(freeze) => {
            freeze.filter(|freeze| freeze.stands(GoTime::from(wall))).map(|freeze| told(&freeze, wall))
        }
        Err(refusal) => {
            let words = format!("{refusal}: commands count as frozen; `ebb unfreeze` removes that file");
            Some(Freeze { words, ends_in_ms: None })
        }
    }
}

fn told(freeze: &CommandFreeze, wall: Timestamp) -> Freeze {
    let CommandFreeze { until, by, reason, .. } = freeze;
    // At least one, so that nobody looks again at once, and in vain.
    let left = |until: Timestamp| u64::try_from(until.duration_since(wall).as_millis()).unwrap_or(0).max(1);
    let ends_in_ms = until.set().map(left);
    let until = until.set().map_or_else(String::new, |until| until.strftime(" until %FT%TZ").to_string());
    let (by, reason) = (one_line(by, MOST_WORDS), one_line(reason, MOST_WORDS));
    let words = format!("commands are frozen{until} (by {by}: {reason}); `ebb unfreeze` ends that");
    Freeze { words, ends_in_ms }
}
