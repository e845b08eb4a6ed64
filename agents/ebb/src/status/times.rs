//! Times as an operator reads them: by the clock of the device's time zone, and how long ago or ahead.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemas::{GoTime, age};

/// The present time, and the time zone in which times are shown.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    now: Timestamp,
    zone: TimeZone,
}

impl Clock {
    /// A clock of this time and zone.
    pub(crate) fn new(now: Timestamp, zone: TimeZone) -> Self {
        Self { now, zone }
    }

    /// A time of today as `14:03:11`, any other with its date: `2026-11-21 14:03:11`.
    pub(crate) fn shown(&self, time: Timestamp) -> String {
        let (time, now) = (time.to_zoned(self.zone.clone()), self.now.to_zoned(self.zone.clone()));
        let form = if time.date() == now.date() { "%T" } else { "%F %T" };
        time.strftime(form).to_string()
    }

    /// A time that was: `14:03:11, 12 s ago`.
    pub(crate) fn since(&self, time: GoTime) -> String {
        let Some(time) = time.set() else { return "the start".to_owned() };
        let ago = self.now.duration_since(time).as_millis();
        let shown = self.shown(time);
        u64::try_from(ago).map_or_else(|_| shown.clone(), |ago| format!("{shown}, {} ago", age(ago)))
    }

    /// A time that will be: `14:03:11, in 12 s`.
    pub(crate) fn until(&self, time: Timestamp) -> String {
        format!("{}, in {}", self.shown(time), self.left(time))
    }

    /// True if this time will be.
    pub(crate) fn is_ahead(&self, time: Timestamp) -> bool {
        self.now < time
    }

    /// How long it is until then: `12 s`; `0 s` if it was before.
    pub(crate) fn left(&self, time: Timestamp) -> String {
        age(u64::try_from(time.duration_since(self.now).as_millis()).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        let clock = Clock::new("2026-11-21T14:05:00Z".parse().unwrap(), TimeZone::UTC);
        for (time, since, until) in [
            ("2026-11-21T14:04:59Z", "14:04:59, 1 s ago", "14:04:59, in 0 s"),
            ("2026-11-21T14:00:00Z", "14:00:00, 5 min ago", "14:00:00, in 0 s"),
            ("2026-11-20T04:05:00Z", "2026-11-20 04:05:00, 34 h ago", "2026-11-20 04:05:00, in 0 s"),
            ("2026-11-21T14:06:30Z", "14:06:30", "14:06:30, in 90 s"),
            ("2026-11-22T14:05:00Z", "2026-11-22 14:05:00", "2026-11-22 14:05:00, in 24 h"),
        ] {
            let at: GoTime = time.parse().unwrap();
            assert_eq!(clock.since(at), since);
            assert_eq!(clock.until(at.set().unwrap()), until);
        }
        assert_eq!(clock.since(GoTime::ZERO), "the start");
        let there = TimeZone::fixed(jiff::tz::offset(-8));
        let clock = Clock::new("2026-11-21T14:05:00Z".parse().unwrap(), there);
        assert_eq!(clock.shown("2026-11-21T07:05:00Z".parse().unwrap()), "2026-11-20 23:05:00");
    }
}
