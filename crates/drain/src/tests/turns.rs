//! Order groups, and pods with attached volumes one after another.

use std::time::Duration;

use super::*;
use crate::Effect;
use crate::answer::Answer;
use crate::policy::{Stateful, StatefulOrder, StatefulParallel, Volumes};
use crate::rule::Rule;
use crate::state::{Failure, Outcome};
use crate::storage::Attachments;
use crate::storage::{AttachmentView, Storage};
use crate::view::{Controller, PodView};
use crate::volumes::tests::{elsewhere, here, snapshot, storage, using};

const NONE: [&str; 0] = [];

/// A case's name, and what it changes.
type Change = (&'static str, fn(&mut PodView), fn(&mut Storage), fn(&mut Volumes));

fn bench(change: impl FnOnce(&mut Policy)) -> Bench {
    let mut policy = Policy::device();
    change(&mut policy);
    Bench::with(policy, None)
}

/// Pods 1 to 3 with a volume each and these priorities, all attached here.
fn three(priorities: [i32; 3]) -> Vec<PodView> {
    ["1", "2", "3"]
        .into_iter()
        .zip(priorities)
        .map(|(n, priority)| PodView { priority, ..using(n, &[n]) })
        .collect()
}

fn all(attachments: Vec<AttachmentView>) -> Storage {
    storage(&["1", "2", "3"], attachments)
}

fn attached() -> Vec<AttachmentView> {
    vec![here("1"), here("2"), here("3")]
}

#[test]
fn pods_with_volumes_leave_one_by_one_by_priority_and_others_beside_them() {
    for (order, parallel, expected) in [
        (StatefulOrder::HighestFirst, 1, vec!["0", "2"]),
        (StatefulOrder::LowestFirst, 1, vec!["0", "1"]),
        (StatefulOrder::HighestFirst, 2, vec!["0", "2", "3"]),
        (StatefulOrder::HighestFirst, 64, vec!["0", "2", "3", "1"]),
    ] {
        let parallel = StatefulParallel::Count(parallel);
        let mut bench = bench(|policy| policy.stateful = Stateful { parallel, order });
        let mut pods = three([-1, 9, 5]);
        pods.push(pod("0"));
        let effects = bench.snapshot(snapshot(pods, all(attached())));
        assert_eq!(evicted(&effects), expected, "{order:?} {parallel:?}");
    }
}

#[test]
fn the_next_turn_comes_when_the_volume_is_attached_elsewhere() {
    let mut bench = bench(|_| {});
    let pods = || three([0, 0, 0]);
    assert_eq!(evicted(&bench.snapshot(snapshot(pods(), all(attached())))), ["1"]);
    assert_eq!(evicted(&bench.answer("1", Answer::Accepted)), NONE);
    let left = || pods().split_off(1);
    assert_eq!(evicted(&bench.snapshot(snapshot(left(), all(attached())))), NONE, "gone, still attached");
    let detached = all(vec![here("2"), here("3")]);
    assert_eq!(evicted(&bench.snapshot(snapshot(left(), detached))), NONE, "detached, not yet elsewhere");
    let lines = crate::progress::volume_lines(bench.attempt());
    assert_eq!((lines[0].volume.as_str(), lines[0].stage), ("pv-1", "Attaching"));
    let moved = all(vec![elsewhere("1"), here("2"), here("3")]);
    assert_eq!(evicted(&bench.snapshot(snapshot(left(), moved))), ["2"]);
}

#[test]
fn nobody_waits_for_a_volume_that_will_not_be_attached_elsewhere() {
    let job = |pod: &mut PodView| {
        pod.controller = Some(Controller { kind: "Job".into(), uid: "j".into(), ..Controller::default() });
    };
    let nothing = |_: &mut PodView| {};
    let cases: [Change; 6] = [
        ("no controller", |pod| pod.controller = None, |_| {}, |_| {}),
        ("a job", job, |_| {}, |_| {}),
        ("t57 no other node takes pods", nothing, |storage| storage.peer_takes_pods = Some(false), |_| {}),
        ("no time for it", nothing, |_| {}, |volumes| volumes.reattach_timeout = Duration::ZERO),
        (
            "t46 no attachments to see",
            nothing,
            |storage| storage.attachments = Attachments::NotServed,
            |_| {},
        ),
        (
            "unknown whether another node takes pods: waits",
            nothing,
            |storage| storage.peer_takes_pods = None,
            |_| {},
        ),
    ];
    for (name, change, store, volumes) in cases {
        let mut bench = bench(|policy| volumes(&mut policy.volumes));
        let pods = || {
            let mut pods = three([0, 0, 0]);
            pods.iter_mut().for_each(change);
            pods
        };
        bench.snapshot(snapshot(pods(), all(attached())));
        bench.answer("1", Answer::Accepted);
        let mut gone = all(vec![here("2"), here("3")]);
        store(&mut gone);
        let mut snapshot = snapshot(pods().split_off(1), gone);
        if let Some(node) = &mut snapshot.node {
            node.volumes_attached =
                ["2", "3"].map(|n| format!("kubernetes.io/csi/csi.example^vol-{n}")).to_vec();
        }
        let effects = bench.snapshot(snapshot);
        assert_eq!(evicted(&effects).is_empty(), name.ends_with("waits"), "{name}");
    }
}

#[test]
fn a_reattach_that_takes_too_long_is_a_warning() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(three([0, 0, 0]), all(attached())));
    bench.answer("1", Answer::Accepted);
    bench.snapshot(snapshot(three([0, 0, 0]).split_off(1), all(vec![here("2"), here("3")])));
    assert_eq!(evicted(&bench.after(Duration::from_secs(89))), NONE);
    assert_eq!(evicted(&bench.after(Duration::from_secs(1))), ["2"]);
    let lines = crate::progress::volume_lines(bench.attempt());
    assert_eq!((lines[0].volume.as_str(), lines[0].stage), ("pv-1", "NotAttachedElsewhere"));
}

