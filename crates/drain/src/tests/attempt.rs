//! Scenarios of one attempt: events, and the effects that must follow.

use std::collections::BTreeMap;

use super::*;
use crate::findings::Findings;
use crate::policy::STALE_SCHEDULER;
use crate::policy::{IN_FLIGHT_PER_BUDGET, Method};
use crate::state::{Cause, Failure, Stage};
use crate::view::PodView;

type AnswerCase = (Answer, fn(&Stage) -> bool);

#[test]
fn evicts_waits_proves_and_ends() {
    let mut bench = Bench::start();
    assert_eq!(evicted(&bench.snapshot(with(vec![pod("1"), pod("2")]))), ["1", "2"]);
    assert_eq!(bench.answer("1", Answer::Accepted), []);
    assert_eq!(bench.answer("2", Answer::Accepted), []);
    assert_eq!(bench.snapshot(with(vec![terminating("1"), terminating("2")])), []);
    assert_eq!(bench.snapshot(with(vec![terminating("2")])), []);
    assert_eq!(bench.snapshot(with(vec![])), [RELIST]);
    assert_eq!(bench.outcome(), None, "an empty watch proves nothing");
    assert_eq!(bench.answer_relist(with(vec![])), [Effect::Abort]);
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn a_fresh_list_that_shows_a_pod_goes_on() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![]));
    assert_eq!(evicted(&bench.answer_relist(with(vec![pod("1")]))), ["1"]);
    assert_eq!(bench.outcome(), None);
}

#[test]
fn pods_that_kept_coming_need_two_clean_lists_apart() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    bench.snapshot(with(vec![pod("2")]));
    assert_eq!(bench.snapshot(with(vec![])), [RELIST]);
    assert_eq!(bench.answer_relist(with(vec![])), []);
    assert_eq!(bench.after(bench.policy.settle.checked_sub(Duration::from_millis(1)).unwrap()), []);
    assert_eq!(bench.after(Duration::from_millis(1)), [RELIST]);
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn after_an_outage_the_proof_waits_for_the_schedulers_stale_cache() {
    let back = Moment(1_000_000);
    let mut bench = Bench::with(Policy::device(), Some(back));
    bench.snapshot(with(vec![]));
    assert_eq!(bench.answer_relist(with(vec![])), [], "clean, but too early");
    assert_eq!(bench.after(STALE_SCHEDULER.checked_sub(Duration::from_millis(1)).unwrap()), []);
    assert_eq!(bench.after(Duration::from_millis(1)), [RELIST]);
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn nothing_is_sent_before_the_node_is_seen_cordoned() {
    let mut bench = Bench::start();
    let schedulable = Snapshot { node: Some(node(false)), ..with(vec![pod("1")]) };
    assert_eq!(bench.snapshot(schedulable), [], "the watch lags behind our own patch");
    assert_eq!(evicted(&bench.snapshot(with(vec![pod("1")]))), ["1"]);
}

#[test]
fn an_uncordon_before_the_first_snapshot_is_found_by_a_relist() {
    let schedulable = || Snapshot { node: Some(node(false)), ..with(vec![pod("1")]) };
    let mut bench = Bench::start();
    assert_eq!(bench.snapshot(schedulable()), []);
    assert_eq!(bench.after(Duration::from_millis(1_999)), []);
    assert_eq!(bench.after(Duration::from_millis(1)), [REFRESH]);
    bench.answer_relist(schedulable());
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Uncordoned)));
}

#[test]
fn a_pod_that_may_come_back_needs_two_clean_lists() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![PodView { tolerates_cordon: true, ..pod("1") }]));
    bench.snapshot(with(vec![]));
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), None);
    assert_eq!(bench.after(bench.policy.settle), [RELIST]);
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn an_uncordon_by_hand_fails_the_attempt() {
    for pods in [vec![pod("1")], vec![]] {
        let mut bench = Bench::start();
        bench.snapshot(with(pods.clone()));
        assert_eq!(bench.snapshot(Snapshot { node: Some(node(false)), ..with(pods) }), [Effect::Abort]);
        assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Uncordoned)));
    }
}

