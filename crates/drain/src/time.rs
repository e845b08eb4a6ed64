//! Time for decisions: milliseconds of `CLOCK_BOOTTIME`.

use std::ops::Add;
use std::time::Duration;

/// A point in time: milliseconds since this boot, suspend included (`CLOCK_BOOTTIME`).
///
/// It never jumps, can be stored, and survives a restart of the agent; it has no meaning in another boot. No decision
/// uses the wall clock, which is wrong on many devices until NTP answers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Moment(pub u64);

impl Moment {
    /// A time that never comes, for waits without an end.
    pub const NEVER: Self = Self(u64::MAX);

    /// Duration since `earlier`; zero if that is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment this long before `self`; never before the boot.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Duration until `later`; zero if it has passed.
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
