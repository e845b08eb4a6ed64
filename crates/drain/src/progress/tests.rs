//! Numbers and lines, as the report shows them.

use std::time::Duration;

use super::*;
use crate::answer::Answer;
use crate::findings::Findings;
use crate::policy::{MaxRetries, Policy};
use crate::tests::{Bench, guarded, pod, refusal, terminating, with};
use crate::view::{Snapshot, Terminating};
use crate::volumes::tests::{elsewhere, here, snapshot, storage, using};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn line_of(bench: &Bench, uid: &str) -> Line {
    let lines = lines(bench.attempt(), bench.now);
    lines.into_iter().find(|line| line.id.uid == uid).expect("a line")
}

#[test]
fn each_pod_counts_once() {
    let mut bench = Bench::start();
    let stays = PodView { mirror: true, ..pod("9") };
    bench.snapshot(with(vec![pod("0"), pod("1"), pod("2"), terminating("3"), pod("4"), pod("5"), stays]));
    bench.answer("1", refusal());
    bench.answer("2", Answer::Throttled { after: None, text: "busy".into() });
    bench.answer("4", Answer::Rejected { text: "no".into() });
    bench.answer("5", Answer::Accepted);
    let left = vec![pod("1"), pod("2"), terminating("3"), pod("4"), pod("5")];
    bench.snapshot(with(left));
    let expected =
        Progress { total: 6, gone: 1, terminating: 2, blocked: 2, waiting: 1, left: 5, volumes: 0 };
    assert_eq!(progress(bench.attempt()), expected);
}

#[test]
fn before_a_snapshot_there_is_nothing_to_tell() {
    let bench = Bench::start();
    assert_eq!(progress(bench.attempt()), Progress::default());
    assert_eq!(lines(bench.attempt(), bench.now), []);
    assert_eq!(volume_lines(bench.attempt()), []);
    assert!(attempt(&State::Idle).is_none());
}

#[test]
fn what_each_pod_is_doing() {
    let mut bench = Bench::start();
    let stays = PodView { mirror: true, ..pod("9") };
    bench.snapshot(guarded(vec![pod("1"), stays], 1, "1"));
    bench.answer("1", refusal());
    let line = line_of(&bench, "1");
    assert_eq!((line.owner.as_str(), line.verdict, line.tries), ("ReplicaSet/", Verdict::Evict, 1));
    assert_eq!(line.detail, "needs 1 healthy pods and has 1 currently");
    let line = line_of(&bench, "9");
    assert_eq!((line.verdict, line.stage, line.since), (Verdict::Leave, None, bench.attempt().started()));
    assert_eq!((line.reasons, line.detail), (vec![Reason::Mirror], String::new()));
}

#[test]
fn a_refused_pod_counts_from_its_first_refusal() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    assert_eq!(line_of(&bench, "1").since, bench.now, "sent just now");
    bench.now = bench.now + seconds(1);
    bench.answer("1", refusal());
    let first = bench.now;
    bench.after(seconds(30));
    assert_eq!(line_of(&bench, "1").since, bench.now, "sent again");
    bench.answer("1", refusal());
    assert_eq!(line_of(&bench, "1").since, first);
}

#[test]
fn details_for_each_kind_of_wait() {
    let told = |answer: Answer| {
        let mut bench = Bench::start();
        bench.snapshot(with(vec![pod("1")]));
        bench.answer("1", answer);
        line_of(&bench, "1").detail
    };
    assert_eq!(told(Answer::Accepted), "");
    assert_eq!(told(Answer::Webhook { text: "not today".into() }), "not today");
    assert_eq!(told(Answer::Retry { text: "conflict".into() }), "conflict");
    assert_eq!(told(Answer::Rejected { text: "no right".into() }), "no right");
    assert!(told(Answer::TwoBudgets).contains("more than one PodDisruptionBudget"));
    let mut bench = Bench::start();
    let mut awaited = pod("1");
    awaited.labels.insert(crate::plan::DRAIN_LABEL.into(), "wait-completed".into());
    bench.snapshot(with(vec![awaited]));
    assert_eq!(line_of(&bench, "1").detail, "waiting until it has finished by itself");
    let mut bench = Bench::with(Policy::kubectl(), None);
    bench.snapshot(with(vec![PodView { controller: None, ..pod("1") }]));
    assert_eq!(line_of(&bench, "1").detail, "the policy does not allow its eviction");
}

#[test]
fn a_pod_that_returns_says_how_often() {
    let mut bench = Bench::start();
    bench.after(Duration::from_secs(10));
    for uid in ["0", "1", "2", "3"] {
        bench.snapshot(with(vec![pod(uid)]));
    }
    assert_eq!(line_of(&bench, "3").detail, "created again on this node 3 times: evicted slowly");
    let mut bench = Bench::start();
    for uid in ["0", "1", "2"] {
        bench.snapshot(with(vec![PodView { names_node: true, ..pod(uid) }]));
    }
    assert_eq!(line_of(&bench, "2").detail, "created again on this node 2 times: not evicted again");
}