#[test]
fn the_deadline_is_a_failure_in_every_state() {
    let policy = Policy { attempt_timeout: Duration::from_mins(1), ..Policy::device() };
    let minute = Duration::from_mins(1);
    let mut draining = Bench::with(policy.clone(), None);
    draining.snapshot(with(vec![pod("1")]));
    draining.after(minute);
    let mut proving = Bench::with(policy.clone(), None);
    proving.snapshot(with(vec![]));
    proving.now = proving.now + minute;
    proving.answer_relist(with(vec![]));
    let mut blind = Bench::with(policy, None);
    blind.after(minute);
    assert_eq!(draining.outcome(), Some(Outcome::Failed(Failure::Deadline)));
    for (bench, expected) in [
        (proving, "the time is over; no relist has confirmed it yet"),
        (blind, "the time is over; no snapshot of the node has come yet"),
    ] {
        let failure = Failure::Unproven(expected.into());
        assert_eq!(bench.outcome(), Some(Outcome::Failed(failure)), "no pod is left that anybody knows of");
    }
}

#[test]
fn clocks_stand_still_while_the_api_is_away() {
    let policy = Policy { attempt_timeout: Duration::from_mins(1), ..Policy::device() };
    let mut bench = Bench::with(policy, None);
    bench.snapshot(with(vec![pod("1")]));
    bench.answer("1", Answer::Throttled { after: None, text: "connection refused".into() });
    bench.send(Event::ApiAway);
    assert_eq!(bench.after(Duration::from_mins(10)), [], "nothing is done to the cluster meanwhile");
    assert_eq!(bench.outcome(), None);
    let effects = bench.send(Event::ApiBack);
    assert_eq!(effects, [REFRESH], "what is known is old: looked freshly before anything is sent");
    assert_eq!(evicted(&bench.answer_relist(with(vec![pod("1")]))), ["1"], "sent again");
    bench.after(Duration::from_secs(59));
    assert_eq!(bench.outcome(), None);
    bench.after(Duration::from_secs(1));
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Deadline)));
}

/// An empty node waits for a minute after an outage, and says why.
#[test]
fn what_an_empty_node_waits_for_after_an_outage() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    bench.send(Event::ApiAway);
    bench.send(Event::ApiBack);
    bench.answer_relist(with(vec![pod("1")]));
    assert_eq!(bench.attempt().wait_reason(), None, "it waits for the pod");
    assert_eq!(bench.snapshot(with(vec![])), [RELIST]);
    bench.answer_relist(with(vec![]));
    let says = |bench: &Bench| {
        bench.attempt().wait_reason().is_some_and(|why| why.contains("a scheduler may still bind"))
    };
    assert!(says(&bench) && bench.outcome().is_none());
    bench.after(STALE_SCHEDULER);
    bench.answer_relist(with(vec![]));
    assert_eq!((says(&bench), bench.outcome()), (false, Some(Outcome::Drained)));
}

/// X8: 17 of 25 s of an outage were charged to the drain, because it was noticed so late.
#[test]
fn an_outage_counts_from_its_beginning() {
    for (silent, counted) in [(0, 0), (17, 17), (600, 22)] {
        let policy = Policy { attempt_timeout: Duration::from_hours(1), ..Policy::device() };
        let mut bench = Bench::with(policy, None);
        bench.snapshot(with(vec![pod("1")]));
        let deadline = bench.attempt().deadline();
        bench.after(Duration::from_secs(silent));
        bench.send(Event::ApiAway);
        bench.send(Event::ApiAway);
        bench.after(Duration::from_secs(8));
        bench.send(Event::ApiBack);
        assert_eq!(bench.attempt().deadline().since(deadline).as_secs(), counted + 8, "{silent}");
    }
}

