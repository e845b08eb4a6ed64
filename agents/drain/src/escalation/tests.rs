//! From refusal to deletion.

use std::time::Duration;

use super::*;
use crate::answer::Answer;
use crate::step::Effect;
use crate::testing::{Bench, evicted, guarded, pod, refusal};

const DELETE: fn(&[Effect]) -> Vec<Option<Duration>> = |effects| {
    let grace = |effect: &Effect| match effect {
        Effect::Delete { grace, .. } => Some(*grace),
        Effect::Evict { .. }
        | Effect::Prove { .. }
        | Effect::Inquire { .. }
        | Effect::WakeAt(_)
        | Effect::Abort => None,
    };
    effects.iter().filter_map(grace).collect()
};

fn refused_under(max_retries: MaxRetries) -> Bench {
    let policy = Policy { max_retries, attempt_timeout: Duration::from_mins(10), ..Policy::device() };
    let mut bench = Bench::with(policy, None);
    bench.picture(guarded(vec![pod("1")], 0, "1"));
    bench
}

/// Ticks each second and refuses each eviction; the second in which the pod is deleted.
fn deleted_after(bench: &mut Bench, seconds: u64) -> Option<u64> {
    let mut effects = bench.answer("1", refusal());
    for second in 0..seconds {
        if let [grace] = DELETE(&effects)[..] {
            assert_eq!(grace, None, "with its own grace");
            return Some(second);
        }
        let mut next = Vec::new();
        if !evicted(&effects).is_empty() {
            next = bench.answer("1", refusal());
        }
        next.extend(bench.after(Duration::from_secs(1)));
        effects = next;
    }
    None
}

#[test]
fn a_pod_is_deleted_after_n_times_20_s_of_refusals_with_its_own_grace() {
    for (max_retries, expected) in [
        (MaxRetries::Unlimited, None),
        (MaxRetries::Times(0), Some(0)),
        (MaxRetries::Times(1), Some(20)),
        (MaxRetries::Times(3), Some(60)),
        (MaxRetries::Auto, Some(580)),
    ] {
        let mut bench = refused_under(max_retries);
        assert_eq!(deleted_after(&mut bench, 599), expected, "{max_retries:?}");
        if expected.is_some() {
            assert_eq!(bench.track("1").by, By::Escalation);
            bench.answer("1", Answer::Accepted);
            let lines = crate::progress::lines(bench.attempt(), bench.now);
            assert!(lines[0].detail.contains("refused for too long"), "{lines:?}");
        }
    }
}

#[test]
fn webhooks_and_two_budgets_count_as_refusals_and_trouble_does_not() {
    let text = || "x".to_owned();
    for (answer, deletes) in [
        (Answer::Webhook { text: text() }, true),
        (Answer::TwoBudgets, true),
        (Answer::Throttled { after: None, text: text() }, false),
        (Answer::Retry { text: text() }, false),
        (Answer::Final { text: text() }, false),
    ] {
        let mut bench = refused_under(MaxRetries::Times(0));
        let effects = bench.answer("1", answer.clone());
        assert_eq!(!DELETE(&effects).is_empty(), deletes, "{answer:?}");
    }
}

#[test]
fn time_during_an_outage_does_not_count() {
    let mut bench = refused_under(MaxRetries::Times(1));
    bench.answer("1", refusal());
    bench.send(crate::Event::ApiAway);
    bench.after(Duration::from_mins(1));
    assert_eq!(evicted(&bench.send(crate::Event::ApiBack)), [""; 0], "looked first");
    let effects = bench.proof(guarded(vec![pod("1")], 0, "1"));
    assert_eq!((DELETE(&effects), evicted(&effects)), (vec![], vec!["1"]));
    bench.answer("1", refusal());
    assert_eq!(DELETE(&bench.after(Duration::from_secs(19))), []);
    assert_eq!(DELETE(&bench.after(Duration::from_secs(1))), [None]);
}

#[test]
fn a_deletion_that_is_refused_is_repeated_and_never_becomes_grace_0() {
    let mut bench = refused_under(MaxRetries::Times(0));
    assert_eq!(DELETE(&bench.answer("1", refusal())), [None]);
    let effects = bench.answer("1", Answer::Webhook { text: "no".into() });
    assert_eq!(DELETE(&effects), [], "not in a loop");
    let mut again = Vec::new();
    for _ in 0..30 {
        again.extend(DELETE(&bench.after(Duration::from_secs(1))));
    }
    assert_eq!(again, [None]);
}
