//! From refusal to deletion.

use std::time::Duration;

use super::*;
use crate::Effect;
use crate::answer::Answer;
use crate::policy::MaxRetries;
use crate::state::DeletionMethod;

const DELETE: fn(&[Effect]) -> Vec<Option<Duration>> = |effects| {
    let grace = |effect: &Effect| match effect {
        Effect::Delete { grace, .. } => Some(*grace),
        Effect::Evict { .. }
        | Effect::Relist { .. }
        | Effect::Inquire { .. }
        | Effect::WakeAt(_)
        | Effect::Abort => None,
    };
    effects.iter().filter_map(grace).collect()
};

fn refused_under(max_retries: MaxRetries) -> Bench {
    let policy = Policy { max_retries, attempt_timeout: Duration::from_mins(10), ..Policy::device() };
    let mut bench = Bench::with(policy, None);
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
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
            assert_eq!(bench.track("1").by(), DeletionMethod::Escalation);
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
        (Answer::Rejected { text: text() }, false),
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
    let effects = bench.answer_relist(guarded(vec![pod("1")], 0, "1"));
    assert_eq!((DELETE(&effects), evicted(&effects)), (vec![], vec!["1"]));
    bench.answer("1", refusal());
    assert_eq!(DELETE(&bench.after(Duration::from_secs(19))), []);
    assert_eq!(DELETE(&bench.after(Duration::from_secs(1))), [None]);
}

