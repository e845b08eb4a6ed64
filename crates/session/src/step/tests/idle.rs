//! What is asked and said while there is no request.

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::membership::{Facts, Mode};
use crate::policy::OnUnavailable::{Complete, Wait};
use crate::state::Remembered;
use crate::step::sim::{Fault, SECOND, Sim};
use crate::words;
use schemas::DrainRequester::DeviceOp;

const MINUTE: Duration = Duration::from_mins(1);

/// When the request comes it is too late: the node goes down without a drain after five minutes.
#[test]
fn an_idle_agent_says_what_it_cannot_see() {
    let cases: [(&str, fn(&mut Sim), &str, &str); 5] = [
        (
            "API",
            |sim| sim.set(Fault::Unreachable, true),
            "API server cannot be reached",
            "look at the API server",
        ),
        (
            "rights",
            |sim| sim.set(Fault::LooksDenied, true),
            "the nodes of the cluster could not be read: may not list nodes",
            "give zedkube's user the right",
        ),
        (
            "identity",
            |sim| sim.set(Fault::NodeUnknown, true),
            "no Node of this cluster is this machine",
            "set node.name",
        ),
        (
            "the slots",
            |sim| {
                sim.state.slots.table = None;
                sim.set(Fault::SlotsRefused, true);
            },
            "slots of the cluster cannot be read",
            "slots.limit = 0",
        ),
        (
            "access",
            |sim| sim.send(Event::Facts(Facts { mode: Mode::Auto, has_kubelet: true, ..Facts::default() })),
            "a kubelet runs on this machine, and zedkube has no kubeconfig",
            "cluster.mode = never",
        ),
    ];
    for (what, fault, reason, hint) in cases {
        let mut sim = Sim::new();
        sim.pass(2 * MINUTE);
        assert_eq!(words::reason(&sim.state), "nobody asks for a drain", "{what}");
        assert_eq!(words::hint(&sim.state, sim.now), "", "{what}");
        fault(&mut sim);
        sim.pass(2 * MINUTE);
        assert_eq!(sim.state.published.status, DrainStatus::NotRequested, "{what}");
        let said = words::reason(&sim.state);
        assert!(said.starts_with("no drain would be possible now: "), "{what}: {said}");
        assert!(said.contains(reason), "{what}: {said}");
        assert!(
            words::hint(&sim.state, sim.now).contains(hint),
            "{what}: {}",
            words::hint(&sim.state, sim.now)
        );
        if what == "access" {
            continue;
        }
        sim.faults.clear();
        sim.pass(2 * MINUTE);
        assert_eq!(words::reason(&sim.state), "nobody asks for a drain", "{what} works again");
    }
}

/// A device at rest, whose Node is watched, and the calls that it makes.
fn at_rest() -> (Sim, Rc<Cell<[u32; 5]>>) {
    let mut sim = Sim::new();
    sim.pass(2 * SECOND);
    sim.send(Event::OwnSeen(Some(sim.own.clone())));
    sim.pass(2 * MINUTE);
    let calls = sim.count_calls();
    (sim, calls)
}

/// Six a minute were 6,000 for a thousand nodes, each with a list of a thousand nodes.
#[test]
fn a_device_at_rest_asks_for_next_to_nothing() {
    let (mut sim, calls) = at_rest();
    sim.pass(600 * MINUTE);
    let [samples, lists, own, reads, writes] = calls.get();
    assert!((16..=20).contains(&samples) && (8..=10).contains(&reads), "{samples} samples, {reads} reads");
    assert_eq!([lists, own, writes], [0; 3]);
}