#[test]
fn the_api_may_be_away_for_so_long_in_sum() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    for _ in 0..2 {
        bench.send(Event::ApiAway);
        bench.after(Duration::from_mins(15));
        assert_eq!(bench.outcome(), None);
        bench.send(Event::ApiBack);
    }
    bench.send(Event::ApiAway);
    bench.after(Duration::from_millis(1));
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::ApiAway)));
}

#[test]
fn the_policy_refuses_before_anything_is_evicted() {
    let mut bench = Bench::with(Policy::kubectl(), None);
    let bare = PodView { controller: None, ..pod("2") };
    assert_eq!(bench.snapshot(with(vec![pod("1"), bare])), [Effect::Abort]);
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Refused)));
}

#[test]
fn a_refused_pod_that_comes_later_fails_only_at_the_end() {
    let mut bench = Bench::with(Policy::kubectl(), None);
    bench.snapshot(with(vec![pod("1")]));
    let bare = PodView { controller: None, ..pod("2") };
    assert_eq!(bench.snapshot(with(vec![terminating("1"), bare.clone()])), []);
    assert_eq!(bench.outcome(), None);
    bench.snapshot(with(vec![bare]));
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Stuck)));
}

#[test]
fn final_answers_fail_early_only_when_nothing_else_can_move() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1"), pod("2")]));
    bench.answer("1", Answer::Rejected { text: "no rights".into() });
    assert_eq!(bench.outcome(), None);
    bench.answer("2", Answer::Rejected { text: "no rights".into() });
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Stuck)));
}

#[test]
fn concurrency_is_limited() {
    let policy = Policy { concurrency: 2, ..Policy::device() };
    let mut bench = Bench::with(policy, None);
    let pods = || vec![pod("1"), pod("2"), pod("3"), pod("4")];
    assert_eq!(evicted(&bench.snapshot(with(pods()))), ["1", "2"]);
    assert!(evicted(&bench.snapshot(with(pods()))).is_empty(), "both are still in flight");
    assert_eq!(evicted(&bench.answer("1", Answer::Accepted)), ["3"]);
}

#[test]
fn a_budget_takes_what_it_allows_and_three_at_most() {
    let pods = || (1..=9).map(|n| pod(&n.to_string())).collect::<Vec<_>>();
    for (allowed, sent) in [(-1, 1), (0, 1), (1, 1), (2, 2), (9, IN_FLIGHT_PER_BUDGET)] {
        let mut bench = Bench::start();
        assert_eq!(evicted(&bench.snapshot(guarded(pods(), allowed, "1"))).len(), sent, "allowed {allowed}");
    }
}

#[test]
fn an_accepted_eviction_uses_its_budget_until_the_status_shows_it() {
    let mut bench = Bench::start();
    assert_eq!(evicted(&bench.snapshot(guarded(vec![pod("1"), pod("2")], 1, "v1"))), ["1"]);
    assert!(evicted(&bench.answer("1", Answer::Accepted)).is_empty());
    assert!(evicted(&bench.snapshot(guarded(vec![terminating("1"), pod("2")], 1, "v1"))).is_empty());
    assert_eq!(
        evicted(&bench.snapshot(guarded(vec![terminating("1"), pod("2")], 0, "v2"))),
        ["2"],
        "one is asked"
    );
    bench.answer("2", refusal());
    assert!(evicted(&bench.snapshot(guarded(vec![pod("2")], 0, "v3"))).is_empty(), "it still refuses");
    assert_eq!(evicted(&bench.snapshot(guarded(vec![pod("2")], 1, "v4"))), ["2"], "freed: asked at once");
}

