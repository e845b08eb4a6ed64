//! A pod that its owner creates again on this node each time.

use super::*;
use crate::attempt::LATE_BINDING;
use crate::diagnosis::{BlockedBy, blocked};
use crate::pod::RETURN_PAUSE as PAUSE;
use crate::view::{Controller, PodView};

fn of(owner: &str, uid: &str) -> PodView {
    let controller = Controller {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name: "db".into(),
        uid: owner.into(),
        ..Controller::default()
    };
    PodView { controller: Some(controller), ..pod(uid) }
}

/// An attempt whose cordon lies long enough back that no scheduler binds a pod from an old cache.
fn settled() -> Bench {
    let mut bench = Bench::start();
    bench.now = bench.now + LATE_BINDING;
    bench
}

#[test]
fn a_pod_that_returns_for_ever_is_evicted_slowly_and_named() {
    let mut bench = settled();
    for uid in ["0", "1", "2"] {
        assert_eq!(evicted(&bench.snapshot(with(vec![of("set", uid)]))), [uid], "at once");
    }
    assert_eq!(evicted(&bench.snapshot(with(vec![of("set", "3")]))), [""; 0], "the third time");
    let told = blocked(bench.attempt(), bench.now).remove(0);
    let cause = "ReturnsToNode: StatefulSet/db has created it again on this node 3 times since the drain began; it is \
                 evicted slowly from now on";
    assert_eq!(told.cause, cause);
    assert_eq!(evicted(&bench.after(PAUSE.checked_sub(Duration::from_millis(1)).unwrap())), [""; 0]);
    assert_eq!(evicted(&bench.after(Duration::from_millis(1))), ["3"]);
}

fn names_node(pod: PodView) -> PodView {
    PodView { names_node: true, ..pod }
}

fn tolerates(pod: PodView) -> PodView {
    PodView { tolerates_cordon: true, ..pod }
}

/// A pod of an owner of this kind.
fn of_kind(api_version: &str, kind: &str, uid: &str) -> PodView {
    let controller = Controller {
        api_version: api_version.into(),
        kind: kind.into(),
        ..of("set", uid).controller.unwrap()
    };
    PodView { controller: Some(controller), ..pod(uid) }
}

/// F1.
#[test]
fn a_pod_that_is_put_on_the_node_is_left_alone_from_its_second_return_on() {
    let label = "let the drain leave the pod: kubectl -n a label pod pod-2 ebb.dev/drain=skip";
    let skip = |kind: &str| {
        format!(
            "an owner of kind {kind} ignores cordons: {label}; or give the template of {kind}/db that label; or write for this kind a \
             [[rule]] with owner-kind = \"{kind}\" and behaviour = \"skip\" into the settings"
        )
    };
    let cases: [(fn(&str) -> PodView, String); 4] = [
        (|uid| of_kind("apps.kruise.io/v1alpha1", "DaemonSet", uid), skip("DaemonSet")),
        (|uid| tolerates(of_kind("apps.kruise.io/v1alpha1", "DaemonSet", uid)), skip("DaemonSet")),
        (|uid| names_node(of_kind("longhorn.io/v1beta2", "InstanceManager", uid)), skip("InstanceManager")),
        (
            |uid| names_node(of_kind("apps/v1", "StatefulSet", uid)),
            format!(
                "the pod template of StatefulSet/db names this node (spec.nodeName): delete StatefulSet/db, or remove \
                 nodeName; or {label}"
            ),
        ),
    ];
    for (pod, hint) in cases {
        // It counts from the cordon on: no scheduler may have bound it late.
        let mut bench = Bench::start();
        for uid in ["0", "1"] {
            assert_eq!(evicted(&bench.snapshot(with(vec![pod(uid)]))), [uid], "{hint}");
        }
        assert_eq!(evicted(&bench.snapshot(with(vec![pod("2")]))), [""; 0], "{hint}");
        // The kubelet writes the pod's status, and with it the condition of a scheduler: what is known stays known.
        let seen = PodView { names_node: false, ..pod("2") };
        bench.snapshot(with(vec![seen.clone()]));
        let told = blocked(bench.attempt(), bench.now).remove(0);
        assert!(
            told.cause.ends_with("2 times since the drain began; it is not evicted again in this attempt"),
            "{told:?}"
        );
        assert_eq!((told.hint, told.by), (hint, BlockedBy::Recreated));
        assert_eq!(evicted(&bench.after(Duration::from_hours(23))), [""; 0]);
        assert_eq!(evicted(&bench.answer_relist(with(vec![seen.clone()]))), [""; 0]);
        assert_eq!(bench.outcome(), None);

        let mut left = seen;
        left.labels.insert(crate::plan::DRAIN_LABEL.into(), "skip".into());
        let effects = bench.snapshot(with(vec![left.clone()]));
        assert!(matches!(effects[..], [Effect::Relist { .. }]), "the drain goes on at once: {effects:?}");
        bench.answer_relist(with(vec![left.clone()]));
        bench.after(bench.policy.settle);
        bench.answer_relist(with(vec![left]));
        assert_eq!(bench.outcome(), Some(crate::Outcome::Drained));
    }
}

