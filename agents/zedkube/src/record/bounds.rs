//! A record that fits its file, whatever it has to tell.

use runtime::shortened;
use schemas::DrainRecord;

/// Bytes that are kept of the text of a failure: it is for people, and the log has all of it.
const LONGEST_TEXT: usize = 1024;
/// Attempts that are kept, the newest: the setting `drain.attempts` allows 100.
const MOST_ATTEMPTS: usize = 32;

/// Without what a restarted zedkube finds out anew or does not decide by. Who asks, what was answered, what an operator has
/// ordered and every deadline stay.
pub(super) fn bounded(mut record: DrainRecord) -> DrainRecord {
    record.phase.error = shortened(record.phase.error, LONGEST_TEXT);
    let over = record.attempts.len().saturating_sub(MOST_ATTEMPTS);
    record.attempts.drain(..over);
    for attempt in &mut record.attempts {
        attempt.error = shortened(std::mem::take(&mut attempt.error), LONGEST_TEXT);
    }
    record
}