/// Meanwhile its budget may have let other pods go.
#[test]
fn a_deletion_that_an_outage_has_swallowed_is_an_eviction_again() {
    let mut bench = refused_under(MaxRetries::Times(0));
    assert_eq!(DELETE(&bench.answer("1", refusal())), [None]);
    bench.answer("1", Answer::Retry { text: "connection refused".into() });
    bench.send(crate::Event::ApiAway);
    bench.after(Duration::from_mins(1));
    bench.send(crate::Event::ApiBack);
    let effects = bench.answer_relist(guarded(vec![pod("1")], 0, "1"));
    assert_eq!((DELETE(&effects), evicted(&effects)), (vec![], vec!["1"]));
    assert_eq!(DELETE(&bench.answer("1", refusal())), [None], "refused for long enough");
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

/// Pods of one budget that are all refused, with replacements that never come.
fn shut(max_retries: MaxRetries, pods: usize) -> (Bench, Vec<crate::view::PodView>) {
    let policy = Policy { max_retries, attempt_timeout: Duration::from_mins(10), ..Policy::device() };
    let mut bench = Bench::with(policy, None);
    let pods: Vec<_> = (1..=pods).map(|number| pod(&number.to_string())).collect();
    bench.snapshot(guarded(pods.clone(), 0, "1"));
    (bench, pods)
}

/// Goes on for so many seconds: each eviction is refused; a deleted pod is gone in the next second if `ends`. In which
/// seconds a pod was deleted.
fn deletions(bench: &mut Bench, pods: &mut Vec<crate::view::PodView>, seconds: u64, ends: bool) -> Vec<u64> {
    deletions_from(0, bench, pods, seconds, ends)
}

/// As [`deletions`], but no deletion reaches the server before the second `from`.
fn deletions_from(
    from: u64,
    bench: &mut Bench,
    pods: &mut Vec<crate::view::PodView>,
    seconds: u64,
    ends: bool,
) -> Vec<u64> {
    let mut deleted = Vec::new();
    for second in 0..seconds {
        let sent: Vec<(String, DeletionMethod)> = bench
            .attempt()
            .pods()
            .values()
            .filter(|track| *track.stage() == Stage::Evicting)
            .map(|track| (track.id().uid.clone(), track.by()))
            .collect();
        for (uid, by) in sent {
            if by == DeletionMethod::Eviction {
                bench.answer(&uid, refusal());
                continue;
            }
            if second < from {
                bench.answer(&uid, Answer::Retry { text: "connection refused".into() });
                continue;
            }
            deleted.push(second);
            bench.answer(&uid, Answer::Accepted);
            if ends {
                pods.retain(|pod| pod.id.uid != uid);
            }
        }
        bench.snapshot(guarded(pods.clone(), 0, "1"));
        bench.after(Duration::from_secs(1));
    }
    deleted
}

#[test]
fn pods_of_one_budget_are_deleted_one_at_a_time_and_a_retry_apart() {
    for (max_retries, expected) in [
        (MaxRetries::Times(3), vec![60, 80, 100]),
        (MaxRetries::Times(1), vec![20, 40, 60]),
        // As late as possible, so that the last of them still fits into the attempt of 600 s.
        (MaxRetries::Auto, vec![540, 560, 580]),
    ] {
        let (mut bench, mut pods) = shut(max_retries, 3);
        let deleted = deletions(&mut bench, &mut pods, 599, true);
        let close = |(found, expected): (&u64, &u64)| found.abs_diff(*expected) <= 2;
        assert_eq!(deleted.len(), 3, "{max_retries:?}: {deleted:?}");
        assert!(deleted.iter().zip(&expected).all(close), "{max_retries:?}: {deleted:?}");
    }
    let (mut bench, mut pods) = shut(MaxRetries::Times(0), 3);
    let deleted = deletions(&mut bench, &mut pods, 30, true);
    assert!(
        deleted.len() == 3 && deleted.windows(2).all(|two| two[0] < two[1]),
        "one after another: {deleted:?}"
    );
}

#[test]
fn a_pod_is_not_deleted_while_its_budget_may_let_another_go() {
    let (mut bench, _) = shut(MaxRetries::Times(1), 2);
    assert_eq!(evicted(&bench.answer("1", refusal())), ["2"]);
    assert_eq!(DELETE(&bench.after(Duration::from_secs(20))), [], "the answer for 2 is not known");
    assert_eq!(DELETE(&bench.answer("2", refusal())), [None]);

    // After a suspend the deletion of one and a retry of the other are due at the same time.
    let (mut bench, _) = shut(MaxRetries::Times(3), 2);
    bench.answer("1", refusal());
    bench.answer("2", refusal());
    let effects = bench.after(Duration::from_mins(5));
    assert_eq!((DELETE(&effects), evicted(&effects)), (vec![None], vec!["1"]));
}

#[test]
fn a_deletion_that_reaches_the_server_late_holds_the_next_from_then_on() {
    let (mut bench, mut pods) = shut(MaxRetries::Times(1), 2);
    // The first one is due after 20 s.
    let deleted = deletions_from(36, &mut bench, &mut pods, 100, true);
    assert!(deleted.len() == 2 && deleted[0] >= 36 && deleted[1] >= deleted[0] + 20, "{deleted:?}");
}

#[test]
fn a_deleted_pod_that_does_not_end_holds_the_next_for_its_grace_and_30_s() {
    let (mut bench, mut pods) = shut(MaxRetries::Times(1), 2);
    let deleted = deletions(&mut bench, &mut pods, 200, false);
    // The first is asked again while it does not end; the other one follows after 30 s of grace and 30 s more.
    let by = |bench: &Bench, uid: &str| bench.track(uid).by();
    assert_eq!(
        (by(&bench, "1"), by(&bench, "2")),
        (DeletionMethod::Escalation, DeletionMethod::Escalation),
        "{deleted:?}"
    );
    let (mut bench, mut pods) = shut(MaxRetries::Times(1), 2);
    deletions(&mut bench, &mut pods, 75, false);
    let escalated =
        bench.attempt().pods().values().filter(|track| track.by() == DeletionMethod::Escalation).count();
    assert_eq!(escalated, 1);
}

#[test]
fn a_budget_that_lets_pods_go_begins_the_count_anew() {
    let (mut bench, mut pods) = shut(MaxRetries::Times(3), 4);
    for _ in 0..3 {
        assert_eq!(deletions(&mut bench, &mut pods, 50, true), [] as [u64; 0]);
        // The budget has room for one: the next eviction is accepted.
        bench.snapshot(guarded(pods.clone(), 1, &format!("{}", bench.now.0)));
        let sent = bench.attempt().pods().values().find(|track| *track.stage() == Stage::Evicting);
        let sent = sent.expect("one is asked again").id().uid.clone();
        bench.answer(&sent, Answer::Accepted);
        pods.retain(|pod| pod.id.uid != sent);
        bench.snapshot(guarded(pods.clone(), 0, "1"));
    }
    let deleted = deletions(&mut bench, &mut pods, 70, true);
    assert!(deleted.len() == 1 && deleted[0].abs_diff(60) <= 2, "{deleted:?}");
}

#[test]
fn a_pod_that_somebody_else_evicts_moves_the_budget_as_well() {
    let (mut bench, mut pods) = shut(MaxRetries::Times(3), 1);
    deletions(&mut bench, &mut pods, 50, true);
    let mut moved = guarded(pods.clone(), 0, "2");
    moved.budgets[0].disrupted_pods = vec!["elsewhere-1".into()];
    bench.snapshot(moved);
    assert_eq!(deletions(&mut bench, &mut pods, 55, true), [] as [u64; 0]);
    assert_eq!(deletions(&mut bench, &mut pods, 10, true).len(), 1);
}

#[test]
fn a_finished_or_unready_pod_that_goes_says_nothing_about_the_budget() {
    for other in [
        crate::view::PodView { phase: crate::view::Phase::Succeeded, ready: false, ..pod("2") },
        crate::view::PodView { ready: false, ..pod("2") },
    ] {
        let (mut bench, mut pods) = shut(MaxRetries::Times(3), 1);
        deletions(&mut bench, &mut pods, 50, true);
        bench.snapshot(guarded(vec![pods[0].clone(), other], 0, "1"));
        bench.answer("2", Answer::Accepted);
        bench.snapshot(guarded(pods.clone(), 0, "1"));
        assert_eq!(deletions(&mut bench, &mut pods, 15, true).len(), 1);
    }
}