#[test]
fn a_blocked_pod_is_asked_again_after_the_retry_time() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "v1"));
    bench.answer("1", refusal());
    assert!(matches!(bench.stage("1"), Some(Stage::Blocked { cause: Cause::Budget(_), .. })));
    assert!(
        evicted(&bench.after(bench.policy.retry.checked_sub(Duration::from_millis(1)).unwrap())).is_empty()
    );
    assert_eq!(evicted(&bench.after(bench.policy.retry.mul_f64(0.25))), ["1"]);
}

#[test]
fn a_budget_that_changed_while_the_refusal_was_on_its_way_is_asked_at_once() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "v1"));
    bench.snapshot(guarded(vec![pod("1")], 1, "v2"));
    assert_eq!(evicted(&bench.answer("1", refusal())), ["1"]);
}

#[test]
fn a_budget_in_an_unchanged_version_is_not_asked_in_a_loop() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 1, "v1"));
    assert!(evicted(&bench.answer("1", refusal())).is_empty(), "the server knows better");
    assert!(evicted(&bench.snapshot(guarded(vec![pod("1")], 1, "v1"))).is_empty());
}

#[test]
fn a_terminating_namespace_takes_a_deletion() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    let effects = bench.answer("1", Answer::NamespaceTerminating);
    let expected = Effect::Delete { attempt: 1, pod: pod("1").id, grace: None };
    assert_eq!(effects, [expected]);
    assert_eq!(bench.answer("1", Answer::NamespaceTerminating), [], "a second such answer waits");
}

#[test]
fn each_other_answer_leads_to_its_stage() {
    let text = || String::from("t");
    let cases: Vec<AnswerCase> = vec![
        (Answer::Accepted, |s| matches!(s, Stage::Accepted)),
        (Answer::Gone, |s| matches!(s, Stage::Accepted)),
        (Answer::TwoBudgets, |s| matches!(s, Stage::Blocked { cause: Cause::TwoBudgets, .. })),
        (Answer::Webhook { text: text() }, |s| matches!(s, Stage::Blocked { cause: Cause::Webhook(_), .. })),
        (Answer::Throttled { after: None, text: text() }, |s| matches!(s, Stage::Paused { .. })),
        (Answer::Retry { text: text() }, |s| matches!(s, Stage::Paused { .. })),
    ];
    for (answer, expected) in cases {
        let mut bench = Bench::start();
        bench.snapshot(with(vec![pod("1"), pod("2")]));
        bench.answer("1", answer.clone());
        assert!(bench.stage("1").as_ref().is_some_and(expected), "{answer:?}: {:?}", bench.stage("1"));
    }
}

/// A pod that its budget has refused for minutes would wait 20 s for one broken connection.
#[test]
fn the_pause_after_a_failure_grows_with_failures_in_a_row_and_not_with_refusals() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    let fail = |bench: &mut Bench| {
        bench.answer("1", Answer::Retry { text: "connection reset".into() });
        let next = bench.stage("1").and_then(|stage| stage.next_try()).expect("it is tried again");
        let pause = next.since(bench.now);
        assert_eq!(evicted(&bench.after(pause)), ["1"]);
        pause
    };
    for _ in 0..2 {
        for _ in 0..8 {
            bench.answer("1", refusal());
            assert_eq!(evicted(&bench.after(Duration::from_secs(25))), ["1"]);
        }
        let pauses = [(); 7].map(|()| fail(&mut bench).as_millis());
        assert!(pauses.is_sorted() && pauses[0] <= 625 && pauses[6] >= 20_000, "{pauses:?}");
    }
}

#[test]
fn cancel_aborts_and_nothing_follows() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    assert_eq!(bench.send(Event::Cancel), [Effect::Abort]);
    assert_eq!(bench.snapshot(with(vec![pod("1")])), []);
    assert_eq!(bench.after(Duration::from_hours(1)), []);
    assert_eq!(bench.answer_relist(with(vec![])), []);
    assert_eq!(bench.answer("1", Answer::Accepted), []);
    assert_eq!(bench.state, State::Idle);
}

