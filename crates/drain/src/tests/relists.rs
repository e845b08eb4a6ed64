//! Fresh looks: what they prove, what they do not, and what is said when they fail.

use super::*;
use crate::Event;
use crate::answer::Answer;
use crate::policy::OnDetachTimeout;
use crate::state::Failure;
use crate::state::{Outcome, State};
use crate::storage::{AttachmentView, Storage};
use crate::volumes::VolumeStage;
use crate::volumes::tests::{elsewhere, here, snapshot, storage, using};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod that stays and uses these claims.
fn staying(uid: &str, claims: &[&str]) -> PodView {
    PodView { mirror: true, ..using(uid, claims) }
}

/// The node lists these handles in `volumesAttached`.
fn listing(handles: &[&str], mut snapshot: Snapshot) -> Snapshot {
    let names = handles.iter().map(|handle| format!("kubernetes.io/csi/csi.example^{handle}")).collect();
    snapshot.node = Some(NodeView { volumes_attached: names, ..node(true) });
    snapshot
}

/// Sends the look as it is, also when it says nothing about attachments.
fn raw(bench: &mut Bench, look: Snapshot) -> Vec<Effect> {
    bench.send(Event::Relisted { attempt: 1, result: Ok(Arc::new(look)) })
}

fn said(bench: &Bench) -> String {
    bench.attempt().wait_reason().unwrap_or_default()
}

// A look that knows nothing of volumes.

#[test]
fn a_first_relist_without_knowledge_of_volumes_sends_no_pod_with_claims() {
    let mut bench = Bench::start();
    assert_eq!(bench.silence(), [RELIST], "no snapshot came: the relist asks about volumes as well");
    assert_eq!(evicted(&raw(&mut bench, with(vec![using("1", &["1"])]))), [""; 0]);
    assert_eq!(bench.outcome(), None);
}

#[test]
fn a_first_relist_that_knows_the_volumes_goes_on_in_order() {
    let mut bench = Bench::start();
    bench.silence();
    let known = || storage(&["1", "2"], vec![here("1"), here("2")]);
    let effects =
        bench.answer_relist(snapshot(vec![pod("0"), using("1", &["1"]), using("2", &["2"])], known()));
    assert_eq!(evicted(&effects), ["0", "1"], "one with volumes at a time");
}

#[test]
fn a_pod_whose_claims_nobody_knows_is_not_sent_and_is_looked_at_soon() {
    let mut bench = Bench::start();
    let effects = bench.snapshot(with(vec![using("1", &["1"]), pod("2")]));
    assert_eq!(evicted(&effects), ["2"], "a pod without claims is clear");
    assert_eq!(bench.after(seconds(1)), [RELIST]);
    // The look could not find out either what the claim is bound to.
    assert_eq!(bench.answer_relist(snapshot(vec![using("1", &["1"])], storage(&[], vec![]))), []);
    assert_eq!(bench.after(seconds(4)), [RELIST]);
    let what = "it is not known yet which volumes 1 of the pods have; they are not evicted before";
    bench.answer_relist(snapshot(vec![using("1", &["1"])], storage(&[], vec![])));
    assert_eq!(said(&bench), what);
    assert_eq!(bench.after(seconds(3)), [RELIST]);
    let effects = bench.answer_relist(snapshot(vec![using("1", &["1"])], storage(&["1"], vec![here("1")])));
    assert_eq!((evicted(&effects), said(&bench)), (vec!["1"], String::new()));
}

#[test]
fn a_first_snapshot_that_takes_long_is_waited_for_with_a_word() {
    let mut bench = Bench::start();
    assert_eq!(said(&bench), "");
    assert_eq!(bench.silence(), [RELIST]);
    assert!(said(&bench).starts_with("the watches have not shown the node, its pods and their volumes yet"));
}

#[test]
fn a_relist_that_does_not_tell_of_attachments_proves_nothing() {
    let mut bench = Bench::start();
    assert_eq!(bench.snapshot(with(vec![])), [RELIST]);
    raw(&mut bench, with(vec![]));
    assert_eq!(bench.outcome(), None);
}

// A watch that lags behind the looks.