/// A thousand agents that ask every 5 s hold a server down that comes back. But a device that may go down undrained has to
/// know that the server was away for all of `api.unreachable-timeout`: it does not miss a return of some seconds.
#[test]
fn a_server_that_is_away_is_asked_twice_a_minute_unless_the_outage_decides_a_drain() {
    let count = |sim: &mut Sim, calls: &Cell<[u32; 5]>, minutes: u32| {
        calls.set([0; 5]);
        sim.pass(minutes * MINUTE);
        calls.get().iter().sum::<u32>()
    };
    for (fault, asks, on_unreachable) in [
        (Fault::Unreachable, false, Complete),
        (Fault::Unreachable, true, Wait),
        (Fault::Unreachable, true, Complete),
        (Fault::Busy, false, Complete),
        (Fault::Busy, true, Complete),
    ] {
        let (mut sim, calls) = at_rest();
        sim.policy.on_unreachable = on_unreachable;
        sim.others_hold(&["peer"]);
        sim.send(Event::SlotsSeen(sim.slots.clone()));
        sim.pass(2 * MINUTE);
        sim.set(fault, true);
        sim.send(Event::OwnWatchFailed);
        if asks {
            sim.reboot();
        }
        sim.pass(4 * MINUTE);
        let (quiet, decisive) = (count(&mut sim, &calls, 20), count(&mut sim, &calls, 6));
        assert!((30..=40).contains(&quiet), "{fault:?} {asks} {on_unreachable:?}: {quiet} in 20 min");
        let decides = (fault, asks, on_unreachable) == (Fault::Unreachable, true, Complete);
        let expected = if decides { 60..=73 } else { 9..=12 };
        assert!(expected.contains(&decisive), "{fault:?} {asks} {on_unreachable:?}: {decisive} in 6 min");
        sim.pass(10 * SECOND);
        assert_eq!(
            sim.outcome().is_some(),
            decides,
            "a server that is busy is not away, and has refused nothing"
        );
        sim.set(fault, false);
        sim.pass(40 * SECOND);
        assert_eq!(sim.state.api.failing_since, None);
    }
}

#[test]
fn whatever_a_drain_depends_on_ends_the_rest() {
    let within_10_s: [(&str, fn(&mut Sim), [u32; 4]); 6] = [
        ("the watch fails", |sim| sim.send(Event::OwnWatchFailed), [0, 1, 0, 0]),
        ("our Node is gone", |sim| sim.send(Event::OwnSeen(None)), [0, 1, 0, 0]),
        (
            "another Node has our name",
            |sim| sim.send(Event::OwnSeen(Some(NodeView { uid: "new".into(), ..sim.own.clone() }))),
            [0, 1, 0, 0],
        ),
        (
            "EVE says that the device is in no cluster",
            |sim| sim.send(Event::Facts(Facts { eve_config_valid: Some(false), ..sim.facts })),
            [1, 0, 0, 0],
        ),
        ("somebody asks for a drain", Sim::reboot, [0, 1, 2, 0]),
        ("nothing", |_| {}, [0; 4]),
    ];
    for (what, happens, expected) in within_10_s {
        let (mut sim, calls) = at_rest();
        sim.policy.slots_limit = 0;
        happens(&mut sim);
        sim.pass(10 * SECOND);
        assert_eq!(calls.get()[1..3], expected[1..3], "{what}");
        assert!(calls.get()[0] >= expected[0], "{what}");
    }
    let at_the_next_sample: [(&str, fn(&mut Sim)); 3] = [
        ("a node has come", |sim| {
            let new = NodeView { name: "new".into(), uid: "new".into(), ..sim.others[0].clone() };
            sim.others.push(new);
        }),
        ("a node has gone", |sim| sim.others.truncate(1)),
        ("another cluster", |sim| sim.cluster = Some("second".into())),
    ];
    for (what, happens) in at_the_next_sample {
        let (mut sim, calls) = at_rest();
        let second = NodeView { name: "second".into(), uid: "second".into(), ..sim.others[0].clone() };
        sim.others.push(second);
        sim.pass(60 * MINUTE);
        calls.set([0; 5]);
        happens(&mut sim);
        sim.pass(38 * MINUTE);
        assert!(calls.get()[1] > 0, "{what}: {:?}", calls.get());
        let known: Vec<&str> = sim.state.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(known.len(), sim.others.len() + 1, "{what}: {known:?}");
    }
}