#[test]
fn a_second_start_changes_nothing() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    let before = bench.state.clone();
    assert_eq!(bench.send(Event::Start { attempt: 2, api_back: None }), []);
    assert_eq!(bench.state, before);
}

#[test]
fn a_pod_that_is_left_does_not_hold_up_the_drain() {
    let mut bench = Bench::start();
    let labels = BTreeMap::from([("app".to_owned(), "csi-attacher".to_owned())]);
    let kept = || PodView { labels: labels.clone(), ..pod("1") };
    assert_eq!(bench.snapshot(with(vec![kept()])), [RELIST]);
    bench.answer_relist(with(vec![kept()]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn what_another_attempt_asked_for_is_not_ours() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    bench.send(Event::Answer { attempt: 2, uid: "1".into(), answer: Answer::Accepted });
    assert_eq!(bench.stage("1"), Some(Stage::Evicting));
    let findings = Arc::new(Findings { trouble: vec!["x".into()], ..Findings::default() });
    bench.send(Event::Found { attempt: 2, findings: Arc::clone(&findings) });
    assert_eq!(*bench.attempt().findings(), Findings::default());
    bench.send(Event::Found { attempt: 1, findings: Arc::clone(&findings) });
    assert_eq!(*bench.attempt().findings(), *findings);
    bench.send(Event::Relisted { attempt: 2, result: Ok(Arc::new(with(vec![]))) });
    assert_eq!(bench.stage("1"), Some(Stage::Evicting));
    assert_eq!(bench.snapshot(with(vec![])), [RELIST]);
    bench.send(Event::Relisted { attempt: 2, result: Ok(Arc::new(with(vec![]))) });
    assert_eq!(bench.outcome(), None);
}

#[test]
fn a_node_that_cannot_be_watched_fails_at_once_and_only_before_the_first_snapshot() {
    let unseen = || Event::Unseen { why: "no right to list pods".into() };
    let mut bench = Bench::start();
    assert_eq!(bench.send(unseen()), [Effect::Abort]);
    let failure = Failure::Unseen("no right to list pods".into());
    assert_eq!(failure.to_string(), "the node cannot be watched: no right to list pods");
    assert_eq!(bench.outcome(), Some(Outcome::Failed(failure)));
    for pods in [vec![], vec![pod("1")]] {
        let mut bench = Bench::start();
        bench.snapshot(with(pods));
        bench.send(unseen());
        assert_eq!(bench.outcome(), None);
    }
}

#[test]
fn a_node_that_is_gone_at_the_proof() {
    let gone = || Snapshot { node: None, ..Snapshot::default() };
    let mut bench = Bench::start();
    bench.snapshot(with(vec![]));
    bench.snapshot(gone());
    bench.answer_relist(gone());
    assert_eq!(bench.outcome(), Some(Outcome::NodeGone));
    let mut bench = Bench::start();
    bench.snapshot(gone());
    bench.answer_relist(gone());
    assert_eq!(bench.outcome(), None, "a node that was never seen is not gone");
}

#[test]
fn a_server_without_evictions_takes_deletions() {
    let mut bench = Bench::with(Policy { concurrency: 1, ..Policy::device() }, None);
    bench.snapshot(guarded(vec![pod("1"), pod("2")], 0, "1"));
    let deletes = |effects: &[Effect], uid: &str| {
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Delete { pod, grace: None, .. } if pod.uid == uid))
    };
    let effects = bench.answer("1", Answer::NoEvictions);
    assert!(deletes(&effects, "1"), "{effects:?}");
    let effects = bench.answer("1", Answer::Accepted);
    assert!(deletes(&effects, "2"), "the others are not evicted in vain: {effects:?}");
    let effects = bench.answer("2", Answer::NoEvictions);
    assert_eq!(evicted(&effects), [""; 0], "not in a loop");
}