#[test]
fn a_watch_that_lags_behind_a_relist_brings_no_pod_back() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("old")], 1, "1"));
    assert_eq!(bench.silence(), [REFRESH]);
    assert_eq!(evicted(&bench.answer_relist(guarded(vec![pod("new")], 1, "1"))), ["new"]);
    for version in 2..20 {
        // The budgets' watch is busy, that of the pods hangs.
        let effects = bench.snapshot(guarded(vec![pod("old")], 1, &version.to_string()));
        assert_eq!(evicted(&effects), [""; 0], "{version}");
        assert_eq!(bench.attempt().pods().keys().collect::<Vec<_>>(), ["new"]);
        bench.after(seconds(1));
    }
    assert_eq!(bench.after(seconds(12)), [REFRESH], "although the watches are not silent");
    bench.snapshot(guarded(vec![pod("newest")], 1, "20"));
    assert_eq!(
        bench.attempt().pods().keys().collect::<Vec<_>>(),
        ["new", "newest"],
        "only what it tells anew"
    );
    bench.answer_relist(guarded(vec![pod("newest")], 1, "20"));
    assert_eq!(bench.attempt().pods().keys().collect::<Vec<_>>(), ["newest"]);
}

#[test]
fn time_that_passes_is_no_news_of_a_late_watch() {
    let left = |uid: &str, left: u64, overdue: u64| {
        let terminating = Terminating { left: seconds(left), overdue: seconds(overdue), grace: seconds(30) };
        PodView { terminating: Some(terminating), ..pod(uid) }
    };
    let mut bench = Bench::start();
    bench.snapshot(with(vec![left("1", 30, 0), left("2", 30, 0)]));
    assert_eq!(bench.silence(), [REFRESH]);
    bench.answer_relist(with(vec![left("2", 1, 0)]));
    // The Node has changed; the watch of the pods hangs.
    bench.snapshot(with(vec![left("1", 0, 9), left("2", 0, 9)]));
    assert_eq!(bench.attempt().pods().keys().collect::<Vec<_>>(), ["2"]);
    assert_eq!(bench.attempt().gone(), 1);
    let shown = &bench.attempt().snapshot().expect("it").pods[0];
    assert_eq!(shown.terminating.expect("it").overdue, seconds(9), "but its times are those of now");
}

#[test]
fn a_pod_that_the_server_calls_gone_is_looked_for_and_not_asked_again() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 1, "1"));
    bench.answer("1", Answer::Gone);
    assert_eq!(bench.after(seconds(2)), [REFRESH]);
    assert_eq!(bench.fails("503"), []);
    bench.now = bench.now + seconds(60);
    let effects = bench.snapshot(guarded(vec![pod("1")], 1, "2"));
    assert_eq!(effects, [REFRESH], "a late watch is no reason to evict it again");
    assert_eq!(evicted(&bench.answer_relist(guarded(vec![pod("1")], 1, "2"))), ["1"], "it is still there");
}

/// A webhook makes a dry run of the eviction, or etcd was restored: no watch ever shows the pod terminating.
#[test]
fn a_pod_that_does_not_end_after_its_accepted_eviction_is_looked_for_and_evicted_again() {
    let mut bench = Bench::start();
    let snapshot = || guarded(vec![pod("1")], 1, "1");
    bench.snapshot(snapshot());
    for round in 0..3 {
        bench.answer("1", Answer::Accepted);
        let early = bench.policy.retry.checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!(bench.after(early), [], "{round}: the watch may be late");
        assert_eq!(bench.after(Duration::from_millis(1)), [REFRESH], "{round}");
        assert_eq!(evicted(&bench.answer_relist(snapshot())), ["1"], "{round}");
    }
}

// The final check is about the node.

#[test]
fn what_is_attached_without_a_pod_is_waited_for_by_every_attempt() {
    let attached = || snapshot(vec![], storage(&[], vec![here("7")]));
    let mut bench = Bench::start();
    for round in 0..3 {
        assert_eq!(bench.snapshot(with(vec![])), [RELIST], "{round}");
        assert_eq!(bench.answer_relist(attached()), [], "{round}: it was attached before we came");
        assert_eq!(bench.attempt().volumes()["pv-7"].stage, VolumeStage::Detaching);
        bench.after(seconds(119));
        bench.answer_relist(attached());
        assert_eq!(bench.outcome(), None, "{round}");
        bench.after(seconds(1));
        let Some(Outcome::Failed(failure @ Failure::Volumes(_))) = bench.outcome() else {
            panic!("{round}: {:?}", bench.outcome());
        };
        let text = failure.to_string();
        for part in [
            "not detached from the node: pv-7, driver csi.example (its VolumeAttachment csi-7 is still there)",
            "volumes.on-detach-timeout",
            "`ebb force complete`",
        ] {
            assert!(text.contains(part), "{text}");
        }
        bench.send(Event::Cancel);
        bench.send(Event::Start { attempt: 1, api_back: None });
    }
}

