//! An operator's freeze of all commands (`ebb freeze`), as device-op and baseos apply it.

use jiff::Timestamp;
use pubsub::{Persistence, Root, TopicKey, read_item};
use schemas::{CommandFreeze, GoTime, agent};
use text::one_line;

/// Limit in bytes for an operator's text.
const MOST_WORDS: usize = 512;

/// A freeze in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// Text with the operator, the end, the reason, and how to end it.
    pub words: String,
    /// Time until it ends by itself, in milliseconds, at least 1; `None` if it lasts until `ebb unfreeze`.
    pub ends_in_ms: Option<u64>,
}

/// The freeze in effect at this time of the wall clock. A file that cannot be read counts as a freeze, because it may
/// hold one.
pub fn freeze(root: &Root, wall: Timestamp) -> Option<Freeze> {
    match read_item::<CommandFreeze>(root, agent::EBB, Persistence::Persistent, &TopicKey::global()) {
        Ok(freeze) => {
            freeze.filter(|freeze| freeze.stands(GoTime::from(wall))).map(|freeze| described(&freeze, wall))
        }
        Err(refusal) => {
            let words = format!("{refusal}: commands count as frozen; `ebb unfreeze` removes that file");
            Some(Freeze { words, ends_in_ms: None })
        }
    }
}

fn described(freeze: &CommandFreeze, wall: Timestamp) -> Freeze {
    let CommandFreeze { until, by, reason, .. } = freeze;
    // At least 1 ms, so that the caller does not read the file again at once and in vain.
    let left = |until: Timestamp| u64::try_from(until.duration_since(wall).as_millis()).unwrap_or(0).max(1);
    let ends_in_ms = until.set().map(left);
    let until = until.set().map_or_else(String::new, |until| until.strftime(" until %FT%TZ").to_string());
    let (by, reason) = (one_line(by, MOST_WORDS), one_line(reason, MOST_WORDS));
    let words = format!("commands are frozen{until} (by {by}: {reason}); `ebb unfreeze` ends that");
    Freeze { words, ends_in_ms }
}