/// The device goes down without a drain if it takes itself for the only one, or if nobody can take its pods.
#[test]
fn what_nobody_would_tell_is_asked_for_each_minute() {
    let cases: [(&str, fn(&mut Sim)); 3] = [
        ("no other node can take pods", |sim| sim.others[0].cordoned = true),
        ("the only node", |sim| sim.others.clear()),
        ("our Node may not be watched", |sim| sim.send(Event::OwnWatchFailed)),
    ];
    for (what, happens) in cases {
        let (mut sim, calls) = at_rest();
        happens(&mut sim);
        sim.pass(38 * MINUTE);
        calls.set([0; 5]);
        for _ in 0..90 {
            happens(&mut sim);
            sim.pass(20 * SECOND);
        }
        assert_eq!(calls.get()[1], 30, "{what}: {:?}", calls.get());
    }
}

#[test]
fn a_device_in_no_cluster_has_nothing_to_complain_of() {
    let mut sim = Sim::new();
    sim.send(Event::Facts(Facts { mode: Mode::Never, has_kubelet: true, ..Facts::default() }));
    sim.set(Fault::Unreachable, true);
    sim.pass(10 * MINUTE);
    assert_eq!(words::reason(&sim.state), "not a member of a cluster: nothing has to be drained");
    assert_eq!(words::hint(&sim.state, sim.now), "");
}

/// Renamed host, changed machine ID, lost label: after the boot zedkube cannot find the node that it has cordoned.
#[test]
fn a_cordon_that_nobody_takes_back_is_told_of() {
    let mut sim = Sim::new();
    assert_eq!(sim.state.remembered, None);
    sim.ask(&[(DeviceOp, "1")]);
    sim.pass(MINUTE);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    let left = Remembered { node: "own".into(), node_uid: "own".into(), cluster: sim.cluster.clone() };
    assert_eq!(sim.state.remembered, Some(left.clone()));

    // The next boot: zedkube starts with what it has stored.
    let mut state = State::new(Member::Yes, "next boot".into(), sim.now);
    state.remembered = Some(left);
    sim.state = state;
    sim.set(Fault::NodeUnknown, true);
    sim.pass(MINUTE);
    let said = words::reason(&sim.state);
    assert!(
        said.starts_with("our cordon or slot may still be on node own, and nobody takes it back"),
        "{said}"
    );
    assert!(said.contains("no Node of this cluster is this machine"), "{said}");
    let hint = words::hint(&sim.state, sim.now);
    assert!(hint.contains("ebb uncordon --force own, ebb slots release own"), "{hint}");

    // This machine is now another Node, which is Ready.
    sim.faults.clear();
    sim.set(Fault::TakenForPeer, true);
    sim.pass(MINUTE);
    let said = words::reason(&sim.state);
    assert!(said.starts_with("our cordon or slot may still be on node own"), "{said}");

    // The node is found again: it is uncordoned, read once more, and forgotten.
    sim.faults.clear();
    sim.own.boot_id = "next boot".into();
    sim.state.own = None;
    sim.pass(5 * MINUTE);
    assert_eq!((sim.own.cordoned, sim.slots.holders.len()), (false, 0));
    assert_eq!(sim.state.remembered, None);
    assert_eq!(words::reason(&sim.state), "nobody asks for a drain");
}

#[test]
fn a_node_that_is_gone_is_forgotten() {
    let mut sim = Sim::new();
    sim.state.remembered = Some(Remembered { node: "old".into(), node_uid: "old".into(), cluster: None });
    sim.set(Fault::Unreachable, true);
    sim.pass(30 * SECOND);
    assert!(sim.state.remembered.is_some(), "nothing was seen");
    sim.faults.clear();
    sim.set(Fault::NodeUnknown, true);
    sim.pass(MINUTE);
    assert!(sim.state.remembered.is_some(), "it may be another cluster");
    sim.faults.clear();
    sim.pass(MINUTE);
    assert_eq!(sim.state.remembered, None);
}