#[test]
fn what_is_attached_belongs_to_a_pod_that_stays_or_is_waited_for() {
    let inline = AttachmentView { volume: None, name: "csi-77".into(), ..here("7") };
    let unread = |n: &str| AttachmentView { volume: Some(format!("unread-{n}")), ..here(n) };
    let cases: Vec<(&str, Snapshot, &[&str])> = vec![
        ("nothing", snapshot(vec![], storage(&[], vec![])), &[]),
        ("elsewhere", snapshot(vec![], storage(&[], vec![elsewhere("1")])), &[]),
        ("an attachment", snapshot(vec![], storage(&[], vec![here("1")])), &["pv-1"]),
        ("of a pod that stays", snapshot(vec![staying("9", &["1"])], storage(&["1"], vec![here("1")])), &[]),
        (
            "another one than that of the pod that stays",
            snapshot(vec![staying("9", &["1"])], storage(&["1"], vec![here("1"), here("2")])),
            &["pv-2"],
        ),
        ("an inline one", snapshot(vec![], storage(&[], vec![inline])), &["csi-77"]),
        (
            "only the node lists it",
            listing(&["x"], snapshot(vec![], storage(&[], vec![]))),
            &["kubernetes.io/csi/csi.example^x"],
        ),
        (
            "without VolumeAttachments only the node can tell",
            listing(
                &["x"],
                snapshot(vec![], Storage { attachments: Attachments::NotServed, ..Storage::default() }),
            ),
            &["kubernetes.io/csi/csi.example^x"],
        ),
        (
            "the node lists a volume that is known",
            listing(&["vol-1"], snapshot(vec![], storage(&["1"], vec![]))),
            &["pv-1"],
        ),
        (
            "both say so: once",
            listing(&["vol-1"], snapshot(vec![], storage(&["1"], vec![here("1")]))),
            &["pv-1"],
        ),
        (
            "both say so of a volume that nobody has read: once",
            listing(&["x"], snapshot(vec![], storage(&[], vec![unread("1")]))),
            &["unread-1"],
        ),
        (
            "one attachment stands for one name",
            listing(&["x", "y"], snapshot(vec![], storage(&[], vec![unread("1")]))),
            &["kubernetes.io/csi/csi.example^y", "unread-1"],
        ),
        (
            "both say so of a pod that stays",
            listing(&["vol-1"], snapshot(vec![staying("9", &["1"])], storage(&["1"], vec![here("1")]))),
            &[],
        ),
    ];
    for (name, look, expected) in cases {
        let mut bench = Bench::start();
        assert_eq!(bench.snapshot(with(look.pods.clone())), [RELIST], "{name}");
        bench.answer_relist(look);
        let waited: Vec<&str> = bench.attempt().volumes().keys().map(String::as_str).collect();
        assert_eq!(waited, expected, "{name}");
        assert_eq!(bench.outcome() == Some(Outcome::Drained), expected.is_empty(), "{name}");
    }
}

#[test]
fn a_resumed_attempt_knows_no_more_than_a_new_one_and_waits_for_the_same() {
    let mut bench = Bench::start();
    bench.snapshot(snapshot(vec![using("1", &["1"])], storage(&["1"], vec![here("1")])));
    let record = Box::new(bench.attempt().record());
    let mut next = Bench { state: State::Idle, now: bench.now + seconds(1), policy: bench.policy.clone() };
    next.send(Event::Resume { attempt: 1, api_back: None, record });
    // Storage is slow after the restart: the first look comes without any snapshot of the watches.
    assert_eq!(next.silence(), [RELIST]);
    assert_eq!(evicted(&raw(&mut next, with(vec![using("1", &["1"])]))), [""; 0]);
    next.snapshot(with(vec![]));
    next.after(seconds(1));
    next.answer_relist(snapshot(vec![], storage(&[], vec![here("1")])));
    assert_eq!(next.outcome(), None);
    assert_eq!(next.attempt().volumes()["pv-1"].stage, VolumeStage::Detaching);
}