#[test]
fn a_detach_that_takes_too_long_lets_the_next_pod_go() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(three([0, 0, 0]), all(attached())));
    bench.answer("1", Answer::Accepted);
    bench.snapshot(snapshot(three([0, 0, 0]).split_off(1), all(attached())));
    assert_eq!(evicted(&bench.after(Duration::from_secs(119))), NONE);
    assert_eq!(evicted(&bench.after(Duration::from_secs(1))), ["2"]);
}

#[test]
fn a_pod_that_does_not_end_lets_the_next_one_go_after_its_grace_and_the_detach_timeout() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(three([0, 0, 0]), all(attached())));
    bench.answer("1", Answer::Accepted);
    let mut pods = three([0, 0, 0]);
    pods[0].terminating = crate::tests::terminating("1").terminating;
    bench.snapshot(snapshot(pods, all(attached())));
    assert_eq!(evicted(&bench.after(Duration::from_secs(149))), NONE, "30 s and 2 min");
    assert_eq!(evicted(&bench.after(Duration::from_secs(1))), ["2"]);
}

#[test]
fn the_pods_end_and_the_detach_have_one_limit_together() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(three([0, 0, 0]), all(attached())));
    bench.answer("1", Answer::Accepted);
    assert_eq!(evicted(&bench.after(Duration::from_secs(100))), NONE);
    assert_eq!(
        evicted(&bench.snapshot(snapshot(three([0, 0, 0]).split_off(1), all(attached())))),
        NONE,
        "gone"
    );
    assert_eq!(evicted(&bench.after(Duration::from_secs(49))), NONE);
    assert_eq!(evicted(&bench.after(Duration::from_secs(1))), ["2"]);
}

#[test]
fn a_refusal_ends_the_turn_and_another_one_begins_later() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(three([0, 0, 0]), all(attached())));
    assert_eq!(evicted(&bench.answer("1", refusal())), ["2"]);
    assert_eq!(evicted(&bench.after(Duration::from_secs(30))), NONE, "the second one has its turn");
    assert_eq!(evicted(&bench.answer("2", refusal())), ["1"], "its time has come again");
}

#[test]
fn pods_that_were_terminating_before_us_have_a_turn_too() {
    let mut bench = bench(|_| {});
    let mut pods = three([0, 0, 0]);
    pods[1].terminating = crate::tests::terminating("2").terminating;
    assert_eq!(evicted(&bench.snapshot(snapshot(pods, all(attached())))), NONE);
}

#[test]
fn a_shared_volume_does_not_hold_up_its_first_users_turn() {
    let mut bench = bench(|_| {});
    let shared = || vec![using("1", &["1"]), using("2", &["1"])];
    let store = || storage(&["1"], vec![here("1")]);
    assert_eq!(evicted(&bench.snapshot(snapshot(shared(), store()))), ["1"]);
    bench.answer("1", Answer::Accepted);
    assert_eq!(evicted(&bench.snapshot(snapshot(shared().split_off(1), store()))), ["2"]);
}

/// Pods with a volume each, numbered from 0, of these owners and priorities. Owner 0: the pod has no controller.
fn owned(pods: &[(u8, i32)]) -> Vec<PodView> {
    let owned = |(n, &(owner, priority)): (usize, &(u8, i32))| {
        let (pod, owner) = (n.to_string(), (owner > 0).then(|| format!("owner-{owner}")));
        let controller =
            owner.map(|uid| Controller { kind: "StatefulSet".into(), uid, ..Controller::default() });
        PodView { controller, priority, ..using(&pod, &[&pod]) }
    };
    pods.iter().enumerate().map(owned).collect()
}