/// The caller has waited already, so that this is no busy loop.
#[test]
fn an_eviction_that_was_not_sent_is_decided_anew_at_once() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1"), pod("2")]));
    let effects = bench.answer("1", Answer::NotSent);
    assert_eq!(evicted(&effects), ["1"]);
    assert_eq!(bench.track("1").tries(), 1, "only what was sent counts");
    bench.snapshot(with(vec![pod("2")]));
    assert_eq!(evicted(&bench.answer("1", Answer::NotSent)), [""; 0], "the pod is gone");
}

#[test]
fn deletion_is_a_method_of_its_own_and_asks_no_budget() {
    let policy =
        Policy { method: Method::Delete, grace_period: Some(Duration::from_secs(5)), ..Policy::device() };
    let mut bench = Bench::with(policy, None);
    let effects = bench.snapshot(guarded(vec![pod("1"), pod("2"), pod("3"), pod("4")], 0, "1"));
    let graceful = |effect: &&Effect| matches!(effect, Effect::Delete { grace: Some(grace), .. } if *grace == Duration::from_secs(5));
    assert_eq!(effects.iter().filter(graceful).count(), 4, "{effects:?}");
}

#[test]
fn an_accepted_pod_is_asked_again_only_when_the_server_seems_to_have_forgotten_it() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    bench.answer("1", Answer::Accepted);
    bench.now = bench.now + Duration::from_secs(19);
    assert_eq!(evicted(&bench.snapshot(with(vec![pod("1")]))), [""; 0]);
    bench.now = bench.now + Duration::from_secs(1);
    assert_eq!(evicted(&bench.snapshot(with(vec![pod("1")]))), ["1"]);
}

#[test]
fn since_tells_when_the_stage_began() {
    let mut bench = Bench::start();
    let since = |bench: &Bench| bench.now.since(bench.track("1").since());
    bench.snapshot(with(vec![pod("1")]));
    bench.now = bench.now + Duration::from_secs(5);
    bench.snapshot(with(vec![pod("1")]));
    assert_eq!(since(&bench), Duration::from_secs(5), "sent, and not answered yet");
    bench.snapshot(with(vec![terminating("1")]));
    assert_eq!(since(&bench), Duration::ZERO);
    bench.now = bench.now + Duration::from_secs(7);
    bench.snapshot(with(vec![terminating("1")]));
    assert_eq!(since(&bench), Duration::from_secs(7));
}

#[test]
fn a_late_relist_brings_no_old_budget_back() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    bench.silence();
    bench.snapshot(with(vec![pod("1")]));
    bench.answer_relist(guarded(vec![pod("1")], 0, "1"));
    assert_eq!(bench.attempt().snapshot().as_ref().map(|snapshot| snapshot.budgets.len()), Some(0));
    assert_eq!(
        evicted(&bench.answer("1", refusal())),
        ["1"],
        "the refusal is older than what the watch says"
    );
}

#[test]
fn a_policy_without_a_pause_does_not_turn_in_a_loop() {
    let mut bench = Bench::with(Policy { retry: Duration::ZERO, ..Policy::device() }, None);
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    assert_eq!(evicted(&bench.answer("1", refusal())), [""; 0]);
    assert_eq!(evicted(&bench.after(Duration::from_millis(99))), [""; 0]);
    assert_eq!(evicted(&bench.after(Duration::from_millis(26))), ["1"]);
}

#[test]
fn our_own_retry_is_not_cut_and_a_servers_wish_is() {
    let hour = Duration::from_hours(1);
    let wish = |after| Answer::Budget(crate::answer::BudgetRefusal { text: "no".into(), after });
    for (answer, early, late) in [
        (wish(None), hour, hour.mul_f64(1.25)),
        (wish(Some(hour)), Duration::from_mins(1), Duration::from_mins(2)),
        (Answer::Webhook { text: "no".into() }, hour, hour.mul_f64(1.25)),
    ] {
        let mut bench = Bench::with(Policy { retry: hour, ..Policy::device() }, None);
        bench.snapshot(guarded(vec![pod("1")], 0, "v1"));
        bench.answer("1", answer.clone());
        let too_early = bench.after(early.checked_sub(Duration::from_millis(1)).unwrap());
        assert_eq!(evicted(&too_early), [""; 0], "{answer:?}");
        assert_eq!(evicted(&bench.after(late.saturating_sub(early))), ["1"], "{answer:?}");
    }
}