// The end of the node.

#[test]
fn a_node_is_gone_only_if_server_watch_and_list_agree() {
    let none = |pods| Snapshot { node: None, ..with(pods) };
    for (name, watched, look, is_gone) in [
        ("all agree", none(vec![]), none(vec![]), true),
        ("the watch shows it", with(vec![pod("1")]), none(vec![]), false),
        ("pods are bound to it", none(vec![pod("1")]), none(vec![pod("1"), pod("2")]), false),
    ] {
        let mut bench = Bench::start();
        bench.snapshot(with(vec![pod("1")]));
        bench.silence();
        bench.snapshot(watched);
        bench.answer_relist(look.clone());
        assert_eq!(bench.outcome() == Some(Outcome::NodeGone), is_gone, "{name}");
        if !is_gone {
            assert!(
                said(&bench).contains("the API server says that the node does not exist, but"),
                "{}",
                said(&bench)
            );
            assert_eq!(bench.attempt().pods().len(), 1, "{name}: nothing of such a look counts");
        }
    }
}

// The order of looks and watches.

#[test]
fn a_relist_takes_no_pod_away_that_the_watch_has_shown_since() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![terminating("1")]));
    assert_eq!(bench.silence(), [REFRESH]);
    assert_eq!(evicted(&bench.snapshot(with(vec![terminating("1"), pod("2")]))), ["2"]);
    bench.answer_relist(with(vec![terminating("1")]));
    assert_eq!((bench.attempt().gone(), bench.attempt().pods().len()), (0, 2), "served before the pod came");
}

#[test]
fn a_relist_brings_no_pod_back_that_the_watch_has_shown_gone_since() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![terminating("1"), terminating("2")]));
    assert_eq!(bench.silence(), [REFRESH]);
    bench.snapshot(with(vec![terminating("1")]));
    bench.answer_relist(with(vec![terminating("1"), terminating("2")]));
    assert_eq!((bench.attempt().gone(), bench.attempt().pods().len()), (1, 1), "served before the pod went");
    assert!(!bench.attempt().needs_second_check());
}

#[test]
fn what_both_have_not_changed_is_as_the_relist_says() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![terminating("1"), terminating("2")]));
    bench.silence();
    bench.answer_relist(with(vec![terminating("2"), terminating("3")]));
    assert_eq!(bench.attempt().pods().keys().collect::<Vec<_>>(), ["2", "3"], "the watch is late");
}

#[test]
fn the_answer_to_a_refresh_is_no_proof() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![terminating("1")]));
    assert_eq!(bench.silence(), [REFRESH]);
    assert_eq!(bench.snapshot(with(vec![])), [], "one look at a time");
    assert_eq!(bench.answer_relist(with(vec![])), [RELIST]);
    assert_eq!(bench.outcome(), None);
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn a_list_from_before_the_last_pod_came_is_no_proof() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![terminating("1")]));
    assert_eq!(bench.snapshot(with(vec![])), [RELIST]);
    assert_eq!(evicted(&bench.snapshot(with(vec![pod("2")]))), ["2"]);
    assert_eq!(bench.snapshot(with(vec![])), [], "one look at a time");
    assert_eq!(bench.answer_relist(with(vec![])), [RELIST], "served before the pod came");
    bench.after(seconds(2));
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), None, "the first of two");
}

#[test]
fn an_attachment_that_the_watch_shows_since_the_proof_was_asked_for_counts() {
    let mut bench = Bench::start();
    bench.snapshot(snapshot(vec![using("1", &["1"])], storage(&["1"], vec![])));
    assert_eq!(bench.snapshot(snapshot(vec![], storage(&["1"], vec![]))), [RELIST]);
    bench.snapshot(snapshot(vec![], storage(&["1"], vec![here("7")])));
    bench.answer_relist(snapshot(vec![], storage(&["1"], vec![])));
    assert_eq!(bench.outcome(), None, "the look was served before");
    assert_eq!(bench.attempt().volumes()["pv-7"].stage, VolumeStage::Detaching);
}

