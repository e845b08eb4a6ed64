//! Counts refusals of watches.
//!
//! A single refusal is not enough: an API server that has just started has not read its roles yet, and tokens rotate.
//! Refusals count when they last, because a failed attempt costs a device a pause of five minutes. What a watch has
//! shown once stays known.

use std::collections::BTreeMap;

use drain::Moment;
use drain::policy::{REFUSAL_LASTS, REFUSAL_TIMES};

use super::watching::Source;
use crate::failure::ApiFailure;

/// The watches whose last tries were refused.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<Source, Refusal>);

#[derive(Debug)]
struct Refusal {
    failure: ApiFailure,
    since: Moment,
    times: u32,
    is_reported: bool,
}

impl Refusals {
    /// Notes one more refusal of this watch.
    pub(super) fn note(&mut self, source: Source, failure: &ApiFailure, now: Moment) {
        let new = || Refusal { failure: failure.clone(), since: now, times: 0, is_reported: false };
        let refusal = self.0.entry(source).or_insert_with(new);
        refusal.times = refusal.times.saturating_add(1);
        // A refusal with another text is reported again.
        refusal.is_reported &= refusal.failure == *failure;
        refusal.failure = failure.clone();
    }

    /// Ends the count for this watch, because an event has come or it fails for another reason.
    pub(super) fn clear(&mut self, source: Source) {
        self.0.remove(&source);
    }

    /// The refusals that count now and were not returned before.
    pub(super) fn due(&mut self, now: Moment) -> Vec<(Source, ApiFailure)> {
        let counts = |refusal: &Refusal| {
            refusal.times >= REFUSAL_TIMES
                && now.since(refusal.since) >= REFUSAL_LASTS
                && !refusal.is_reported
        };
        let due = self.0.iter_mut().filter(|(_, refusal)| counts(refusal));
        due.map(|(source, refusal)| {
            refusal.is_reported = true;
            (*source, refusal.failure.clone())
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(text: &str) -> ApiFailure {
        ApiFailure::Denied { text: text.to_owned() }
    }

    #[test]
    fn a_refusal_counts_when_it_lasts_and_is_told_once() {
        let mut refusals = Refusals::default();
        for at in [0, 500, 20_000] {
            refusals.note(Source::Pods, &denied("no"), Moment(at));
            assert_eq!(refusals.due(Moment(at)), []);
        }
        assert_eq!(refusals.due(Moment(29_999)), []);
        assert_eq!(refusals.due(Moment(30_000)), [(Source::Pods, denied("no"))], "without another try");
        refusals.note(Source::Pods, &denied("no"), Moment(40_000));
        assert_eq!(refusals.due(Moment(40_000)), [], "reported once");
        refusals.note(Source::Pods, &denied("other"), Moment(41_000));
        assert_eq!(refusals.due(Moment(41_000)), [(Source::Pods, denied("other"))]);
    }

    #[test]
    fn what_was_refused_only_twice_does_not_count() {
        let mut refusals = Refusals::default();
        refusals.note(Source::Claims, &denied("no"), Moment(0));
        refusals.note(Source::Claims, &denied("no"), Moment(31_000));
        assert_eq!(refusals.due(Moment(31_000)), []);
    }
}
