//! The time that decides: milliseconds of `CLOCK_BOOTTIME`.

use std::ops::Add;
use std::time::Duration;

/// A point in time: milliseconds since this boot, suspend included (`CLOCK_BOOTTIME`).
///
/// It never jumps, it can be stored, and it survives a restart of the agent; it means nothing in another
/// boot. The wall clock, which is wrong on many devices until NTP answers, decides nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// The end of time: for waits without an end.
    pub const NEVER: Self = Self(u64::MAX);

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment that lies so long before this one; at the earliest the boot.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long until `later`; zero if it has passed.
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Saturates at [`Moment::NEVER`], so that no allowed setting overflows.
    fn add(self, span: Duration) -> Self {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Moment(5) + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment(5).since(Moment(7)), Duration::ZERO);
        assert_eq!(Moment(7).since(Moment(5)), Duration::from_millis(2));
        assert_eq!(Moment(5).until(Moment(7)), Duration::from_millis(2));
        assert_eq!(Moment(7).before(Duration::from_millis(2)), Moment(5));
        assert_eq!(Moment(7).before(Duration::MAX), Moment(0));
    }
}