#[test]
fn a_terminating_pod_speaks_30_s_after_its_time() {
    let late = |overdue| {
        let terminating =
            Terminating { grace: seconds(5), overdue: seconds(overdue), ..Terminating::default() };
        PodView { terminating: Some(terminating), ..pod("1") }
    };
    let held = PodView { finalizers: vec!["a".into(), "b".into()], ..late(31) };
    for (pod, expected) in [
        (terminating("1"), "still terminating, 30 s of its grace are left"),
        (late(30), "still terminating, its grace has just ended"),
        (late(31), "still terminating 31 s after its time: the kubelet has not ended it"),
        (held, "still terminating 31 s after its time: held by finalizers a, b"),
    ] {
        let mut bench = Bench::start();
        bench.snapshot(with(vec![pod]));
        assert_eq!(line_of(&bench, "1").detail, expected);
    }
}

#[test]
fn a_deletion_after_refusals_is_told_unless_something_else_is() {
    let mut bench = Bench::with(Policy { max_retries: MaxRetries::Times(0), ..Policy::device() }, None);
    bench.snapshot(guarded(vec![pod("1"), pod("2")], 0, "1"));
    bench.answer("1", refusal());
    assert!(line_of(&bench, "1").detail.contains("refused for too long"));
    bench.answer("1", Answer::Webhook { text: "no".into() });
    assert_eq!(line_of(&bench, "1").detail, "no");
    assert_eq!(line_of(&bench, "2").detail, "", "it was not refused");
}

#[test]
fn volumes_from_the_last_user_to_the_next_node() {
    let mut bench = Bench::start();
    let pods = || vec![using("1", &["1", "2"]), using("3", &["3"])];
    let store = |attachments| storage(&["1", "2", "3"], attachments);
    let stages = |bench: &Bench| -> Vec<(String, &'static str, String)> {
        let lines = volume_lines(bench.attempt()).into_iter();
        lines.map(|line| (line.volume, line.stage, line.detail)).collect()
    };
    let told = |name: &str, stage, detail: &str| (name.to_owned(), stage, detail.to_owned());
    bench.snapshot(snapshot(pods(), store(vec![here("1"), here("2"), here("3")])));
    assert_eq!(stages(&bench), [], "in use");
    assert_eq!(progress(bench.attempt()).volumes, 0);
    bench.snapshot(snapshot(pods().split_off(1), store(vec![here("1"), here("2"), here("3")])));
    let there = ["1", "2"].map(|n| format!("its VolumeAttachment csi-{n} is still there"));
    assert_eq!(stages(&bench), [told("pv-1", "Detaching", &there[0]), told("pv-2", "Detaching", &there[1])]);
    assert_eq!(progress(bench.attempt()).volumes, 2);
    assert_eq!(volume_lines(bench.attempt())[0].pod.uid, "1");
    assert_eq!(volume_lines(bench.attempt())[0].claim, "a/claim-1");
    bench.snapshot(snapshot(pods().split_off(1), store(vec![here("3")])));
    assert_eq!(stages(&bench), [told("pv-1", "Attaching", ""), told("pv-2", "Attaching", "")]);
    assert_eq!(progress(bench.attempt()).volumes, 0);
    bench.snapshot(snapshot(pods().split_off(1), store(vec![elsewhere("1"), elsewhere("2"), here("3")])));
    assert_eq!(stages(&bench), [], "done");
}

#[test]
fn only_volumes_of_a_turn_are_being_attached() {
    let mut bench = Bench::start();
    let store = |attachments| storage(&["1", "2", "3"], attachments);
    // The second pod was not attached: the drain does not wait for it.
    let pods = vec![using("1", &["1"]), using("2", &["2"]), using("3", &["3"])];
    bench.snapshot(snapshot(pods.clone(), store(vec![here("1"), here("3")])));
    bench.snapshot(snapshot(pods[2..].to_vec(), store(vec![here("3")])));
    let lines = volume_lines(bench.attempt());
    assert_eq!(lines.iter().map(|line| line.volume.as_str()).collect::<Vec<_>>(), ["pv-1"]);
}

#[test]
fn findings_do_not_change_numbers() {
    let mut bench = Bench::start();
    bench.snapshot(Snapshot::default());
    let findings = std::sync::Arc::new(Findings::default());
    bench.send(crate::Event::Found { attempt: 1, findings });
    assert_eq!(progress(bench.attempt()), Progress::default());
}