#[test]
fn a_refused_pod_that_changes_is_asked_for_again_at_once() {
    let unready = || PodView { ready: false, ..pod("1") };
    let finished = || PodView { phase: crate::view::Phase::Succeeded, ready: false, ..pod("1") };
    for (before, after, again) in [
        (pod("1"), finished(), true),
        (pod("1"), unready(), true),
        (unready(), pod("1"), true),
        (pod("1"), pod("1"), false),
        (pod("1"), PodView { finalizers: vec!["x".into()], ..pod("1") }, false),
    ] {
        for answer in [refusal(), Answer::TwoBudgets, Answer::Webhook { text: "no".into() }] {
            let mut bench = Bench::start();
            bench.snapshot(guarded(vec![before.clone()], 0, "v1"));
            bench.answer("1", answer.clone());
            let sent = bench.snapshot(guarded(vec![after.clone()], 0, "v1"));
            assert_eq!(!evicted(&sent).is_empty(), again, "{after:?} {answer:?}");
            bench.answer("1", answer.clone());
            let sent = bench.snapshot(guarded(vec![after.clone()], 0, "v1"));
            assert_eq!(evicted(&sent), [""; 0], "once for each change: {after:?} {answer:?}");
        }
    }
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "v1"));
    bench.snapshot(guarded(vec![finished()], 0, "v1"));
    assert_eq!(evicted(&bench.answer("1", refusal())), ["1"], "it changed while the refusal was on its way");
}

fn denial() -> Answer {
    Answer::Denied { text: "no right to create pods/eviction".into() }
}

/// Denies every eviction of pod 1 for so many seconds; how many there were.
fn deny(bench: &mut Bench, seconds: u64) -> u32 {
    let mut evictions = 0;
    for _ in 0..seconds * 10 {
        if bench.stage("1") == Some(Stage::Evicting) {
            evictions += 1;
            bench.answer("1", denial());
        }
        bench.after(Duration::from_millis(100));
    }
    evictions
}

#[test]
fn a_denied_eviction_is_tried_again_and_final_only_when_that_lasts() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    let evictions = deny(&mut bench, 29);
    assert!((3..10).contains(&evictions), "{evictions} with growing pauses");
    assert_eq!(bench.outcome(), None);
    assert!(matches!(bench.stage("1"), Some(Stage::Paused { ref text, .. }) if text.contains("no right")));
    deny(&mut bench, 30);
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Stuck)));
    assert!(matches!(bench.stage("1"), Some(Stage::Failed { ref text }) if text.contains("no right")));
}

#[test]
fn a_denial_that_passes_costs_nothing_and_begins_anew() {
    for between in [refusal(), Answer::Throttled { after: None, text: "busy".into() }] {
        let mut bench = Bench::start();
        bench.snapshot(guarded(vec![pod("1")], 0, "v1"));
        deny(&mut bench, 25);
        bench.after(Duration::from_secs(25));
        assert_eq!(bench.stage("1"), Some(Stage::Evicting), "{between:?}");
        bench.answer("1", between.clone());
        deny(&mut bench, 29);
        assert_eq!(bench.outcome(), None, "{between:?}");
    }
}

#[test]
fn a_denial_before_and_one_after_an_outage_are_not_a_lasting_one() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    bench.answer("1", denial());
    bench.send(Event::ApiAway);
    bench.after(Duration::from_mins(10));
    bench.send(Event::ApiBack);
    deny(&mut bench, 25);
    assert_eq!(bench.outcome(), None);
}
