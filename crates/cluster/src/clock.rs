//! Clock for the decisions of this crate: `CLOCK_BOOTTIME`.

use std::time::Duration;

use drain::Moment;
use nix::time::{ClockId, clock_gettime};

/// Reads a clock. Functions that decide by time take it as an argument, so that tests can set the time.
pub type Clock = fn() -> Moment;

/// Milliseconds since this boot, suspend included.
///
/// The kernel has had this clock since 2.6.39; if it fails, the monotonic clock is read, which only misses suspend.
pub fn boot_time() -> Moment {
    let read = clock_gettime(ClockId::CLOCK_BOOTTIME).or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    read.map_or(Moment(0), |time| Moment(0) + Duration::from(time))
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