/// A snapshot of these pods, whose volumes are all attached here.
fn owned_snapshot(pods: Vec<PodView>) -> Snapshot {
    let numbers: Vec<&str> = pods.iter().map(|pod| pod.id.uid.as_str()).collect();
    let store = storage(&numbers, numbers.iter().map(|n| here(n)).collect());
    snapshot(pods, store)
}

fn auto(order: StatefulOrder) -> Bench {
    bench(|policy| policy.stateful = Stateful { parallel: StatefulParallel::Auto, order })
}

#[test]
fn each_owner_lets_one_pod_of_the_first_priority_leave_at_a_time() {
    use StatefulOrder::{HighestFirst, LowestFirst};
    let ten: Vec<(u8, i32)> = (1..=10).map(|owner| (owner, 0)).collect();
    let all_ten = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    for (what, order, pods, expected) in [
        ("ten owners leave together", HighestFirst, ten, &all_ten[..]),
        ("two pods of an owner", HighestFirst, vec![(1, 0), (1, 0), (2, 0)], &["0", "2"]),
        ("a pod without a controller is its own owner", HighestFirst, vec![(0, 0), (0, 0)], &["0", "1"]),
        ("a lower priority waits", HighestFirst, vec![(1, -1), (2, 9), (3, 5), (4, 9)], &["1", "3"]),
        ("the lowest is first", LowestFirst, vec![(1, -1), (2, 9), (3, -1)], &["0", "2"]),
    ] {
        assert_eq!(evicted(&auto(order).snapshot(owned_snapshot(owned(&pods)))), expected, "{what}");
    }
}

#[test]
fn a_priority_waits_for_the_turns_of_the_higher_ones_and_for_no_refused_pod() {
    let mut bench = auto(StatefulOrder::HighestFirst);
    let pods = || owned(&[(1, 9), (1, 9), (2, 9), (3, 5)]);
    assert_eq!(evicted(&bench.snapshot(owned_snapshot(pods()))), ["0", "2"]);
    assert_eq!(evicted(&bench.answer("0", refusal())), ["1"], "its owner's next pod");
    assert_eq!(evicted(&bench.answer("1", refusal())), NONE, "one of the priority is still on its way");
    assert_eq!(evicted(&bench.answer("2", refusal())), ["3"], "all of the priority are refused");
    let again = bench.after(bench.policy.retry * 2);
    assert_eq!(evicted(&again), ["0", "2"], "a lower priority that is on its way holds up no higher one");
}

fn ordered(orders: &[(&str, i32)]) -> Vec<Rule> {
    let rule = |&(name, order): &(&str, i32)| Rule {
        name: name.to_owned(),
        selector: Some(selector::Selector {
            requirements: vec![selector::Requirement::In("app".into(), vec![name.to_owned()])],
        }),
        order,
        ..Rule::default()
    };
    orders.iter().map(rule).collect()
}

fn app(uid: &str, app: &str) -> PodView {
    let mut pod = pod(uid);
    pod.labels.insert("app".into(), app.into());
    pod
}

#[test]
fn a_higher_order_leaves_when_all_of_the_lower_are_gone() {
    let mut bench = bench(|policy| policy.rules = ordered(&[("web", -5), ("db", 10)]));
    let (web, plain, db) = (app("1", "web"), pod("2"), app("3", "db"));
    assert_eq!(evicted(&bench.snapshot(with(vec![web.clone(), plain.clone(), db.clone()]))), ["1"]);
    bench.answer("1", Answer::Accepted);
    let going = PodView { terminating: crate::tests::terminating("1").terminating, ..web };
    assert_eq!(evicted(&bench.snapshot(with(vec![going, plain.clone(), db.clone()]))), NONE);
    assert_eq!(evicted(&bench.snapshot(with(vec![plain, db.clone()]))), ["2"]);
    assert_eq!(evicted(&bench.answer("2", refusal())), NONE, "blocked is not gone");
    assert_eq!(evicted(&bench.snapshot(with(vec![db]))), ["3"]);
}

