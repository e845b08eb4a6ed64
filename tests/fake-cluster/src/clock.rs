//! The cluster's time: one monotonic reading, which a test may move forward. The wall clock is derived from it,
//! so that a jump of the machine's clock changes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};

/// A point in the cluster's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Time since the cluster was started.
    pub(crate) elapsed: Duration,
    /// The same point as a date.
    pub(crate) wall: Timestamp,
}

impl Moment {
    /// RFC 3339 in whole seconds, as Kubernetes writes times.
    pub(crate) fn text(self) -> String {
        self.text_after(0)
    }

    /// The moment as a `Date` header, in whole seconds.
    pub(crate) fn http_date(self) -> String {
        DateTimePrinter::new().timestamp_to_rfc9110_string(&self.wall).unwrap_or_default()
    }

    /// The time `seconds` later, as Kubernetes writes it.
    pub(crate) fn text_after(self, seconds: i64) -> String {
        let second = self.wall.as_second().saturating_add(seconds);
        Timestamp::from_second(second).unwrap_or(Timestamp::MAX).to_string()
    }
}

#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_wall: Timestamp,
    advanced: Mutex<Duration>,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the fake cluster reads the machine's clocks"
    )]
    pub(crate) fn start(ahead: SignedDuration) -> Self {
        Self {
            started: Instant::now(),
            started_wall: Timestamp::now().saturating_add(ahead).unwrap_or(Timestamp::MAX),
            advanced: Mutex::new(Duration::ZERO),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        let advanced = *self.advanced.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = self.started.elapsed().saturating_add(advanced);
        let wall = self.started_wall.saturating_add(elapsed).unwrap_or(Timestamp::MAX);
        Moment { elapsed, wall }
    }

    pub(crate) fn advance(&self, by: Duration) {
        let mut advanced = self.advanced.lock().unwrap_or_else(PoisonError::into_inner);
        *advanced = advanced.saturating_add(by);
    }

    /// How long to sleep until `moment`.
    pub(crate) fn until(&self, moment: Duration) -> Duration {
        moment.saturating_sub(self.now().elapsed)
    }
}
