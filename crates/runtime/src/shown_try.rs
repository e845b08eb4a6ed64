//! The next attempt after a failure, as a status shows it.

use jiff::SignedDuration;
use schemas::GoTime;

use crate::clock::Moment;
use crate::retry::{NextTry, next_try};
use crate::settings::Retry;

/// The next attempt on the boot clock and on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownTry {
    /// The time on the boot clock, for decisions.
    pub at: NextTry,
    /// The time on the wall clock, for display; unset if only a new command leads to an attempt.
    pub shown: GoTime,
}

impl ShownTry {
    /// The attempt after a failure at `failed_at_ms`. While it is the attempt in `known`, the displayed time is kept,
    /// so that the status does not change with every snapshot.
    pub fn after(known: Option<Self>, failed_at_ms: u64, retry: Retry, now: Moment) -> Self {
        let at = next_try(failed_at_ms, retry);
        if let Some(known) = known.filter(|known| known.at == at) {
            return known;
        }
        let shown = match at {
            NextTry::OnCommand => GoTime::ZERO,
            NextTry::At(at_ms) => later(now.wall, at_ms.saturating_sub(now.boot_ms)),
        };
        Self { at, shown }
    }

    /// How to have the next attempt at once. `new` is what has to be given, such as `a new command`; `setting` is the
    /// one for the pause between attempts.
    pub fn hint(self, new: &str, setting: &str) -> String {
        match self.at {
            NextTry::OnCommand => format!("give {new}: {setting} is 0s"),
            NextTry::At(_) => format!("{new} tries again at once"),
        }
    }

    /// An error with the time of the next attempt, and how to have it at once: for readers who see nothing else.
    pub fn after_error(self, error: &str, new: &str, setting: &str) -> String {
        let hint = self.hint(new, setting);
        match self.at {
            NextTry::OnCommand => format!("{error}; {hint}"),
            NextTry::At(_) => format!("{error}; tried again at {}; {hint}", self.shown),
        }
    }
}

fn later(wall: GoTime, millis: u64) -> GoTime {
    let pause = SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
    wall.timestamp().saturating_add(pause).map_or(GoTime::ZERO, GoTime::from)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_that_is_shown_stays_while_the_moment_does() {
        let wall: GoTime = "2026-08-22T16:00:00Z".parse().unwrap();
        let later_wall: GoTime = "2026-08-22T16:00:07Z".parse().unwrap();
        let minutes = |minutes| Retry::After(Duration::from_mins(minutes));
        let at = |boot_ms, wall| Moment { boot_ms, wall };
        let first = ShownTry::after(None, 5_000, minutes(30), at(6_000, wall));
        assert_eq!(first.at, NextTry::At(1_805_000));
        assert_eq!(first.shown, "2026-08-22T16:29:59Z".parse().unwrap());
        for (retry, now_ms, expected) in [
            (minutes(30), 13_000, "2026-08-22T16:29:59Z"),
            (minutes(10), 13_000, "2026-08-22T16:09:59Z"),
            (minutes(0), 13_000, "2026-08-22T16:00:07Z"),
        ] {
            let next = ShownTry::after(Some(first), 5_000, retry, at(now_ms, later_wall));
            assert_eq!(next.shown, expected.parse().unwrap(), "{retry:?}");
        }
        let never = ShownTry::after(Some(first), 5_000, Retry::Never, at(13_000, later_wall));
        assert_eq!(never, ShownTry { at: NextTry::OnCommand, shown: GoTime::ZERO });
        // A record that was edited by hand.
        assert!(!ShownTry::after(None, u64::MAX, minutes(30), at(0, wall)).shown.is_zero());
    }
}
