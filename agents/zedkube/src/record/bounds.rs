//! A record that fits its file, whatever it has to tell.

use runtime::shortened;
use schemas::{DrainRecord, RecordedVolume};

/// Bytes that are kept of the text of a failure: it is for people, and the log has all of it.
const LONGEST_TEXT: usize = 1024;
/// Attempts that are kept, the newest: the setting `drain.attempts` allows 100.
const MOST_ATTEMPTS: usize = 32;
/// Bytes for the names of volumes, enough for 200 with names as long as Kubernetes lets them be. What does not fit is
/// found attached by the next fresh look.
const VOLUME_BYTES: usize = 256 * 1024;

/// Without what a restarted zedkube finds out anew or does not decide by. Who asks, what was answered, what an operator has
/// ordered and every deadline stay.
pub(super) fn bounded(mut record: DrainRecord) -> DrainRecord {
    record.phase.error = shortened(record.phase.error, LONGEST_TEXT);
    let over = record.attempts.len().saturating_sub(MOST_ATTEMPTS);
    record.attempts.drain(..over);
    for attempt in &mut record.attempts {
        attempt.error = shortened(std::mem::take(&mut attempt.error), LONGEST_TEXT);
    }
    if let Some(attempt) = &mut record.attempt {
        let mut room = VOLUME_BYTES;
        attempt.volumes.retain(|volume| {
            let bytes = bytes_of(volume);
            let fits = bytes <= room;
            room = if fits { room - bytes } else { 0 };
            fits
        });
    }
    record
}

fn bytes_of(volume: &RecordedVolume) -> usize {
    let names = [&volume.volume, &volume.claim, &volume.user];
    let attached_name = volume.attached_name.as_ref().map_or(0, String::len);
    names.map(String::len).into_iter().sum::<usize>() + attached_name
}
