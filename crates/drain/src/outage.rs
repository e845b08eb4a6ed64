//! Decides when an API server whose calls fail counts as away.
//!
//! One failed call is no outage: the election of an etcd leader or the restart of one server behind a load balancer
//! costs a 503 or a broken connection, and the next call works. An outage stops the clocks of an attempt and makes its
//! final check wait for the scheduler ([`crate::policy::STALE_SCHEDULER`]), so it must be a real one: the scheduler was
//! found stale after the server had been away for 30 s, and not after 1 s (M5 in `docs/reference/measured.md`).

use std::time::Duration;

use crate::time::Moment;

/// An outage is noticed within this time of its beginning: a call takes up to 10 s to fail, and so does the one that
/// confirms it, after a pause. Whoever makes the calls has to keep to it.
pub const NOTICED_WITHIN: Duration = Duration::from_secs(22);

/// Calls must fail in a row for this long before the server counts as away.
const AWAY_AFTER: Duration = Duration::from_secs(3);

/// This many calls must fail in a row before the server counts as away.
const AWAY_FAILURES: u32 = 2;

/// Failed calls in a row, and whether the server counts as away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    since: Option<Moment>,
    failures: u32,
    is_away: bool,
}

impl Outage {
    /// Notes a failed call. True if the server counts as away from now on.
    pub fn failed(&mut self, now: Moment) -> bool {
        let since = *self.since.get_or_insert(now);
        self.failures = self.failures.saturating_add(1);
        let counts = self.failures >= AWAY_FAILURES && now.since(since) >= AWAY_AFTER;
        counts && !std::mem::replace(&mut self.is_away, true)
    }

    /// Counts the server as away at once, because another component has found it out.
    pub fn count(&mut self, now: Moment) {
        self.since.get_or_insert(now);
        self.is_away = true;
    }

    /// Notes an answered call. True if the server is back after it had counted as away.
    pub fn answered(&mut self) -> bool {
        std::mem::take(self).is_away
    }

    /// True if the server counts as away.
    pub fn is_away(&self) -> bool {
        self.is_away
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn away_is_what_fails_twice_and_for_three_seconds() {
        for (failures, is_away) in [
            (&[0][..], false),
            (&[0, 5][..], false),
            (&[0, 1, 2, 2_999][..], false),
            (&[0, 3_000][..], true),
            (&[0, 1_500, 3_000][..], true),
            (&[60_000][..], false),
        ] {
            let mut outage = Outage::default();
            let told = failures.iter().filter(|at| outage.failed(Moment(**at))).count();
            assert_eq!((told == 1, outage.is_away()), (is_away, is_away), "{failures:?}");
            assert!(!outage.failed(Moment(1_000)) || !is_away, "told once");
        }
    }

    #[test]
    fn an_answer_ends_it_and_the_count_begins_anew() {
        let mut outage = Outage::default();
        outage.failed(Moment(0));
        assert!(!outage.answered(), "it was not away");
        assert!(!outage.failed(Moment(10_000)));
        assert!(outage.failed(Moment(13_000)));
        assert!(outage.answered() && !outage.answered());
    }
}
