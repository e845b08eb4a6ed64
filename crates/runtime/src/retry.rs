//! The time of the next attempt after a failed drain or a failed write. Pure functions.

use std::time::Duration;

use schemas::Backoff;

use crate::clock::millis;
use crate::settings::Retry;

/// The pause after a failed write: a full disk is tried every 30 s.
const FAILED_WRITE: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// The pause after this number of failed writes or other effects in a row: 1 s, doubled up to 30 s.
pub fn pause_after(failures: u32) -> Duration {
    FAILED_WRITE.after(failures)
}

/// Upper limit of the pause after failures that are not the drain's.
const LONGEST_PAUSE: Duration = Duration::from_hours(24);

/// The pause after this number of failures in a row that are not the drain's. It doubles up to a day, because every
/// attempt empties the node.
pub fn doubled(retry: Retry, failures: u32) -> Retry {
    match retry {
        Retry::Never => Retry::Never,
        Retry::After(pause) => {
            let backoff = Backoff { first: pause, longest: LONGEST_PAUSE.max(pause) };
            Retry::After(backoff.after(failures))
        }
    }
}

/// The next attempt after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTry {
    /// From this time on, in milliseconds of the boot clock.
    At(u64),
    /// Only after a new command.
    OnCommand,
}

/// The next attempt after a drain that failed at `failed_at_ms` (boot clock).
///
/// Computed from the current setting each time, so that a changed setting also counts for a pause that has begun.
pub fn next_try(failed_at_ms: u64, retry: Retry) -> NextTry {
    match retry {
        Retry::Never => NextTry::OnCommand,
        Retry::After(pause) => NextTry::At(failed_at_ms.saturating_add(millis(pause))),
    }
}

impl NextTry {
    /// True if the time of the attempt has come.
    pub fn is_due(self, now_ms: u64) -> bool {
        match self {
            Self::At(at) => at <= now_ms,
            Self::OnCommand => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failed_drain_is_asked_for_again_after_the_pause() {
        let half_hour = Retry::After(Duration::from_mins(30));
        for (retry, now_ms, is_due) in [
            (half_hour, 5_000, false),
            (half_hour, 5_000 + 1_799_999, false),
            (half_hour, 5_000 + 1_800_000, true),
            (half_hour, u64::MAX, true),
            // The boot clock never goes back; if it did, waiting would be the safe side.
            (half_hour, 0, false),
            (Retry::Never, u64::MAX, false),
        ] {
            assert_eq!(next_try(5_000, retry).is_due(now_ms), is_due, "{retry:?} at {now_ms}");
        }
        assert_eq!(next_try(u64::MAX, half_hour), NextTry::At(u64::MAX));
    }
}
