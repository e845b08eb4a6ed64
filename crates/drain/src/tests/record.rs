//! A process that ends in mid-drain, and another one that goes on.

use super::*;
use crate::policy::MaxRetries;
use crate::state::{Failure, Outcome, State};
use crate::{Effect, Event, Policy};

/// Goes on in another process, after so long.
fn resumed(bench: &Bench, after: Duration) -> Bench {
    let record = Box::new(bench.attempt().record());
    let mut next = Bench { state: State::Idle, now: bench.now + after, policy: bench.policy.clone() };
    next.send(Event::Resume { attempt: 1, api_back: None, record });
    next
}

#[test]
fn the_deadline_stays() {
    let mut bench =
        Bench::with(Policy { attempt_timeout: Duration::from_mins(10), ..Policy::device() }, None);
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    let mut next = resumed(&bench, Duration::from_mins(9));
    next.snapshot(guarded(vec![pod("1")], 0, "1"));
    assert_eq!(next.attempt().started(), bench.attempt().started());
    assert_eq!(next.outcome(), None);
    next.after(Duration::from_mins(1));
    assert_eq!(next.outcome(), Some(Outcome::Failed(Failure::Deadline)));
}

#[test]
fn a_deadline_that_passed_in_between_is_a_failure() {
    let bench = Bench::with(Policy { attempt_timeout: Duration::from_mins(10), ..Policy::device() }, None);
    let next = resumed(&bench, Duration::from_mins(11));
    let failure = Failure::Unproven("the time is over; no snapshot of the node has come yet".into());
    assert_eq!(next.outcome(), Some(Outcome::Failed(failure)));
}

#[test]
fn refusals_from_before_count() {
    let mut bench = Bench::with(Policy { max_retries: MaxRetries::Times(3), ..Policy::device() }, None);
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    bench.answer("1", refusal());
    let mut next = resumed(&bench, Duration::from_secs(50));
    assert_eq!(evicted(&next.snapshot(guarded(vec![pod("1")], 0, "1"))), ["1"], "evicted at first");
    next.answer("1", refusal());
    let effects = next.after(Duration::from_secs(10));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Delete { .. })), "{effects:?}");
}