/// A scheduler may bind it elsewhere the next time, so it is evicted again, slowly at last.
#[test]
fn a_pod_that_tolerates_the_cordon_is_evicted_again_and_named() {
    for (pod, hint) in [
        (of_kind("apps/v1", "StatefulSet", "0"), "StatefulSet/db tolerates the cordon: scale it down"),
        (of_kind("example.org/v1", "NodeSet", "0"), "NodeSet/db tolerates the cordon: let the drain leave"),
    ] {
        let mut bench = settled();
        for uid in ["0", "1", "2"] {
            let id = crate::view::PodId { uid: uid.into(), ..pod.id.clone() };
            assert_eq!(evicted(&bench.snapshot(with(vec![tolerates(PodView { id, ..pod.clone() })]))), [uid]);
        }
        let told = blocked(bench.attempt(), bench.now).remove(0);
        assert!(told.hint.starts_with(hint), "{told:?}");
    }
}

/// kubectl takes them for ordinary pods, so they are evicted and not left.
#[test]
fn only_the_return_tells_that_an_owner_puts_its_pod_here() {
    for pod in [of_kind("apps.kruise.io/v1alpha1", "DaemonSet", "0"), names_node(of("set", "0"))] {
        assert_eq!(crate::plan::judge(&pod, &Policy::device()).verdict, crate::Verdict::Evict);
        assert!(pod.is_placed_here());
    }
    assert!(!tolerates(of("set", "0")).is_placed_here());
    assert!(!of_kind("apps/v1", "DaemonSet", "0").is_placed_here(), "they stay anyway");
}

#[test]
fn a_replacement_beside_a_pod_that_is_still_going_counts_too() {
    let mut bench = settled();
    bench.snapshot(with(vec![of("set", "0")]));
    let going = PodView { controller: of("set", "0").controller, ..terminating("0") };
    bench.snapshot(with(vec![going.clone()]));
    bench.snapshot(with(vec![going, of("set", "1")]));
    assert_eq!(bench.track("1").returns(), 1);
}

/// A busy machine sees in one snapshot that a pod is going and that its replacement has come, in the order of their names.
#[test]
fn a_replacement_counts_wherever_it_stands_in_the_snapshot() {
    for is_first in [false, true] {
        let mut bench = settled();
        bench.snapshot(with(vec![of("set", "0")]));
        let going = PodView { controller: of("set", "0").controller, ..terminating("0") };
        let mut pods = vec![going, of("set", "1")];
        if is_first {
            pods.reverse();
        }
        bench.snapshot(with(pods));
        assert_eq!(bench.track("1").returns(), 1, "the replacement comes first: {is_first}");
    }
}

