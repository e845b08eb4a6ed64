//! Converts moments, by which zedkube decides, into wall-clock times for readers.

use std::time::Duration;

use drain::Moment;
use jiff::{SignedDuration, Timestamp};
use schemas::GoTime;

/// How far the wall clock may drift before times in the report are moved: a step by NTP moves them, a slow correction
/// does not rewrite every line.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);

/// Converts moments of CLOCK_BOOTTIME into wall-clock times. The same moment gives the same time until the wall clock is
/// stepped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownTime {
    moment: Moment,
    wall: Timestamp,
}

impl ShownTime {
    /// Creates it from both clocks, read at about the same time.
    pub(crate) fn new(moment: Moment, wall: Timestamp) -> Self {
        Self { moment, wall }
    }

    /// Takes a new reading of both clocks over.
    pub(crate) fn update(&mut self, moment: Moment, wall: Timestamp) {
        let drift = wall.duration_since(self.at(moment)).abs();
        if drift > TOLERANCE {
            *self = Self::new(moment, wall);
        }
    }

    /// The moment as a wall-clock time, to the millisecond.
    pub(crate) fn show(&self, moment: Moment) -> GoTime {
        let millis = self.at(moment).as_millisecond();
        Timestamp::from_millisecond(millis).map(GoTime::from).unwrap_or_default()
    }

    /// As [`ShownTime::show`]; the zero time for `None` and [`Moment::NEVER`].
    pub(crate) fn show_some(&self, moment: Option<Moment>) -> GoTime {
        moment.filter(|moment| *moment != Moment::NEVER).map(|moment| self.show(moment)).unwrap_or_default()
    }

    fn at(&self, moment: Moment) -> Timestamp {
        let signed = |span: Duration| SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
        let shown = if moment < self.moment {
            self.wall.checked_sub(signed(self.moment.since(moment)))
        } else {
            self.wall.checked_add(signed(moment.since(self.moment)))
        };
        shown.unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_steadily_until_the_clock_is_stepped() {
        let wall = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut shown = ShownTime::new(Moment(10_000), wall("2026-01-01T00:00:10Z"));
        assert_eq!(shown.show(Moment(9_500)).to_string(), "2026-01-01T00:00:09.5Z");
        assert_eq!(shown.show(Moment(12_000)).to_string(), "2026-01-01T00:00:12Z");
        shown.update(Moment(20_000), wall("2026-01-01T00:00:21Z"));
        assert_eq!(
            shown.show(Moment(9_500)).to_string(),
            "2026-01-01T00:00:09.5Z",
            "a second of drift is left"
        );
        shown.update(Moment(20_000), wall("2030-01-01T00:00:20Z"));
        assert_eq!(shown.show(Moment(9_500)).to_string(), "2030-01-01T00:00:09.5Z", "a step is followed");
        assert!(shown.show_some(Some(Moment::NEVER)).is_zero() && shown.show_some(None).is_zero());
    }
}