#[test]
fn a_relist_that_shows_more_attached_than_the_watch_is_repeated_soon() {
    let mut bench = Bench::start();
    bench.snapshot(snapshot(vec![using("1", &["1"])], storage(&["1"], vec![here("1")])));
    assert_eq!(bench.snapshot(snapshot(vec![], storage(&["1"], vec![]))), [RELIST]);
    assert_eq!(bench.answer_relist(snapshot(vec![], storage(&["1"], vec![here("1")]))), []);
    assert_eq!(bench.after(seconds(1)), [RELIST], "the watch publishes nothing: it has said all it knows");
    assert_eq!(bench.answer_relist(snapshot(vec![], storage(&["1"], vec![]))), [RELIST]);
}

/// Regression: the watch of attachments was never answered, while that of pods showed changes. Without a relist the attempt
/// failed for volumes that had been detached for minutes.
#[test]
fn a_detach_that_seems_to_take_long_is_checked_by_a_relist() {
    let mut bench = Bench::start();
    let both = || vec![here("1"), here("2")];
    let left = |attached: Vec<_>| snapshot(vec![using("2", &["2"])], storage(&["1", "2"], attached));
    bench.snapshot(snapshot(vec![using("1", &["1"]), using("2", &["2"])], storage(&["1", "2"], both())));
    bench.answer("1", Answer::Accepted);
    bench.snapshot(left(both()));
    for _ in 0..5 {
        assert_eq!(bench.after(seconds(10)), []);
        bench.snapshot(left(both()));
    }
    assert_eq!(bench.after(seconds(10)), [RELIST], "half of the two minutes");
    bench.answer_relist(left(vec![here("2")]));
    assert_eq!(bench.attempt().volumes()["pv-1"].stage, VolumeStage::Detached);
}

#[test]
fn a_relist_that_nobody_asked_for_is_ignored() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    let before = bench.state.clone();
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.state, before);
}

// After an outage.

#[test]
fn after_an_outage_a_relist_comes_before_any_eviction() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1"), pod("2")], 0, "1"));
    bench.answer("1", refusal());
    bench.answer("2", Answer::Throttled { after: None, text: "connection refused".into() });
    bench.send(Event::ApiAway);
    bench.after(seconds(40));
    assert_eq!(bench.send(Event::ApiBack), [REFRESH]);
    assert_eq!(bench.snapshot(guarded(vec![pod("1"), pod("2")], 2, "2")), [], "a watch may still be late");
    assert_eq!(bench.fails("no answer"), []);
    assert_eq!(bench.after(seconds(1)), [REFRESH], "tried again");
    let moved = PodView { id: crate::PodId { uid: "9".into(), ..pod("1").id }, ..pod("1") };
    assert_eq!(
        evicted(&bench.answer_relist(with(vec![pod("2"), moved]))),
        ["9", "2"],
        "the old pod 1 has ended meanwhile"
    );
}

#[test]
fn a_relist_from_before_an_outage_is_forgotten() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![terminating("1"), pod("2")]));
    bench.answer("2", Answer::Throttled { after: Some(seconds(300)), text: "busy".into() });
    assert_eq!(bench.silence(), [REFRESH]);
    bench.send(Event::ApiAway);
    assert_eq!(bench.send(Event::ApiBack), [], "one look at a time");
    assert_eq!(bench.answer_relist(with(vec![pod("3")])), [REFRESH], "its answer is old: asked again");
    assert!(!bench.attempt().pods().contains_key("3"));
}

// Looks in failed.

#[test]
fn a_proof_that_cannot_be_read_says_why_and_is_asked_for_ever_less_often() {
    let mut bench = Bench::start();
    assert_eq!(bench.snapshot(with(vec![])), [RELIST]);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert_eq!(bench.fails("cannot list pods: no answer within 10 s"), []);
        let next = bench.attempt().relist_free().expect("no relist is on its way");
        pauses.push(bench.now.until(next).as_millis());
        assert_eq!(bench.after(bench.now.until(next).max(seconds(1))), [RELIST]);
    }
    let bases = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 20_000, 20_000];
    for (pause, base) in pauses.iter().zip(bases) {
        assert!((base..=base * 5 / 4).contains(pause), "{pauses:?}");
    }
    let text = said(&bench);
    let expected = "a relist of the node gave no usable result, and is tried again: cannot list pods: no answer within 10 s";
    assert_eq!(text, expected);
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn the_end_of_a_drain_without_a_proof_is_not_that_pods_are_left() {
    let mut bench = Bench::with(Policy { attempt_timeout: seconds(60), ..Policy::device() }, None);
    bench.snapshot(with(vec![]));
    bench.fails("cannot list pods: no answer within 10 s");
    bench.after(seconds(59));
    bench.fails("cannot list pods: no answer within 10 s");
    bench.after(seconds(1));
    let Some(Outcome::Failed(failure)) = bench.outcome() else { panic!("{:?}", bench.outcome()) };
    let text = failure.to_string();
    assert!(
        text.starts_with(
            "the final check has not confirmed that the node is drained: the time is over; a relist of the \
             node gave no usable result"
        ),
        "{text}"
    );
    assert!(text.ends_with("cannot list pods: no answer within 10 s (2 times in 60 s)"), "{text}");
    assert!(!text.contains("pods are left"), "{text}");
}

