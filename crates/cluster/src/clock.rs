//! Clock for the decisions of this crate: `CLOCK_BOOTTIME`. And the wall clock, for display.

use std::time::Duration;

use drain::Moment;
use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// Reads a clock. Functions that decide by time take it as an argument, so that tests can set the time.
pub type Clock = fn() -> Moment;

/// The clock that goes on during suspend.
#[cfg(target_os = "linux")]
const WITH_SUSPEND: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const WITH_SUSPEND: ClockId = ClockId::CLOCK_MONOTONIC;

/// Milliseconds since this boot, suspend included.
///
/// The kernel has had this clock since 2.6.39; if it fails, the monotonic clock is read, which only misses suspend.
pub fn boot_time() -> Moment {
    let read = clock_gettime(WITH_SUSPEND).or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    read.map_or(Moment(0), |time| Moment(0) + Duration::from(time))
}

/// The present wall clock time, never for decisions.
#[expect(clippy::disallowed_methods, reason = "for display")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_runs_and_never_goes_back() {
        let (first, second) = (boot_time(), boot_time());
        assert!(first > Moment(0) && first <= second, "{first:?} {second:?}");
    }
}
