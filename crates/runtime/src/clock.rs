//! The only module that reads a clock, beside `cluster::clock`. Clippy forbids the clocks of the standard library.
//!
//! Decisions use milliseconds of `CLOCK_BOOTTIME`: it goes on during suspend, never jumps, can be stored, and keeps
//! its meaning over a restart of the agent within one boot. The wall clock, wrong on many devices until NTP, is only
//! for display.

use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};
use schemas::GoTime;

/// The same time on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds of this boot ([`boot_millis`]), for decisions.
    pub boot_ms: u64,
    /// The wall clock, for display.
    pub wall: GoTime,
}

impl Moment {
    /// The time `millis` milliseconds later on the clock of this boot.
    pub const fn after(self, millis: u64) -> u64 {
        self.boot_ms.saturating_add(millis)
    }
}

/// The present time.
pub fn now() -> Moment {
    Moment { boot_ms: boot_millis(), wall: GoTime::from(wall()) }
}

/// Milliseconds since this boot, including suspend.
pub fn boot_millis() -> u64 {
    // Linux has had this clock since 2.6.39, so the call cannot fail. If it did, 0 makes every wait longer and none
    // shorter.
    let millis = clock_gettime(ClockId::CLOCK_BOOTTIME).map(|time| Duration::from(time).as_millis());
    let millis = millis.ok().and_then(|millis| u64::try_from(millis).ok()).unwrap_or(0);
    #[cfg(test)]
    let millis = millis + testing::passed_millis() + testing::suspended_millis();
    millis
}

/// Milliseconds since this boot without suspend, for measuring how long another process does or does not do
/// something, because it was suspended as well.
pub fn awake_millis() -> u64 {
    // As in `boot_millis`.
    let millis = clock_gettime(ClockId::CLOCK_MONOTONIC).map(|time| Duration::from(time).as_millis());
    let millis = millis.ok().and_then(|millis| u64::try_from(millis).ok()).unwrap_or(0);
    #[cfg(test)]
    let millis = millis + testing::passed_millis();
    millis
}

/// A time in whole milliseconds, as our clocks and files have it.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The present wall clock time, never for decisions.
#[expect(clippy::disallowed_methods, reason = "this is the place that all others are sent to")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// The wall clock time at a time of [`boot_millis`], past or future; the limit of the calendar if it is beyond that.
pub fn wall_at(boot_ms: u64) -> Timestamp {
    shift(wall(), boot_millis(), boot_ms)
}

fn shift(wall: Timestamp, now_ms: u64, boot_ms: u64) -> Timestamp {
    let ahead = wall.saturating_add(Duration::from_millis(boot_ms.saturating_sub(now_ms)));
    let behind = |time: Timestamp| time.saturating_sub(Duration::from_millis(now_ms.saturating_sub(boot_ms)));
    ahead.and_then(behind).unwrap_or(Timestamp::MAX)
}

/// Time that passes at once, awake or in suspend, for the tests of this crate. It passes in one thread.
#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static PASSED_MS: Cell<u64> = const { Cell::new(0) };
        static SUSPENDED_MS: Cell<u64> = const { Cell::new(0) };
    }

    fn add(clock: &Cell<u64>, time: Duration) {
        clock.set(clock.get() + u64::try_from(time.as_millis()).unwrap());
    }

    /// This time passes on both clocks.
    pub(crate) fn pass(time: Duration) {
        PASSED_MS.with(|clock| add(clock, time));
    }

    /// The machine is suspended for this time.
    pub(crate) fn suspend(time: Duration) {
        SUSPENDED_MS.with(|clock| add(clock, time));
    }

    pub(super) fn passed_millis() -> u64 {
        PASSED_MS.get()
    }

    pub(super) fn suspended_millis() -> u64 {
        SUSPENDED_MS.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_relative_to_now() {
        let wall: Timestamp = "2026-08-22T16:00:00Z".parse().unwrap();
        for (boot_ms, shown) in [
            (10_000, "2026-08-22T16:00:00Z"),
            (70_500, "2026-08-22T16:01:00.5Z"),
            (9_000, "2026-08-22T15:59:59Z"),
        ] {
            assert_eq!(shift(wall, 10_000, boot_ms), shown.parse().unwrap(), "{boot_ms}");
        }
        assert_eq!(shift(wall, 0, u64::MAX), Timestamp::MAX);
    }

    #[test]
    fn the_boot_clock_runs() {
        let first = boot_millis();
        assert!(first > 0);
        assert!(boot_millis() >= first);
    }

    #[test]
    fn only_the_boot_clock_counts_suspend() {
        let (boot, awake) = (boot_millis(), awake_millis());
        testing::suspend(Duration::from_hours(1));
        assert!(boot_millis() >= boot + 3_600_000);
        assert!(awake_millis() < awake + 3_600_000);
    }
}