#[test]
fn a_higher_order_waits_for_the_lower_ones_volumes() {
    let mut bench = bench(|policy| policy.rules = ordered(&[("driver", 10)]));
    let store = || storage(&["1"], vec![here("1")]);
    let driver = || app("9", "driver");
    assert_eq!(evicted(&bench.snapshot(snapshot(vec![using("1", &["1"]), driver()], store()))), ["1"]);
    bench.answer("1", Answer::Accepted);
    assert_eq!(evicted(&bench.snapshot(snapshot(vec![driver()], store()))), NONE);
    assert_eq!(evicted(&bench.snapshot(snapshot(vec![driver()], storage(&["1"], vec![])))), ["9"]);
}

#[test]
fn a_driver_is_not_evicted_while_a_volume_hangs_on_it() {
    let mut bench = bench(|policy| policy.rules = ordered(&[("driver", 10)]));
    let store = || storage(&["1"], vec![here("1")]);
    bench.snapshot(snapshot(vec![using("1", &["1"]), app("9", "driver")], store()));
    bench.answer("1", Answer::Accepted);
    bench.snapshot(snapshot(vec![app("9", "driver")], store()));
    assert_eq!(evicted(&bench.after(Duration::from_mins(2))), NONE);
    assert!(matches!(bench.outcome(), Some(Outcome::Failed(Failure::Volumes(_)))));
}

#[test]
fn all_of_the_lowest_order_refused_for_good_is_stuck() {
    let mut bench = bench(|policy| policy.rules = ordered(&[("db", 10)]));
    bench.snapshot(with(vec![pod("1"), app("2", "db")]));
    bench.answer("1", Answer::Rejected { text: "no".into() });
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Stuck)));
}

#[test]
fn a_wake_up_never_lies_in_the_past() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(three([0, 0, 0]), all(attached())));
    bench.answer("1", refusal());
    // The first one is due again, and waits for the second one's turn to end.
    bench.now = bench.now + Duration::from_mins(1);
    let (_, effects) = crate::step(bench.state.clone(), crate::Event::Tick, bench.now, &bench.policy);
    let later = |effect: &Effect| matches!(effect, Effect::WakeAt(at) if *at > bench.now);
    assert!(effects.iter().any(later), "{effects:?}");
}

/// A pod of the node that belongs to the one with this UID.
fn child(uid: &str, parent: &str) -> PodView {
    let controller = Controller { kind: "Pod".into(), uid: parent.into(), ..Controller::default() };
    PodView { controller: Some(controller), ..pod(uid) }
}

/// kubevirt#13523: the pod with the hot-plugged disk of a machine left before the machine.
#[test]
fn a_pod_that_belongs_to_another_leaves_after_it() {
    let mut bench = Bench::start();
    let pods = || vec![child("disk", "vm"), child("probe", "disk"), pod("vm")];
    assert_eq!(evicted(&bench.snapshot(guarded(pods(), 0, "1"))), ["vm"]);
    bench.answer("vm", refusal());
    let lines = crate::progress::lines(bench.attempt(), bench.now);
    let of = |uid: &str| lines.iter().find(|line| line.id.uid == uid).unwrap().detail.clone();
    assert_eq!(of("disk"), "waits until pod a/pod-vm has left, which it belongs to");
    assert_eq!(of("probe"), "waits until pod a/pod-disk has left, which it belongs to");
    assert_eq!(evicted(&bench.snapshot(with(vec![child("disk", "vm"), child("probe", "disk")]))), ["disk"]);
    assert_eq!(evicted(&bench.snapshot(with(vec![child("probe", "disk")]))), ["probe"]);
}

#[test]
fn who_waits_for_nobody() {
    let ordered = |order| Rule { order, selector: Some("late".parse().unwrap()), ..Rule::default() };
    let late = || PodView { labels: [("late".to_owned(), String::new())].into(), ..pod("vm") };
    for (what, pods, expected) in [
        ("its owner is no pod of the node", vec![child("a", "x")], &["a"][..]),
        ("each belongs to the other", vec![child("a", "b"), child("b", "a")], &["a", "b"]),
        ("it belongs to itself", vec![child("a", "a")], &["a"]),
        (
            "its owner belongs to a circle",
            vec![child("a", "b"), child("b", "c"), child("c", "b")],
            &["a", "b", "c"],
        ),
        ("a rule has its owner leave later", vec![child("a", "vm"), late()], &["a"]),
    ] {
        let mut bench = Bench::with(Policy { rules: vec![ordered(1)], ..Policy::device() }, None);
        assert_eq!(evicted(&bench.snapshot(with(pods))), expected, "{what}");
    }
}

#[test]
fn what_belongs_to_a_pod_that_cannot_leave_does_not_keep_the_attempt_alive() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![child("disk", "vm"), pod("vm")]));
    bench.answer("vm", Answer::Rejected { text: "no".into() });
    assert_eq!(bench.outcome(), Some(Outcome::Failed(Failure::Stuck)));
}