#[test]
fn others_do_not_return() {
    let bare = |uid: &str| PodView { controller: None, ..pod(uid) };
    for (before, after) in
        [(of("set", "0"), of("other", "1")), (bare("0"), bare("1")), (of("set", "0"), bare("1"))]
    {
        let mut bench = settled();
        bench.snapshot(with(vec![before.clone()]));
        bench.snapshot(with(vec![after.clone()]));
        assert_eq!(bench.track("1").returns(), 0, "{before:?} {after:?}");
    }
    let mut bench = settled();
    bench.snapshot(with(vec![of("set", "0"), of("set", "1")]));
    assert_eq!(bench.track("1").returns(), 0, "both were there from the beginning");
    bench.snapshot(with(vec![of("set", "0"), of("set", "1"), of("set", "2")]));
    assert_eq!(bench.track("2").returns(), 0, "nobody has left yet");
}

#[test]
fn pods_that_come_together_are_one_return() {
    let mut bench = settled();
    let many = |uids: &[&str]| with(uids.iter().map(|uid| of("set", uid)).collect());
    bench.snapshot(many(&["a", "b", "c"]));
    assert_eq!(evicted(&bench.snapshot(many(&["1", "2", "3", "4", "5"]))).len(), 5, "all at once");
    for uid in ["1", "2", "3", "4", "5"] {
        assert_eq!(bench.track(uid).returns(), 1, "{uid}");
    }
    bench.snapshot(many(&["2", "3", "4", "5", "6"]));
    assert_eq!((bench.track("5").returns(), bench.track("6").returns()), (1, 2), "made after 1 was evicted");
    // The others of the first round leave, and are created again: that is the second round as well.
    bench.snapshot(many(&["6", "7", "8"]));
    assert_eq!((bench.track("7").returns(), bench.track("8").returns()), (2, 2));
}

#[test]
fn what_was_bound_before_or_just_after_the_cordon_does_not_count() {
    let window = |api_back: bool| {
        let mut bench = Bench::start();
        bench.snapshot(with(vec![of("set", "0")]));
        if api_back {
            bench.send(crate::Event::ApiAway);
            bench.after(Duration::from_secs(30));
            bench.send(crate::Event::ApiBack);
            // Nothing is sent after an outage before a look.
            bench.answer_relist(with(vec![of("set", "0")]));
        }
        bench
    };
    for (api_back, late) in [(false, LATE_BINDING), (true, crate::policy::STALE_SCHEDULER)] {
        let mut bench = window(api_back);
        bench.now = bench.now + late.checked_sub(Duration::from_millis(1)).unwrap();
        for uid in ["1", "2", "3", "4", "5"] {
            assert_eq!(evicted(&bench.snapshot(with(vec![of("set", uid)]))), [uid], "{api_back}");
            assert_eq!(bench.track(uid).returns(), 0, "{api_back}");
        }
        bench.now = bench.now + Duration::from_millis(1);
        bench.snapshot(with(vec![of("set", "6")]));
        assert_eq!(bench.track("6").returns(), 1, "{api_back}");
    }
}

#[test]
fn a_pod_whose_way_here_is_not_known_is_not_said_to_name_the_node() {
    let mut bench = settled();
    bench.snapshot(with(vec![of("set", "0")]));
    bench.snapshot(with(vec![of("set", "1")]));
    let told = blocked(bench.attempt(), bench.now).remove(0);
    assert!(!told.hint.contains("delete") && told.hint.contains("scale StatefulSet/db down"), "{told:?}");
    assert!(told.hint.contains("look whether") && told.hint.contains("spec.nodeName"), "{told:?}");
    let mut bench = settled();
    for uid in ["0", "1"] {
        bench.snapshot(with(vec![of_kind("example.org/v1", "Widget", uid)]));
    }
    let told = blocked(bench.attempt(), bench.now).remove(0);
    assert!(told.hint.contains("look whether Widget/db names") && !told.hint.contains("scale"), "{told:?}");
}