#[test]
fn the_end_of_a_drain_with_attached_volumes_names_them() {
    let mut bench = Bench::with(Policy { attempt_timeout: seconds(60), ..Policy::device() }, None);
    bench.snapshot(with(vec![]));
    bench.answer_relist(snapshot(vec![], storage(&[], vec![here("7")])));
    bench.after(seconds(60));
    assert!(matches!(bench.outcome(), Some(Outcome::Failed(Failure::Volumes(_)))), "{:?}", bench.outcome());
}

#[test]
fn attachments_that_are_refused_for_a_moment_are_asked_for_again_and_for_long_end_the_attempt() {
    let refused = || {
        let text = "needs the right to `list` `volumeattachments`";
        let attachments = Attachments::Unreadable(text.into());
        snapshot(vec![], Storage { attachments, ..Storage::default() })
    };
    let mut bench = Bench::start();
    bench.snapshot(with(vec![]));
    assert_eq!(bench.answer_relist(refused()), []);
    assert!(said(&bench).contains("`list` `volumeattachments`"), "{}", said(&bench));
    assert_eq!(bench.after(seconds(1)), [RELIST]);
    let passing = bench.clone();
    bench.answer_relist(refused());
    bench.after(seconds(28));
    assert_eq!(bench.outcome(), None);
    bench.after(seconds(1));
    let failure = Failure::Blind("needs the right to `list` `volumeattachments`".into());
    assert_eq!(bench.outcome(), Some(Outcome::Failed(failure)));
    let mut bench = passing;
    bench.answer_relist(with(vec![]));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
    let mut policy = Policy::device();
    policy.volumes.on_detach_timeout = OnDetachTimeout::Proceed;
    let mut bench = Bench::with(policy, None);
    bench.snapshot(with(vec![]));
    bench.answer_relist(refused());
    assert_eq!(bench.outcome(), Some(Outcome::Drained), "the policy does without");
}

#[test]
fn claims_that_may_not_be_read_are_as_bad_as_attachments() {
    let text = "needs the right to `get` `persistentvolumeclaims`";
    let refused = || {
        let storage = Storage { claims_unreadable: Some(text.into()), ..storage(&[], vec![here("1")]) };
        snapshot(vec![staying("9", &["1"])], storage)
    };
    let mut bench = Bench::start();
    assert_eq!(bench.snapshot(with(vec![staying("9", &["1"])])), [RELIST]);
    assert_eq!(bench.answer_relist(refused()), []);
    assert!(bench.attempt().volumes().is_empty(), "nobody knows whether it belongs to the pod that stays");
    bench.after(seconds(29));
    assert_eq!(bench.outcome(), None);
    bench.after(seconds(1));
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Blind(text.into()))));
}

#[test]
fn relists_that_are_in_vain_for_long_end_an_attempt_that_waits_for_them() {
    for (name, pods, ends) in
        [("a proof", vec![], true), ("pods go on without", vec![terminating("1")], false)]
    {
        let mut bench = Bench::with(Policy { attempt_timeout: Duration::MAX, ..Policy::device() }, None);
        bench.snapshot(with(pods));
        for _ in 0..200 {
            bench.fails("cannot list volumeattachments: 503");
            bench.after(seconds(30));
        }
        let failure = Failure::Unproven("cannot list volumeattachments: 503".into());
        assert_eq!(bench.outcome(), ends.then_some(Outcome::Failed(failure)), "{name}");
        assert!(crate::progress::attempt(&bench.state).is_some());
    }
}
