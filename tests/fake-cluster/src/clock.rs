//! The cluster's time: one monotonic reading, which a test may move forward. The wall clock is derived from it,
//! so that a jump of the machine's clock changes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};

/// How the cluster's time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// The time passes with the machine's clock; [`advance`](crate::FakeCluster::advance) adds to it.
    #[default]
    Real,
    /// Only [`advance`](crate::FakeCluster::advance) moves the time: nothing that waits for time happens by itself.
    Manual,
}

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
    time: Time,
    started: Instant,
    started_wall: Timestamp,
    advanced: Mutex<Duration>,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the fake cluster reads the machine's clocks"
    )]
    pub(crate) fn start(time: Time, ahead: SignedDuration) -> Self {
        Self {
            time,
            started: Instant::now(),
            started_wall: Timestamp::now().saturating_add(ahead).unwrap_or(Timestamp::MAX),
            advanced: Mutex::new(Duration::ZERO),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        let advanced = *self.advanced.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = match self.time {
            Time::Real => self.started.elapsed().saturating_add(advanced),
            Time::Manual => advanced,
        };
        let wall = self.started_wall.saturating_add(elapsed).unwrap_or(Timestamp::MAX);
        Moment { elapsed, wall }
    }

    pub(crate) fn advance(&self, by: Duration) {
        let mut advanced = self.advanced.lock().unwrap_or_else(PoisonError::into_inner);
        *advanced = advanced.saturating_add(by);
    }

    /// How long to sleep until `moment`; `None` if only [`advance`](Self::advance) can reach it.
    pub(crate) fn until(&self, moment: Duration) -> Option<Duration> {
        match self.time {
            Time::Real => Some(moment.saturating_sub(self.now().elapsed)),
            Time::Manual => None,
        }
    }
}
